"""Chats as JSON lines, one episode each, in OpenAI's format with tools."""

import json
from pathlib import Path

from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.export.atomic import new_file
from wardian.rollouts.export.rows import Arguments, chat_row
from wardian.rollouts.export.schemas import ToolSchemas
from wardian.rollouts.export.selection import Selection


def export_chats(selection: Selection, out: Path, arguments: Arguments = Arguments.TEXT) -> None:
    """Write all of `selection` to the new file `out`. Lines are ASCII.

    Raises:
        SplitForbidden, LogBroken, SchemasLost, UsageProblem: nothing was written.
    """
    if out.suffix == ".jsonl" and out.parent.resolve() == selection.where.resolve():
        raise UsageProblem(f"out: {out} would be read as a trajectory, as every *.jsonl of that folder; write it elsewhere")
    schemas = ToolSchemas(selection.log)
    with new_file(out) as path, path.open("w", encoding="ascii") as file:
        for episode in selection:
            file.write(json.dumps(chat_row(episode, schemas, arguments), allow_nan=False) + "\n")
        selection.must_have_some()
