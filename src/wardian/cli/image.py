"""`wardian image`: images of one's own as cells."""

import json
import sys
from functools import partial
from typing import Annotated

import anyio
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wardian.cli.console import errors_end_the_command, stderr
from wardian.sandbox.adoption.adopt import Adoption
from wardian.sandbox.adoption.adopt import adopt as adopt_image

WIDTH = 140


def register(app: typer.Typer) -> None:
    """Add this module's command to `app`."""
    image = typer.Typer(no_args_is_help=True, help="Images of your own as cells.")
    image.callback()(_group)
    image.command()(adopt)
    app.add_typer(image, name="image")


def _group() -> None:
    """Images of your own as cells."""


def adopt(
    image: Annotated[str, typer.Argument(help="A local image for Linux, by name or id.")],
    tag: Annotated[str, typer.Option(help="A second name for what is made. Default: only the one that says what is in it.")] = "",
    allow_git_history: Annotated[
        bool, typer.Option("--allow-git-history", help="Keep it whatever its git repositories hold beside HEAD and its past.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
) -> None:
    """Make an image that cells can run from one of yours, and try it in each tier.

    Exits with 1 when no tier works, or when an agent could read later commits in it.
    """
    console = stderr()
    with errors_end_the_command():
        adopting = partial(adopt_image, allow_history=allow_git_history)
        found = anyio.run(adopting, image, tag, lambda line: console.print(line, style="dim", markup=False))
    if as_json:
        print(json.dumps(found.as_json(), indent=2))
    else:
        _print(found)
    raise typer.Exit(0 if found.usable else 1)


def _print(found: Adoption) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    table = Table("tier", "check", "", "found", title=f"{found.source.name} as a cell", title_justify="left")
    for trial in found.trials:
        for finding in trial.findings:
            mark = "[green]works[/]" if finding.passed else "[red]does not work[/]"
            table.add_row(trial.tier.value, finding.check, mark, escape(finding.detail))
    console.print(table)
    if found.source.lacking:
        console.print(f"added, since the image lacks it: {', '.join(found.source.lacking)}", markup=False)
    if found.image.environment:
        console.print(f"variables that commands get: {', '.join(name for name, _ in found.image.environment)}", markup=False)
    for name, text in found.source.not_taken_over().items():
        console.print(f"not taken over: {name} {text}", markup=False)
    for history in found.histories:
        console.print(f"git: {history}", markup=False, style="" if history.clean else "yellow", soft_wrap=True)
        for commit in history.shown:
            console.print(f"  {commit}", markup=False, soft_wrap=True)
    if not found.works:
        console.print("no tier works with this image: nothing was kept", style="bold red")
        return
    if not found.usable:
        console.print(
            "an agent could read the answer there: nothing was kept. Take it out of the image (docs/images.md has the lines), "
            "or give --allow-git-history",
            style="bold red",
            soft_wrap=True,
        )
        return
    print(found.tag or found.image.reference)
