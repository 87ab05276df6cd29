"""The tools `write_file` and `edit_file`. A file is replaced whole or left as it was; its mode stays, and a link to it stays a link."""

import posixpath
import unicodedata
from collections.abc import Iterator

from pydantic import Field

from wardian.sandbox.cell import Cell
from wardian.sandbox.errors import FileProblem, FileProblemKind
from wardian.sandbox.files import FileEntry, FileInfo, FileKind, FileLayer
from wardian.tools.contract import Arguments, Json, Refusal, Status, ToolContext
from wardian.tools.packs.paths import resolved

EDIT_BYTES = 1 << 20
NAMED = 10
"""So many line numbers are named of all those where a text stands."""
_LINKS = 40


class WriteArguments(Arguments):
    path: str = Field(description="Absolute, or relative to the workspace. Missing directories are made.")
    content: str = Field(description="The whole new content.")


class EditArguments(Arguments):
    path: str = Field(description="Absolute, or relative to the workspace.")
    old: str = Field(min_length=1, description="Text that stands in the file exactly once.")
    new: str = Field(description="Text to put in its place.")
    replace_all: bool = Field(default=False, description="Replace it wherever it stands, however often.")


async def write(context: ToolContext, arguments: WriteArguments) -> Json:
    """Replace a whole file, or make it."""
    if arguments.path.endswith("/"):
        raise FileProblem(FileProblemKind.IS_DIRECTORY, arguments.path, "is the path of a directory; give that of a file")
    path = resolved(context.cell, arguments.path)
    data = arguments.content.encode()
    mode = await _mode(context.cell, path)
    await context.cell.write_files(FileLayer({path: FileEntry(data, 0o644 if mode is None else mode)}))
    return {"path": path, "size_bytes": len(data), "created": mode is None}


async def edit(context: ToolContext, arguments: EditArguments) -> Json:
    """Replace a text in a file, and no other byte of it."""
    path = resolved(context.cell, arguments.path)
    mode = await _mode(context.cell, path)
    found = await context.cell.read_file(path, max_bytes=EDIT_BYTES)
    if found.size_bytes > EDIT_BYTES:
        raise FileProblem(FileProblemKind.TOO_LARGE, path, f"has {found.size_bytes} bytes; at most {EDIT_BYTES} can be edited in place")
    old, new = _in_the_files_lines(found.data, arguments.old.encode(), arguments.new.encode())
    places = list(_places(found.data, old))
    if not places or (len(places) > 1 and not arguments.replace_all):
        raise Refusal(Status.CONFLICT, f"{path}: {_why_not(found.data, old, places)}")
    data = found.data.replace(old, new)
    await context.cell.write_files(FileLayer({path: FileEntry(data, 0o644 if mode is None else mode)}))
    return {"path": path, "size_bytes": len(data), "replaced": len(places), "lines": _lines(found.data, places)}


async def _mode(cell: Cell, path: str) -> int | None:
    """Permission bits of the file that is there, to be kept; `None` when there is none.

    Raises:
        FileProblem: what is there is a fifo, socket or device, which writing would replace by a file.
    """
    try:
        info = await _behind_links(cell, path)
    except FileProblem as problem:
        if problem.kind in (FileProblemKind.NOT_FOUND, FileProblemKind.PARENT_NOT_FOUND):
            return None
        raise
    if info.kind is FileKind.OTHER:
        raise FileProblem(FileProblemKind.NOT_A_FILE, path, "is not a regular file")
    return info.mode & 0o777


async def _behind_links(cell: Cell, path: str) -> FileInfo:
    for _ in range(_LINKS):
        info = await cell.stat(path)
        if info.kind is not FileKind.LINK or info.link_target is None:
            return info
        path = posixpath.join(posixpath.dirname(path), info.link_target)
    raise FileProblem(FileProblemKind.INVALID_PATH, path, "is a link that leads to itself")


def _in_the_files_lines(data: bytes, old: bytes, new: bytes) -> tuple[bytes, bytes]:
    """Both texts with the line ends of the file: a model writes plain newlines, whatever it read.

    In a file of CRLF lines only, both get those. Else the texts are taken as they are if they stand there so, and with the other line ends
    if they stand there so.
    """
    if 0 < data.count(b"\n") == data.count(b"\r\n"):
        return _with_lines(old, b"\r\n"), _with_lines(new, b"\r\n")
    for end in (b"\n", b"\r\n"):
        if old not in data and _with_lines(old, end) in data:
            return _with_lines(old, end), _with_lines(new, end)
    return old, new


def _with_lines(text: bytes, end: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n").replace(b"\n", end)


def _places(data: bytes, old: bytes) -> Iterator[int]:
    at = data.find(old)
    while at != -1:
        yield at
        at = data.find(old, at + len(old))


def _lines(data: bytes, places: list[int]) -> list[int]:
    """Numbers of the lines in which the first few places are."""
    return [data.count(b"\n", 0, at) + 1 for at in places[:NAMED]]


def _why_not(data: bytes, old: bytes, places: list[int]) -> str:
    if places:
        named = ", ".join(str(line) for line in _lines(data, places)) + (", ..." if len(places) > NAMED else "")
        where = f"the old text stands there {len(places)} times, not once, in lines {named}; nothing was changed."
        return f"{where} Give more of the text around it, or set replace_all."
    where = "the old text stands there 0 times, not once; nothing was changed."
    return f"{where} {_near(data, old)}Read the file again and copy the text exactly."


def _near(data: bytes, old: bytes) -> str:
    """Where a text stands that differs only in how it is written; empty when there is none."""
    text, wanted = data.decode("utf-8", "replace"), old.decode()
    composed, sought = unicodedata.normalize("NFC", text), unicodedata.normalize("NFC", wanted)
    if sought in composed:
        line = composed[: composed.index(sought)].count("\n") + 1
        return f"A text that differs only in how its accents are composed stands in line {line}. "
    lines, parts = [line.strip() for line in text.split("\n")], [line.strip() for line in wanted.split("\n")]
    while parts and not parts[-1]:
        parts.pop()
    blankless = "\n".join(lines)
    at = f"\n{blankless}\n".find("\n" + "\n".join(parts) + "\n") if parts else -1
    return f"A text that differs only in blanks stands in line {blankless[:at].count(chr(10)) + 1}. " if at != -1 else ""
