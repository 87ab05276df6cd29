"""`wardian export`: from a trajectory to files that trainers read, and from a world to a package that one of them installs."""

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from wardian.cli import options
from wardian.cli.console import errors_end_the_command, find_modules_here, folder, say_damage, stderr
from wardian.envs.registry import load_world
from wardian.rollouts.export.chat_file import export_chats
from wardian.rollouts.export.parquet import Per, export_parquet
from wardian.rollouts.export.rows import Arguments
from wardian.rollouts.export.selection import TRAIN, Selection
from wardian.trainers.verifiers.export import URL, export_taskset

Where = Annotated[Path, typer.Argument(metavar="DIR", help="Folder that `wardian run --out` made, or one of its files.")]
Out = Annotated[Path, typer.Option(help="New file to write. It is there whole, or not at all.")]
Split = Annotated[str | None, typer.Option(help=f"{TRAIN}: leave out episodes that are held out. Default: refuse a folder that has one.")]
IncludeMasked = Annotated[bool, typer.Option(help="Failed and cancelled episodes too; their mask is 0, their reward null.")]
AsJson = Annotated[bool, typer.Option("--json", help="What was exported as one line of JSON.")]


def register(app: typer.Typer) -> None:
    """Add this module's commands to `app`."""
    group = typer.Typer(
        help="Write a trajectory as a file that trainers read (only the training split, and no masked episodes), or a world as a package.",
        no_args_is_help=True,
    )
    group.command()(chat)
    group.command()(parquet)
    group.command()(verifiers)
    app.add_typer(group, name="export")


def chat(
    where: Where,
    out: Out,
    arguments: Annotated[Arguments, typer.Option(help="Arguments of calls as text (OpenAI) or object (chat templates).")] = Arguments.TEXT,
    split: Split = None,
    include_masked: IncludeMasked = False,
    as_json: AsJson = False,
) -> None:
    """Write one chat for each episode, with tools, reward and verdict, as JSON lines in OpenAI's format."""
    _export(where, out, split, include_masked, as_json, lambda selection: export_chats(selection, out, arguments))


def parquet(
    where: Where,
    out: Out,
    per: Annotated[Per, typer.Option(help="One row for each step, or for each episode.")] = Per.STEP,
    split: Split = None,
    include_masked: IncludeMasked = False,
    as_json: AsJson = False,
) -> None:
    """Write a table as Parquet. Needs the extra `parquet`."""
    _export(where, out, split, include_masked, as_json, lambda selection: export_parquet(selection, out, per))


def verifiers(
    world: options.World,
    target: Annotated[
        Path, typer.Argument(metavar="DIR", help="New folder for the package. It is there whole, or not at all.", parser=folder)
    ],
    url: Annotated[str, typer.Option(help="Where `wardian serve` listens; it can be changed in the package's eval.toml.")] = URL,
) -> None:
    """Write a world as a taskset of verifiers, which plays it on a running `wardian serve`."""
    find_modules_here()
    with errors_end_the_command():
        names = export_taskset(load_world(world), world, target, url)
    print(f"made {target}: the taskset {names.distribution}. Next, where the model is trained or evaluated:")
    print(f"  pip install {shlex.quote(os.path.join('.', target))} uv")
    print(f"  vf-eval @ {shlex.quote(str(target / 'eval.toml'))} --model MODEL --client.base-url URL --client.api-key-var VARIABLE")


def _export(where: Path, out: Path, split: str | None, include_masked: bool, as_json: bool, write: Callable[[Selection], None]) -> None:
    find_modules_here()
    with errors_end_the_command():
        selection = Selection.open(where, split=split, include_masked=include_masked)
        say_damage(stderr(), where)
        write(selection)
    for warning in selection.log.warnings:
        stderr().print(f"warning: {warning}", style="yellow", markup=False)
    if as_json:
        print(json.dumps({"exported": selection.taken, "left_out": dict(sorted(selection.left_out.items())), "out": str(out)}))
    else:
        print(f"exported {selection.taken} episodes to {out}{f'; left out: {selection.counts()}' if selection.left_out else ''}")
