"""Long output of commands, kept in files of the cell, where an agent reads it by whatever it reads files with.

A file is named by what it holds, so that equal outputs share one and a replay makes the same. It is the chamber's: it counts against the
disk limit, shows in the fingerprint, and goes with the episode. The latest few are kept; those before them are emptied.
"""

from contextlib import suppress

from wardian.sandbox.cell import Captured
from wardian.sandbox.errors import FileProblem
from wardian.sandbox.files import FileEntry, FileKind, FileLayer
from wardian.sandbox.fingerprint import digest
from wardian.tools.contract import ToolContext
from wardian.tools.packs.text import notice

KEPT_BYTES = 1 << 20
"""Of each of stdout and stderr of one command."""
KEPT_FILES = 8
FOLDER = "/tmp"
GONE = b"(this output is no longer kept)\n"
_NOTES = "shell/kept"
"""Under this name the world's memory has the paths, the oldest first."""


async def keep(context: ToolContext, stream: Captured) -> str | None:
    """Write the stream into a file and give its path; `None` where it cannot be written."""
    data = stream.data if not stream.truncated else stream.head + notice(stream).encode() + stream.tail
    path = f"{FOLDER}/output-{digest(data)[:12]}.txt"
    kept: list[str] = context.world.memory.notes.setdefault(_NOTES, [])
    if path in kept:
        kept.remove(path)
    try:
        await context.cell.write_files(FileLayer({path: FileEntry(data)}), context.world.clock.now)
        kept.append(path)
        while len(kept) > KEPT_FILES:
            await _empty(context, kept.pop(0))
    except FileProblem:
        return None
    return path


async def _empty(context: ToolContext, path: str) -> None:
    """Empty a file of ours, unless the agent has done away with it."""
    with suppress(FileProblem):
        if (await context.cell.stat(path)).kind is FileKind.FILE:
            await context.cell.write_files(FileLayer({path: FileEntry(GONE)}), context.world.clock.now)
