"""Tools for files in the chamber, as the agent: `read_file`, `write_file`, `edit_file`, `list_files`.

Offsets and sizes are bytes, as the file system counts them; text is never cut inside a character. What is no text is not shown as text: the
answer says what it is, how large, and one next step.
"""

import posixpath
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import Field

from wardian.sandbox.cell import Cell
from wardian.sandbox.errors import FileProblem, FileProblemKind
from wardian.sandbox.files import FileEntry, FileKind, FileLayer
from wardian.tools.contract import Arguments, Json, Latency, Refusal, Source, Status, Tool, ToolContext
from wardian.tools.packs.text import whole_characters

READ_BYTES = 16 * 1024
EDIT_BYTES = 1 << 20
LISTED = 500


class ReadArguments(Arguments):
    path: str = Field(description="Absolute, or relative to the workspace.")
    offset: int = Field(default=0, ge=0, description="Byte to begin at.")
    limit: int = Field(default=READ_BYTES, ge=4, le=READ_BYTES, description="Most bytes to read.")


class WriteArguments(Arguments):
    path: str = Field(description="Absolute, or relative to the workspace. Missing directories are made.")
    content: str = Field(description="The whole new content.")


class EditArguments(Arguments):
    path: str = Field(description="Absolute, or relative to the workspace.")
    old: str = Field(min_length=1, description="Text that stands in the file exactly once.")
    new: str = Field(description="Text to put in its place.")


class ListArguments(Arguments):
    path: str = Field(default=".", description="Directory, absolute or relative to the workspace.")


def resolved(cell: Cell, path: str) -> str:
    """The absolute, normal path that an agent means.

    Raises:
        FileProblem: it is empty or holds a NUL.
    """
    if not path or "\0" in path:
        raise FileProblem(FileProblemKind.INVALID_PATH, path, "a path is text without NUL, and not empty")
    whole = posixpath.normpath(posixpath.join(cell.spec.workdir, path))
    return "/" + whole.lstrip("/")


async def _write(context: ToolContext, arguments: WriteArguments) -> Json:
    if arguments.path.endswith("/"):
        raise FileProblem(FileProblemKind.IS_DIRECTORY, arguments.path, "is the path of a directory; give that of a file")
    path = resolved(context.cell, arguments.path)
    data = arguments.content.encode()
    mode = await _mode(context.cell, path)
    await context.cell.write_files(FileLayer({path: FileEntry(data, 0o644 if mode is None else mode)}))
    return {"path": path, "size_bytes": len(data), "created": mode is None}


async def _mode(cell: Cell, path: str) -> int | None:
    """Permission bits of the file that is there, to be kept; `None` when there is none."""
    try:
        info = await cell.stat(path)
    except FileProblem as problem:
        if problem.kind in (FileProblemKind.NOT_FOUND, FileProblemKind.PARENT_NOT_FOUND):
            return None
        raise
    return info.mode & 0o777 if info.kind is FileKind.FILE else 0o644


