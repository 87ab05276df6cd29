"""The tool `search_files`: lines that match a pattern, in the files below a directory.

`find` and `grep` do the work inside the cell, as the agent and with a deadline: no link and no pattern gains anything, and what is costly
costs the agent's own processor. Files are taken in the order of their names, so the same files give the same answer.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pydantic import Field

from wardian.sandbox.cell import Command
from wardian.tools.contract import Arguments, Json, Refusal, Status, ToolContext
from wardian.tools.packs.listing import DEADLINE_S, cannot, files_below, matching, run
from wardian.tools.packs.paths import NOT_UTF8, as_text, is_text, resolved
from wardian.tools.packs.reading import SHOWN

MATCHES = 200
LINE_CHARS = 400
OUTPUT_BYTES = 2 << 20
"""Of `grep`; half of it is the beginning, which is looked at."""
XARGS_FAILED = 123
"""What `xargs` ends with when a `grep` found nothing, or could not read a file."""
DEEPEST = 10_000
"""Matches that can be left out at the beginning."""


class SearchArguments(Arguments):
    pattern: str = Field(min_length=1, max_length=1000, description="Perl regular expression for one line, such as 'def \\w+\\('.")
    path: str = Field(default=".", description="Directory or file, absolute or relative to the workspace.")
    glob: str = Field(default="", max_length=300, description="Only files of that name or path, such as '*.py' or 'src/**/*.py'.")
    fixed: bool = Field(default=False, description="Take the pattern as plain text.")
    ignore_case: bool = Field(default=False, description="Take small and capital letters as the same.")
    offset: int = Field(default=0, ge=0, le=DEEPEST, description="Matches to leave out at the beginning.")
    limit: int = Field(default=50, ge=1, le=MATCHES, description="Most matches to show.")


@dataclass(frozen=True, slots=True)
class _Match:
    path: str
    line: int
    start: int
    """Byte at which the line begins."""
    data: bytes


@dataclass(frozen=True, slots=True)
class _Found:
    matches: tuple[_Match, ...] = ()
    cut: bool = False
    """There was more than is looked at; `matches` are the first."""
    problems: bytes = b""
    """What `grep` said of files."""

    def going_on(self, offset: int, page: tuple[_Match, ...]) -> dict[str, Json]:
        """Where the next page begins, when there is one, and what else is to be known."""
        more = offset + len(page) < len(self.matches)
        notes = [] if all(is_text(match.path) for match in page) else [NOT_UTF8]
        if self.cut and not more:
            notes.append("There is more than can be looked at. Choose a smaller directory, a narrower pattern, or a glob.")
        going_on: dict[str, Json] = {"next_offset": offset + len(page)} if more else {}
        return going_on | ({"note": " ".join(notes)} if notes else {})

    def left_out(self, unreadable: int) -> dict[str, Json]:
        """How many files did not show what they hold."""
        counts = {
            "binary_with_matches": self.problems.count(b": binary file matches"),
            "unreadable": unreadable + self.problems.count(b": Permission denied"),
        }
        return {name: count for name, count in counts.items() if count}


def searcher(*, notes: bool) -> Callable[[ToolContext, SearchArguments], Awaitable[Json]]:
    """The handler; `notes` says whether the log is to say which bytes of which files were shown."""

    async def search(context: ToolContext, arguments: SearchArguments) -> Json:
        path = resolved(context.cell, arguments.path)
        names, unreadable, found = await _search(context, path, arguments)
        page = found.matches[arguments.offset : arguments.offset + arguments.limit]
        for match in page if notes else ():
            context.note(SHOWN, path=match.path, start=match.start, end=match.start + len(_cut(match.data)))
        answer = {"path": path, "matches": [_shown(match) for match in page], "files_searched": names}
        return answer | found.going_on(arguments.offset, page) | found.left_out(unreadable)

    return search


async def _search(context: ToolContext, path: str, arguments: SearchArguments) -> tuple[int, int, _Found]:
    """How many files were searched, how many places could not be, and what was found."""
    if "\n" in arguments.pattern or "\0" in arguments.pattern:
        raise Refusal(Status.INVALID_ARGUMENTS, "pattern: it is matched against one line at a time; leave out line ends and NUL.")
    options = ("-nbHZ", "-F" if arguments.fixed else "-P", *(("-i",) if arguments.ignore_case else ()), "-e", arguments.pattern)
    await _check_pattern(context, options)
    names, unreadable = await files_below(context, path, "-type", "f")
    if arguments.glob:
        names = await matching(names, path, arguments.glob)
    most = arguments.offset + arguments.limit + 1  # one more, to know whether there is more
    return len(names), unreadable, await _grep(context, names, ("-m", str(most), *options)) if names else _Found()


async def _check_pattern(context: ToolContext, options: tuple[str, ...]) -> None:
    """Have `grep` read the pattern.

    Raises:
        Refusal: it is none, or this `grep` cannot search so.
    """
    done = await run(context, Command(argv=("grep", *options, "--", "/dev/null"), timeout_s=DEADLINE_S))
    said = done.stderr.text().strip()
    if "option" in said or "usage" in said.lower():
        raise cannot("grep")
    if done.exit_code not in (0, 1):
        raise Refusal(Status.INVALID_ARGUMENTS, f"pattern: {said.removeprefix('grep: ')[:300]}. For plain text set fixed.")


async def _grep(context: ToolContext, names: list[str], options: tuple[str, ...]) -> _Found:
    listed = b"\0".join(name.encode("utf-8", "surrogateescape") for name in names)
    command = Command(argv=("xargs", "-0", "grep", *options, "--"), stdin=listed, timeout_s=DEADLINE_S, output_cap_bytes=OUTPUT_BYTES)
    done = await run(context, command)
    if _gave_up(done.stderr.data):  # at the file that it was at: what comes after it was not looked at
        message = "The pattern is too costly for a line of these files; nothing is shown. Write a simpler one, or set fixed."
        raise Refusal(Status.CONFLICT, message)
    if done.exit_code not in (0, XARGS_FAILED):
        raise cannot("xargs")
    output = done.stdout.head if done.stdout.truncated else done.stdout.data
    return _Found(tuple(_read(output)), done.stdout.truncated, done.stderr.data)


def _gave_up(said: bytes) -> bool:
    """Whether `grep` ended before its last file."""
    of_files = (b"binary file matches", b"Permission denied", b"No such file or directory")
    return any(b"PCRE" in line or b"exhausted" in line for line in said.splitlines() if not line.endswith(of_files))


def _read(output: bytes) -> list[_Match]:
    """Matches out of `name NUL line:start:text`, one after another. No text that is searched holds a NUL."""
    found, at = [], 0
    while (end := output.find(b"\0", at)) != -1:
        stop = output.find(b"\n", end)
        line, _, rest = output[end + 1 : stop if stop != -1 else len(output)].partition(b":")
        start, colon, data = rest.partition(b":")
        if colon:
            found.append(_Match(output[at:end].decode("utf-8", "surrogateescape"), int(line), int(start), data))
        if stop == -1:
            break
        at = stop + 1
    return found


def _cut(data: bytes) -> bytes:
    """As much of a line as is shown."""
    text = data.decode("utf-8", "replace")
    return data if len(text) <= LINE_CHARS else text[:LINE_CHARS].encode()


def _shown(match: _Match) -> dict[str, Json]:
    shown: dict[str, Json] = {
        "path": as_text(match.path),
        "line": match.line,
        "text": _cut(match.data).decode("utf-8", "replace").rstrip("\r"),
    }
    return shown if len(_cut(match.data)) == len(match.data) else {**shown, "cut": True}
