"""The whole state of an episode at one tool-call boundary, as a record that can be kept and compared.

The database stands in it as its difference to the sealed template, which is complete and small; files stand in it as the
manifest of changed paths.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from wardian.sandbox import differing
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
        lines += [str(one) for name in _PLAIN for one in differing.differences(name, getattr(other, name), getattr(self, name))]
        for title, mine, theirs in (
            ("row ", _by_name(self.rows), _by_name(other.rows)),
            ("file ", self.files, other.files),
            ("stream ", self.streams, other.streams),
            ("memory ", self.memory, other.memory),
        ):
            lines += differing.lines(theirs, mine, title)
        return tuple(lines)


_PLAIN = ("task_id", "seed", "step", "template_key", "clock_ms", "spent")


def _by_name(rows: tuple[RowChange, ...]) -> dict[str, Mapping[str, Json] | None]:
    return {f"{change.table}{list(change.key)}": change.after for change in rows}
