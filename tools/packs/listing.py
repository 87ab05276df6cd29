"""The tools `list_files` (one directory) and `find_files` (all below one, by a pattern), in pages and in the order of names."""

import posixpath
from fnmatch import fnmatchcase

import anyio.to_thread
from pydantic import Field

from wardian.sandbox.cell import Command, ExecOutcome, ExecResult
from wardian.sandbox.files import FileInfo, FileKind
from wardian.tools.contract import Arguments, Json, Refusal, Status, ToolContext
from wardian.tools.packs.paths import NOT_UTF8, as_text, is_text, resolved

LISTED = 500
DEADLINE_S = 10
"""Of each program that looks through a tree."""
NAMES_BYTES = 8 << 20
"""Paths below a directory that are looked at, together."""


class ListArguments(Arguments):
    path: str = Field(default=".", description="Directory, absolute or relative to the workspace.")
    offset: int = Field(default=0, ge=0, description="Entries to leave out at the beginning.")
    limit: int = Field(default=LISTED, ge=1, le=LISTED, description="Most entries to list.")


class FindArguments(Arguments):
    pattern: str = Field(min_length=1, max_length=300, description="Such as '*.py' (a name, anywhere below) or 'src/**/*.py' (a path).")
    path: str = Field(default=".", description="Directory to look below, absolute or relative to the workspace.")
    offset: int = Field(default=0, ge=0, description="Files to leave out at the beginning.")
    limit: int = Field(default=100, ge=1, le=LISTED, description="Most files to list.")


async def list_files(context: ToolContext, arguments: ListArguments) -> Json:
    """List one directory."""
    path = resolved(context.cell, arguments.path)
    entries = await context.cell.list_dir(path)
    page = entries[arguments.offset : arguments.offset + arguments.limit]
    answer = {"path": path, "entries": [_entry(info) for info in page], "total": len(entries)}
    return answer | going_on(arguments.offset, len(page), len(entries)) | _notes([info.path for info in page])


async def find_files(context: ToolContext, arguments: FindArguments) -> Json:
    """List the files below a directory whose names or paths match."""
    path = resolved(context.cell, arguments.path)
    names, unreadable = await files_below(context, path)
    found = [name for name in await matching(names, path, arguments.pattern) if name != path]
    page = [name[len(path.rstrip("/")) + 1 :] for name in found[arguments.offset : arguments.offset + arguments.limit]]
    answer = {"path": path, "files": [as_text(name) for name in page], "total": len(found)}
    unread = {"unreadable": unreadable} if unreadable else {}
    return answer | unread | going_on(arguments.offset, len(page), len(found)) | _notes(page)


def going_on(offset: int, shown: int, total: int) -> dict[str, Json]:
    """Where the next page begins, when there is one."""
    return {"next_offset": offset + shown} if offset + shown < total else {}


async def files_below(context: ToolContext, path: str, *kind: str) -> tuple[list[str], int]:
    """What is below `path` and no directory, in order, and how many places could not be looked at; `kind` is a test of `find`.

    Other file systems below it, such as `/proc`, are not entered, and links are not followed, but for `path` itself.

    Raises:
        FileProblem: there is no such path.
        Refusal: it took too long, or there is too much.
    """
    await context.cell.stat(path)
    if path == "/proc" or path.startswith("/proc/"):
        context.inexact = "the system makes these files as they are read"
    argv = ("find", "-H", path, "-xdev", *(kind or ("!", "-type", "d")), "-print0")
    done = await run(context, Command(argv=argv, timeout_s=DEADLINE_S, output_cap_bytes=NAMES_BYTES))
    if done.stdout.truncated:
        raise Refusal(Status.CONFLICT, f"{path}: there are too many files below it to look through at once. Choose a smaller directory.")
    names = sorted(name for name in done.stdout.data.decode("utf-8", "surrogateescape").split("\0") if name)
    unreadable = done.stderr.data.count(b": Permission denied")
    if not names and not unreadable and done.exit_code:
        raise cannot("find")
    return names, unreadable


def cannot(program: str) -> Refusal:
    """The refusal where the image has no such program, or one that does not do it."""
    return Refusal(Status.UNAVAILABLE, f"This machine has no {program} that would do this; calling again will not help.")


async def run(context: ToolContext, command: Command) -> ExecResult:
    """Run a program that only looks.

    Raises:
        Refusal: it did not come to its own end.
    """
    program = command.argv[0]
    done = await context.cell.exec(command)
    if done.outcome is ExecOutcome.COULD_NOT_START or done.exit_code in (126, 127):
        raise cannot(program)
    if done.outcome is ExecOutcome.TIMED_OUT:
        context.inexact = f"{program} ran into its limit of {command.timeout_s:g} s of real time"
        context.extra_ms = round(command.timeout_s * 1000)
        raise Refusal(Status.TIMEOUT, f"Looking took longer than {command.timeout_s:g} s and was ended. Choose a smaller directory.")
    if done.outcome is not ExecOutcome.EXITED:
        context.inexact = f"{program} ended as {done.outcome.value}"
        raise Refusal(Status.CONFLICT, "Looking needed more memory than there is and was ended. Choose fewer or smaller files.")
    return done


async def matching(names: list[str], path: str, pattern: str) -> list[str]:
    """Those of `names`, all below `path`, that match, in a thread: an agent can make many."""
    return await anyio.to_thread.run_sync(_matching, names, path, pattern)


def _matching(names: list[str], path: str, pattern: str) -> list[str]:
    parts = pattern.removeprefix("./").split("/")
    if len(parts) == 1:
        return [name for name in names if fnmatchcase(posixpath.basename(name), parts[0])]
    start = 1 if pattern.startswith("/") else len(path.rstrip("/")) + 1
    wanted = [part for part in parts if part]
    return [name for name in names if _fits(name[start:].split("/"), wanted)]


def _fits(parts: list[str], wanted: list[str]) -> bool:
    """Whether a path fits a pattern, part by part; `**` stands for any number of parts."""
    reached = {0}
    for part in parts:
        reached = {after for at in _over_stars(reached, wanted) for after in _steps(at, part, wanted)}
    return len(wanted) in _over_stars(reached, wanted)


def _over_stars(reached: set[int], wanted: list[str]) -> set[int]:
    found = set(reached)
    for at in sorted(reached):
        while at < len(wanted) and wanted[at] == "**":
            at += 1
            found.add(at)
    return found


def _steps(at: int, part: str, wanted: list[str]) -> tuple[int, ...]:
    if at == len(wanted):
        return ()
    if wanted[at] == "**":
        return (at,)
    return (at + 1,) if fnmatchcase(part, wanted[at]) else ()


def _entry(info: FileInfo) -> dict[str, Json]:
    entry: dict[str, Json] = {"name": as_text(info.path), "kind": info.kind.value}
    if info.kind is FileKind.FILE:
        entry["size_bytes"] = info.size_bytes
    if info.link_target is not None:
        entry["target"] = as_text(info.link_target)
    return entry


def _notes(names: list[str]) -> dict[str, Json]:
    return {} if all(is_text(name) for name in names) else {"note": NOT_UTF8}
