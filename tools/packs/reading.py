"""The tool `read_file`: a range of bytes or of lines of a regular file.

Offsets and sizes are bytes, as the file system counts them; text is never cut inside a character, and lines only where one alone is longer
than a page. What is no text is not shown as text: the answer says what it is, how large, and one next step. Files that the system makes as
they are read, such as those of `/proc`, say no true size, and may say something else the next time.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pydantic import Field

from wardian.sandbox.cell import Cell
from wardian.sandbox.files import FileContent
from wardian.tools.contract import Arguments, Json, Refusal, Status, ToolContext
from wardian.tools.packs.paths import resolved

READ_BYTES = 16 * 1024
READ_LINES = 2000
SCAN_BYTES = 64 << 20
"""Lines are counted so far into a file."""
SHOWN = "shown"
"""Kind of the fact that says which bytes of a file an agent was shown: `path`, `start`, `end`."""
_BLOCK_BYTES = 1 << 20


class ReadArguments(Arguments):
    path: str = Field(description="Absolute, or relative to the workspace.")
    offset: int = Field(default=0, ge=0, description="Byte to begin at.")
    limit: int = Field(default=READ_BYTES, ge=4, le=READ_BYTES, description="Most bytes to read.")
    line: int | None = Field(default=None, ge=1, description="Line to begin at, from 1; in place of offset.")
    lines: int | None = Field(default=None, ge=1, le=READ_LINES, description="Most lines to read.")


@dataclass(frozen=True, slots=True)
class _Lines:
    """Where a line of a file begins, and how many lines there are."""

    start: int | None
    """Byte; `None` where the file ends before."""
    total: int | None
    """`None` where they were not counted to the end."""


def reader(next_step: str, *, notes: bool) -> Callable[[ToolContext, ReadArguments], Awaitable[Json]]:
    """The handler; `next_step` is what an agent may do about a binary file, `notes` whether the log is to say which bytes were shown."""

    async def read(context: ToolContext, arguments: ReadArguments) -> Json:
        path = resolved(context.cell, arguments.path)
        if arguments.line is not None and arguments.offset:
            raise Refusal(Status.INVALID_ARGUMENTS, "offset, line: give one of them; both say where to begin.")
        by_lines = arguments.line is not None or (arguments.lines is not None and not arguments.offset)
        lines = await _lines(context.cell, path, arguments.line or 1) if by_lines else None
        start = arguments.offset if lines is None else _start(path, arguments.line or 1, lines)
        found = await context.cell.read_file(path, start, arguments.limit)
        if found.data and start + len(found.data) > found.size_bytes:
            context.inexact = "the system makes this file as it is read"
        kind = binary_type(found.data, at_start=start == 0)
        if kind is not None:
            note = f"binary file, {found.size_bytes} bytes, {kind}. {next_step}"
            return {"path": path, "size_bytes": found.size_bytes, "binary": kind, "note": note}
        page = _page(found, start, arguments.limit, arguments.lines or (READ_LINES if lines else None))
        if notes:
            context.note(SHOWN, path=path, start=start, end=page.end)
        answer = {"path": path, "text": page.text, "size_bytes": None if context.inexact else found.size_bytes}
        answer |= page.lines_shown(arguments.line or 1, lines) if lines is not None else {}
        return answer | ({} if page.at_end else {"next_offset": page.end}) | page.notes(arguments.limit)

    return read


async def _lines(cell: Cell, path: str, line: int) -> _Lines:
    """Find the start of `line`, and count the lines."""
    position, newlines, start, last = 0, 0, 0 if line == 1 else None, b"\n"
    while position < SCAN_BYTES:
        block = (await cell.read_file(path, position, _BLOCK_BYTES)).data
        if not block:
            break
        here = block.count(b"\n")
        if start is None and newlines + here >= line - 1:
            at = 0
            for _ in range(line - 1 - newlines):
                at = block.index(b"\n", at) + 1
            start = position + at
        newlines, position, last = newlines + here, position + len(block), block[-1:]
    total = newlines + (last != b"\n")
    if start == position > 0:  # after the newline at the very end there is no further line
        start = None
    return _Lines(start, total if position < SCAN_BYTES else None)


def _start(path: str, line: int, lines: _Lines) -> int:
    if lines.start is None:
        far = f"it has {lines.total}" if lines.total is not None else f"lines are counted in the first {SCAN_BYTES} bytes only; use offset"
        raise Refusal(Status.NOT_FOUND, f"{path}: there is no line {line}: {far}.")
    return lines.start


@dataclass(frozen=True, slots=True)
class _Page:
    """What is shown of a file."""

    text: str
    end: int
    """The byte after it."""
    at_end: bool
    """There is no more."""
    split: bool
    """It ends within a line, though lines were asked for."""
    foreign: bool
    """Not all of it is UTF-8."""

    def lines_shown(self, first: int, lines: _Lines) -> dict[str, Json]:
        """The lines that are shown, and the one to go on at."""
        last = first + self.text.count("\n") - (self.text.endswith("\n") or not self.text)
        shown: dict[str, Json] = {"first_line": first, "last_line": last, "total_lines": lines.total}
        return shown if self.at_end or self.split else {**shown, "next_line": last + 1}

    def notes(self, limit: int) -> dict[str, Json]:
        """What else is to be known of the text."""
        notes = ["not all of it is UTF-8; what is not stands as U+FFFD"] * self.foreign
        notes += [f"the line is longer than {limit} bytes; go on with offset"] * self.split
        return {"note": "; ".join(notes)} if notes else {}


def _page(found: FileContent, start: int, limit: int, lines: int | None) -> _Page:
    data = found.data
    at_end = len(data) < limit or start + len(data) == found.size_bytes
    kept = data if lines is None else _whole_lines(data, lines, at_end=at_end)
    split = lines is not None and not at_end and not kept
    kept = data if split else kept
    at_end = at_end and len(kept) == len(data)
    kept = kept if at_end or not cut_bytes(kept) else kept[: -cut_bytes(kept)]
    text = kept.decode("utf-8", "replace")
    return _Page(text, start + len(kept), at_end, split, "\ufffd" in text and "\ufffd".encode() not in kept)


def _whole_lines(data: bytes, count: int, *, at_end: bool) -> bytes:
    """The first `count` lines; fewer where there are fewer, and no line that is not whole."""
    end = 0
    for _ in range(count):
        newline = data.find(b"\n", end)
        if newline == -1:
            return data if at_end else data[:end]
        end = newline + 1
    return data[:end]


_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"\x7fELF", "application/x-elf"),
)


def binary_type(data: bytes, *, at_start: bool = True) -> str | None:
    """Media type by the first bytes of a file or of a later page, or `None` for what can be shown as text."""
    for magic, name in _MAGIC:
        if at_start and data.startswith(magic):
            return name
    if b"\0" not in data:
        return None
    return "text in UTF-16" if at_start and data.startswith((b"\xff\xfe", b"\xfe\xff")) else "application/octet-stream"


def cut_bytes(data: bytes) -> int:
    """How many bytes at the end belong to a character that was cut."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            length = 2 if byte >> 5 == 0b110 else 3 if byte >> 4 == 0b1110 else 4 if byte >> 3 == 0b11110 else 1
            return back if length > back else 0
    return 0