async def _edit(context: ToolContext, arguments: EditArguments) -> Json:
    path = resolved(context.cell, arguments.path)
    found = await context.cell.read_file(path, max_bytes=EDIT_BYTES)
    if found.size_bytes > EDIT_BYTES:
        raise FileProblem(FileProblemKind.TOO_LARGE, path, f"has {found.size_bytes} bytes; at most {EDIT_BYTES} can be edited in place")
    old, new = arguments.old.encode(), arguments.new.encode()
    if old not in found.data and b"\r\n" in found.data:  # text typed with plain newlines for a file that has CRLF
        old, new = (part.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") for part in (old, new))
    count = found.data.count(old)
    if count != 1:
        hint = "Read the file again and copy the text exactly." if count == 0 else "Give more of the text around it."
        raise Refusal(Status.CONFLICT, f"{path}: the old text stands there {count} times, not once; nothing was changed. {hint}")
    data = found.data.replace(old, new)
    mode = await _mode(context.cell, path)
    await context.cell.write_files(FileLayer({path: FileEntry(data, 0o644 if mode is None else mode)}))
    return {"path": path, "size_bytes": len(data)}


async def _list(context: ToolContext, arguments: ListArguments) -> Json:
    path = resolved(context.cell, arguments.path)
    entries = await context.cell.list_dir(path)
    shown = [_entry(info.path, info.kind, info.size_bytes, info.link_target) for info in entries[:LISTED]]
    answer: dict[str, Json] = {"path": path, "entries": shown}
    if len(entries) > LISTED:
        answer["note"] = f"the first {LISTED} of {len(entries)} entries, by name"
    return answer


def _entry(path: str, kind: FileKind, size_bytes: int, target: str | None) -> dict[str, Json]:
    entry: dict[str, Json] = {"name": posixpath.basename(path), "kind": kind.value}
    if kind is FileKind.FILE:
        entry["size_bytes"] = size_bytes
    if target is not None:
        entry["target"] = target
    return entry


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


def binary_type(data: bytes) -> str | None:
    """Media type by the first bytes, or `None` for what can be shown as text."""
    for magic, name in _MAGIC:
        if data.startswith(magic):
            return name
    return "application/octet-stream" if b"\0" in data else None


def _reader(next_step: str) -> Callable[[ToolContext, ReadArguments], Awaitable[Json]]:
    async def read(context: ToolContext, arguments: ReadArguments) -> Json:
        path = resolved(context.cell, arguments.path)
        found = await context.cell.read_file(path, arguments.offset, arguments.limit)
        kind = binary_type(found.data)
        if kind is not None:
            note = f"binary file, {found.size_bytes} bytes, {kind}. {next_step}"
            return {"path": path, "size_bytes": found.size_bytes, "binary": kind, "note": note}
        return _page(path, found.data, arguments.offset, found.size_bytes)

    return read


def _page(path: str, data: bytes, offset: int, size_bytes: int) -> dict[str, Json]:
    end = offset + len(data)
    text = data.decode("utf-8", "replace") if end >= size_bytes else whole_characters(data)
    if end < size_bytes:
        end -= _cut_bytes(data)
    answer: dict[str, Json] = {"path": path, "text": text, "size_bytes": size_bytes}
    if end < size_bytes:
        answer["next_offset"] = end
    if "\ufffd" in text and "\ufffd".encode() not in data:
        answer["note"] = "not all of it is UTF-8; what is not stands as U+FFFD"
    return answer


def _cut_bytes(data: bytes) -> int:
    """How many bytes at the end belong to a character that was cut."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            length = 2 if byte >> 5 == 0b110 else 3 if byte >> 4 == 0b1110 else 4 if byte >> 3 == 0b11110 else 1
            return back if length > back else 0
    return 0


def file_tools(*, with_shell: bool = True) -> tuple[Tool[Any], ...]:
    """The four tools. `with_shell`: hints may name the tool `shell`, since the agent has it."""
    step = "Look at it with a program, by the tool shell." if with_shell else "It cannot be shown; go on without its content."
    common: dict[str, Any] = {"source": Source.CELL, "latency": Latency(5, 40)}
    return (
        Tool(
            name="read_file",
            description=(
                f"Read a text file, at most {READ_BYTES} bytes at once. Gives text and size_bytes, and next_offset when there is more. "
                "For a binary file it gives type and size instead."
            ),
            arguments=ReadArguments,
            handler=_reader(step),
            **common,
        ),
        Tool(
            name="write_file",
            description="Write a whole text file, replacing what was there. Line ends are kept as given.",
            arguments=WriteArguments,
            handler=_write,
            mutates=True,
            **common,
        ),
        Tool(
            name="edit_file",
            description="Replace a text that stands exactly once in a file. All other bytes stay as they are.",
            arguments=EditArguments,
            handler=_edit,
            mutates=True,
            idempotent=False,
            errors=(Status.CONFLICT,),
            **common,
        ),
        Tool(
            name="list_files",
            description="List a directory: name, kind, and size_bytes of files.",
            arguments=ListArguments,
            handler=_list,
            **common,
        ),
    )
