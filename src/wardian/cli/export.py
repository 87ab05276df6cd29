"""`wardian export`: from a trajectory to files that trainers read."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from wardian.cli.console import errors_end_the_command, find_modules_here, say_damage, stderr
from wardian.rollouts.export.chat_file import export_chats
from wardian.rollouts.export.parquet import Per, export_parquet
from wardian.rollouts.export.rows import Arguments
from wardian.rollouts.export.selection import TRAIN, Selection

Where = Annotated[Path, typer.Argument(metavar="DIR", help="Folder that `wardian run --out` made, or one of its files.")]
Out = Annotated[Path, typer.Option(help="New file to write. It is there whole, or not at all.")]
Split = Annotated[str | None, typer.Option(help=f"{TRAIN}: leave out episodes that are held out. Default: refuse a folder that has one.")]
IncludeMasked = Annotated[bool, typer.Option(help="Failed and cancelled episodes too; their mask is 0, their reward null.")]
AsJson = Annotated[bool, typer.Option("--json", help="What was exported as one line of JSON.")]


def register(app: typer.Typer) -> None:
    """Add this module's commands to `app`."""
    group = typer.Typer(
        help="Write a trajectory as a file that trainers read. Only the training split, and no masked episodes.", no_args_is_help=True
    )
    group.command()(chat)
    group.command()(parquet)
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
