"""The whole state of an episode at one tool-call boundary, as a record that can be kept and compared.

The database stands in it as its difference to the sealed template, which is complete and small; files stand in it as the
manifest of changed paths.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from wardian.sandbox.database.base import RowChange
from wardian.sandbox.files import FileChange
from wardian.sandbox.fingerprint import Fingerprint
from wardian.tools.contract import Json


@dataclass(frozen=True, slots=True)
class Spent:
    """What an episode has used of its budgets."""

    steps: int = 0
    tokens: int = 0
    virtual_ms: int = 0
    invalid_streak: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    task_id: str
    seed: int
    step: int
    """Steps taken; 0 right after the reset."""
    epoch: int
    """Episodes that this environment has begun; two snapshots of one epoch are of one episode."""
    fingerprint: Fingerprint
    template_key: str
    """Empty when the world has no database."""
    rows: tuple[RowChange, ...]
    """All rows that differ from the template."""
    files: Mapping[str, FileChange]
    """All paths that differ from the cell's start state."""
    clock_ms: int
    streams: Mapping[str, tuple[int, float | None]]
    """How far each used stream has come; see `Streams.positions`."""
    memory: Mapping[str, Json]
    spent: Spent

    def differences(self, other: "Snapshot") -> tuple[str, ...]:
        """Readable lines: what is not as in `other`. Empty exactly when both are the same state.

        The epoch is no part of the state.
        """
        lines = list(self.fingerprint.differences(other.fingerprint))
        for name in ("task_id", "seed", "step", "template_key", "clock_ms", "spent"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                lines.append(f"{name}: expected {theirs}, found {mine}")
        lines += _row_lines(self.rows, other.rows)
        for title, mine, theirs in (
            ("file", self.files, other.files),
            ("stream", self.streams, other.streams),
            ("memory", self.memory, other.memory),
        ):
            lines += _mapping_lines(title, mine, theirs)
        return tuple(lines)


def _row_lines(found: tuple[RowChange, ...], expected: tuple[RowChange, ...]) -> list[str]:
    mine = {f"{change.table}{list(change.key)}": change.after for change in found}
    theirs = {f"{change.table}{list(change.key)}": change.after for change in expected}
    return _mapping_lines("row", mine, theirs)


def _mapping_lines(title: str, found: Mapping[str, object], expected: Mapping[str, object]) -> list[str]:
    return [
        f"{title} {name}: expected {expected.get(name, 'nothing')}, found {found.get(name, 'nothing')}"
        for name in sorted({*found, *expected})
        if found.get(name, "nothing") != expected.get(name, "nothing")
    ]
