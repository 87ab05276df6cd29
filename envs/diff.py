"""What lies between two moments of a world: rows by table and key, files by path, clock, streams, memory and budgets.

A snapshot knows of a file only how it differs from the start, so a moment also keeps a `Look` at each path that either of two moments
changed, read from its cell while it stood there.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from difflib import unified_diff
from hashlib import blake2b

from wardian.envs.errors import TaskError
from wardian.envs.snapshot import Snapshot
from wardian.sandbox.cell import Cell
from wardian.sandbox.changes import columns_of, files_between, rows_between, what
from wardian.sandbox.database.base import RowChange
from wardian.sandbox.differing import ABSENT, Part, parts
from wardian.sandbox.errors import FileProblem
from wardian.sandbox.files import FileChange, FileKind
from wardian.tools.contract import Json

AGENT_UID_SHOWN = 1000
"""As manifests show every agent."""
LOOK_BYTES = 256 * 1024
"""A file that is larger is told by size and digest alone."""
TEXT_LINES = 3000
"""So is one of more lines: comparing takes time that grows with their square."""


@dataclass(frozen=True, slots=True)
class Look:
    """What stood at a path."""

    entry: FileChange | None
    """`None`: nothing did."""
    data: bytes | None = None
    """Of a file that could be read whole."""


@dataclass(frozen=True, slots=True)
class Moment:
    label: str
    snapshot: Snapshot
    looks: Mapping[str, Look] = field(default_factory=dict)
    """Empty when there was no cell to look into."""

    def look(self, path: str) -> Look | None:
        """What stood at `path`; `None` where that is not known: it was as at the start."""
        seen, change = self.looks.get(path), self.snapshot.files.get(path)
        if seen is not None or change is None:
            return seen
        return Look(None if change.kind is None else change)


@dataclass(frozen=True, slots=True)
class FileDiff:
    path: str
    before: Look | None
    """`None`: as at the start of the episode, and there was no cell to look into."""
    after: Look | None

    @property
    def change(self) -> str:
        """`added`, `removed` or `changed`."""
        if self.before is not None and self.before.entry is None:
            return "added"
        return "removed" if self.after is not None and self.after.entry is None else "changed"

    def text(self) -> list[str] | None:
        """A unified diff of the contents, by line without its end; `None` where a side is no text, or too long."""
        sides = [_text(look) for look in (self.before, self.after)]
        if sides[0] is None or sides[1] is None:
            return None
        one, two = (side.splitlines() for side in sides if side is not None)
        if max(len(one), len(two)) > TEXT_LINES:
            return None
        return list(unified_diff(one, two, f"before{self.path}", f"after{self.path}", lineterm=""))

    def as_json(self) -> dict[str, Json]:
        """All that is known, JSON-shaped."""
        return {
            "path": self.path,
            "change": self.change,
            "before": _entry(self.before),
            "after": _entry(self.after),
            "diff": self.text(),
        }


@dataclass(frozen=True, slots=True)
class StateDiff:
    """Everything that is not the same; empty parts are the same."""

    before: str
    after: str
    rows: tuple[RowChange, ...]
    files: tuple[FileDiff, ...]
    clock_ms: tuple[int, int]
    streams: tuple[Part, ...]
    """Random streams that were drawn from, by name."""
    memory: tuple[Part, ...]
    spent: tuple[Part, ...]
    """Of the budgets."""

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return self.clock_ms[0] == self.clock_ms[1] and not (self.rows or self.files or self.streams or self.memory or self.spent)

    def as_json(self) -> dict[str, Json]:
        """All of it, JSON-shaped."""
        return {
            "before": self.before,
            "after": self.after,
            "same": self.same,
            "rows": [_row(change) for change in self.rows],
            "files": [one.as_json() for one in self.files],
            "clock_ms": {"before": self.clock_ms[0], "after": self.clock_ms[1]},
            **{name: _pairs(found) for name, found in (("streams", self.streams), ("memory", self.memory), ("spent", self.spent))},
        }


def between(before: Moment, after: Moment) -> StateDiff:
    """What is not in `after` as it was in `before`; of one episode or of two of the same world.

    Raises:
        TaskError: their databases come from different templates, so that rows cannot be told apart.
    """
    one, two = before.snapshot, after.snapshot
    if one.template_key != two.template_key:
        raise TaskError(f"template: {before.label} stands on {one.template_key[:12]}, {after.label} on {two.template_key[:12]}")
    files = (FileDiff(path, before.look(path), after.look(path)) for path in files_between(one.files, two.files))
    return StateDiff(
        before.label,
        after.label,
        rows_between(one.rows, two.rows),
        tuple(found for found in files if found.before != found.after),
        (one.clock_ms, two.clock_ms),
        tuple(_by_name(one.streams, two.streams)),
        tuple(parts("", one.memory, two.memory)),
        tuple(parts("", asdict(one.spent), asdict(two.spent))),
    )


def moment_of(snapshot: Snapshot, label: str) -> Moment:
    """A moment of a snapshot alone, with its files as they were sealed. What is as at the start, it does not hold."""
    contents = snapshot.sealed_files.contents(LOOK_BYTES) if snapshot.sealed_files else {}
    looks = {
        path: Look(None if change.kind is None else change, contents.get(path) if change.kind is FileKind.FILE else None)
        for path, change in snapshot.files.items()
    }
    return Moment(label, snapshot, looks)


async def look_at(cell: Cell | None, paths: Iterable[str]) -> dict[str, Look]:
    """What stands at each of `paths` in the cell now; empty without one.

    Raises:
        CellDied, CellTimeout: the cell is lost.
    """
    return {} if cell is None else {path: await _look(cell, path) for path in sorted(set(paths))}


async def _look(cell: Cell, path: str) -> Look:
    try:
        found = await cell.stat(path)
    except FileProblem:
        return Look(None)
    data = None
    if found.kind is FileKind.FILE and found.size_bytes <= LOOK_BYTES:
        try:
            data = (await cell.read_file(path, max_bytes=LOOK_BYTES)).data
        except FileProblem:
            data = None  # the agent's user may not read it: told by what can be seen
    content = found.link_target or (blake2b(data, digest_size=16).hexdigest() if data is not None else "")
    uid = AGENT_UID_SHOWN if found.uid == cell.agent_uid else found.uid
    return Look(FileChange(found.kind, found.mode, uid, found.size_bytes, content), data)


def _text(look: Look | None) -> str | None:
    """The content as text; empty for nothing; `None` where it is no text, or not known."""
    if look is None or (look.entry is not None and look.data is None):
        return None
    try:
        text = (look.data or b"").decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _entry(look: Look | None) -> Json:
    if look is None:
        return "as at the start"
    return None if look.entry is None else asdict(look.entry)


def _row(change: RowChange) -> dict[str, Json]:
    return {
        "table": change.table,
        "key": list(change.key),
        "change": what(change),
        "columns": {name: {"before": one, "after": two} for name, (one, two) in columns_of(change).items()},
    }


def _by_name(one: Mapping[str, Json], two: Mapping[str, Json]) -> Iterator[Part]:
    """Whole values: how far a stream has come is one thing."""
    for name in sorted({*one, *two}):
        if one.get(name) != two.get(name):
            yield name, one.get(name, ABSENT), two.get(name, ABSENT)


def _pairs(found: tuple[Part, ...]) -> list[dict[str, Json]]:
    return [
        {"path": path, **{side: value for side, value in (("before", one), ("after", two)) if value is not ABSENT}}
        for path, one, two in found
    ]
