"""The whole state of an episode at one tool-call boundary, as a record that can be kept, compared, saved and gone on from.

Database and files stand in it twice: as changed rows and paths, to be compared, and sealed, to be made again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from wardian.envs.action import Observation
from wardian.envs.changes import LedgerRow
from wardian.envs.events import WorldEvent
from wardian.sandbox import differing
from wardian.sandbox.database.base import RowChange
from wardian.sandbox.database.sealed import SealedDatabase
from wardian.sandbox.files import FileChange
from wardian.sandbox.fingerprint import Fingerprint
from wardian.sandbox.sealed import LeftOut, SealedFiles
from wardian.tools.contract import CallEvent, Json


@dataclass(frozen=True, slots=True)
class Spent:
    """What an episode has used of its budgets."""

    steps: int = 0
    tokens: int = 0
    virtual_ms: int = 0
    invalid_streak: int = 0


@dataclass(frozen=True, slots=True)
class Past:
    """What happened before, as far as what follows depends on it: budgets, verdict, records, and what the agent saw last."""

    observation: Observation
    """The latest one."""
    log: tuple[CallEvent, ...]
    background: tuple[WorldEvent, ...]
    ledger: tuple[LedgerRow, ...]
    start_rows: tuple[RowChange, ...]
    start_files: Mapping[str, FileChange]
    start_fingerprint: Fingerprint
    """Of the whole state right after the reset."""
    schema_tokens: int
    answer: str
    """The agent's last message."""
    used_cell: bool
    ended: bool
    lost: str
    """How the agent ended its cell; empty where it did not."""


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
    past: Past
    versions: Mapping[str, str]
    """What it was taken with: an environment that differs in one of them refuses it."""
    database: SealedDatabase | None = field(repr=False)
    copy_steps: tuple[int, ...]
    """The steps at which the older copies in `database` were the newest state."""
    sealed_files: SealedFiles | None = field(repr=False)

    @property
    def left_out(self) -> LeftOut:
        """What lived in the cell and is no part of the snapshot: the memory of processes, and shared memory."""
        return self.sealed_files.left_out if self.sealed_files else LeftOut()

    @property
    def held_bytes(self) -> int:
        """What it holds of files and database."""
        return sum(part.size_bytes for part in (self.database, self.sealed_files) if part is not None)

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
