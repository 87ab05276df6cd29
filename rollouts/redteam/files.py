"""Mutants of the files of a solved state: what the agent wrote, what it was given, and what it might have planted beside."""

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random

from wardian.envs.verifier import FinalState
from wardian.rollouts.redteam.mutants import Mutant
from wardian.sandbox.files import FileChange, FileChanges, FileEntry, FileKind
from wardian.sandbox.fingerprint import digest

GIVEN = 8
"""Given files that are mutated."""
LINES = 8
"""Lines of each written file that are mutated."""


def mutants(state: FinalState, given: Mapping[str, FileEntry], rng: Random) -> Iterator[Mutant]:
    """Of a state whose database can be read; `given` are the files of world and task, by path."""
    for path, data in sorted(state.file_contents.items()):
        yield from _written(state, path, data, rng)
    for path in rng.sample(sorted(given), min(GIVEN, len(given))):
        yield from _given(state, path, given[path])
    for folder in sorted({posixpath.dirname(path) for path in (*given, *state.file_contents)}):
        path = f"{folder}/planted.txt"
        yield Mutant(f"file_added {path}", "a file of the agent's", _changed(state, path, _file(b"planted\n"), b"planted\n"))


def _written(state: FinalState, path: str, data: bytes, rng: Random) -> Iterator[Mutant]:
    """What a verifier reads."""
    lines = data.splitlines(keepends=True)
    for at in rng.sample(range(len(lines)), min(LINES, len(lines))):
        yield _content(state, path, f"line {at + 1} gone", "line_removed", b"".join([*lines[:at], *lines[at + 1 :]]))
        yield _content(state, path, f"line {at + 1} twice", "line_doubled", b"".join([*lines[: at + 1], *lines[at:]]))
        if (other := _nudged(lines[at])) != lines[at]:
            yield _content(state, path, f"line {at + 1}: {other!r}"[:200], "line_nudged", b"".join([*lines[:at], other, *lines[at + 1 :]]))
    yield _content(state, path, "one more line", "line_added", data + b"extra,1,1,1\n")
    yield _content(state, path, "no bytes", "file_emptied", b"")
    yield _content(state, path, "first half", "file_halved", data[: len(data) // 2])
    yield _content(state, path, "no text", "file_garbled", b"\xff\xfe" + data)
    change = state.files.changes[path]
    yield Mutant(f"file_removed {path}", "not there", _changed(state, path, FileChange(None), None))
    for kind in (FileKind.LINK, FileKind.DIRECTORY, FileKind.OTHER):
        yield Mutant(f"file_{kind.value} {path}", f"a {kind.value} in its place", _changed(state, path, replace(change, kind=kind), None))


def _given(state: FinalState, path: str, entry: FileEntry) -> Iterator[Mutant]:
    """What nobody may touch."""
    change = _file(entry.data + b"\n", entry.mode)
    yield Mutant(f"given_altered {path}", "one byte more", _changed(state, path, change, entry.data + b"\n"))
    yield Mutant(f"given_mode {path}", "another mode", _changed(state, path, _file(entry.data, entry.mode ^ 0o222), entry.data))
    yield Mutant(f"given_removed {path}", "not there", _changed(state, path, FileChange(None), None))
    yield Mutant(f"given_link {path}", "a link in its place", _changed(state, path, FileChange(FileKind.LINK, content="/tmp/x"), None))


def _content(state: FinalState, path: str, detail: str, operator: str, data: bytes) -> Mutant:
    change = replace(state.files.changes[path], size_bytes=len(data), content=digest(data))
    return Mutant(f"{operator} {path}", detail, _changed(state, path, change, data))


def _file(data: bytes, mode: int = 0o644) -> FileChange:
    return FileChange(FileKind.FILE, mode, 1000, len(data), digest(data))


def _changed(state: FinalState, path: str, change: FileChange, data: bytes | None) -> FinalState:
    """The state with another end of `path`; `data`: what a verifier may read of it, if it asked for it."""
    contents = {name: body for name, body in state.file_contents.items() if name != path}
    if data is not None and path in state.file_contents:
        contents[path] = data
    return replace(state, files=FileChanges({**state.files.changes, path: change}), file_contents=contents)


def _nudged(line: bytes) -> bytes:
    """The line with its last digit, or else its first letter, otherwise."""
    for at in range(len(line) - 1, -1, -1):
        if line[at : at + 1].isdigit():
            return line[:at] + b"%d" % ((int(line[at : at + 1]) + 1) % 10) + line[at + 1 :]
    return b"x" + line[1:] if line.strip() else line
