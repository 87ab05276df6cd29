"""Commands about the engine and what stands in it: `doctor`, `build-images`, `reap`."""

import json
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wardian.sandbox.doctor import Diagnosis, Status, diagnose
from wardian.sandbox.errors import SandboxError
from wardian.sandbox.images import ensure_images

STYLES = {Status.OK: "green", Status.WARNING: "yellow", Status.FAILURE: "red"}


def register(app: typer.Typer) -> None:
    """Add this module's commands to `app`."""
    app.command()(doctor)
    app.command("build-images")(build_images)


def doctor(as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False) -> None:
    """Say what this machine and its engine give to cells, and what to do where something is missing."""
    diagnosis = diagnose()
    if as_json:
        print(json.dumps(diagnosis.as_json(), indent=2))
    else:
        _print_table(diagnosis)
    raise typer.Exit(0 if diagnosis.usable else 1)


def build_images() -> None:
    """Build the images that cells run, where the engine lacks them."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    try:
        references = ensure_images(lambda line: console.print(line, style="dim", markup=False))
    except SandboxError as error:
        console.print(str(error), style="red", markup=False)
        raise typer.Exit(1) from error
    print("images ready: " + " ".join(references))


def _print_table(diagnosis: Diagnosis) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    table = Table("check", "found", "what to do", title="Wardian doctor", title_justify="left")
    for check in diagnosis.checks:
        found = "unknown" if check.value is None else str(check.value)
        table.add_row(check.name, f"[{STYLES[check.status]}]{escape(found)}[/] [dim]{escape(check.detail)}[/]", escape(check.what_to_do))
    console.print(table)
    console.print("usable" if diagnosis.usable else "not usable: mend what is red, then run it again", style="bold")
