"""Row changes of an episode, and who made them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wardian.sandbox.changes import RowKey, key_of
from wardian.sandbox.database.base import RowChange, Scalar, order_of

Row = Mapping[str, Scalar]


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """What a ledger knows of one row."""

    table: str
    key: tuple[Scalar, ...]
    start: Row | None
    now: Row | None
    touched: bool
    """By the world itself."""
    alone: Row | None
    """What the world alone made of it, where it touched it."""


class Ledger:
    """Row changes of one episode in their order, each by the agent's calls or by the world itself.

    What the agent did is the difference between the end and what the world alone would have made of the start: a row that only the world
    touched is not the agent's, and of a row that both touched only the columns are that the agent changed last.
    """

    def __init__(self) -> None:
        self._start: dict[RowKey, Row | None] = {}
        self._now: dict[RowKey, Row | None] = {}
        self._alone: dict[RowKey, Row | None] = {}
        """What the world alone made of a row; only rows that it touched."""
        self._step: list[RowChange] = []

    def rows(self) -> tuple[LedgerRow, ...]:
        """All that is known but the running step's changes."""
        return tuple(
            LedgerRow(table, key, start, self._now[table, key], (table, key) in self._alone, self._alone.get((table, key)))
            for (table, key), start in self._start.items()
        )

    @classmethod
    def of(cls, rows: Iterable[LedgerRow]) -> "Ledger":
        """The ledger whose `rows` these are, between two steps."""
        made = cls()
        for row in rows:
            key = row.table, row.key
            made._start[key], made._now[key] = row.start, row.now
            if row.touched:
                made._alone[key] = row.alone
        return made

    def add(self, changes: Iterable[RowChange], *, by_world: bool = False) -> None:
        """Take the newest changes."""
        for change in changes:
            key = key_of(change)
            self._start.setdefault(key, change.before)
            self._now[key] = change.after
            if by_world:
                self._alone[key] = _patched(self._alone.get(key, self._start[key]), change)
            self._step.append(change)

    def take_step(self) -> tuple[RowChange, ...]:
        """Net changes since the last call, whoever made them."""
        taken, self._step = self._step, []
        by_key: dict[RowKey, list[RowChange]] = {}
        for change in taken:
            by_key.setdefault(key_of(change), []).append(change)
        # One alone is kept as it came: the database compares by digest, and rows that it tells apart may look alike here.
        alone = [found[0] for found in by_key.values() if len(found) == 1]
        several = ((key, found[0].before, found[-1].after) for key, found in by_key.items() if len(found) > 1)
        return tuple(sorted([*alone, *_differing(several)], key=order_of))

    def by_agent(self) -> tuple[RowChange, ...]:
        """What the agent's calls made, net."""
        found = ((key, self._alone.get(key, self._start[key]), now) for key, now in self._now.items())
        return tuple(sorted(_differing(found), key=order_of))


def _patched(row: Row | None, change: RowChange) -> Row | None:
    """What a change of the world makes of `row`, column by column. A row that is there only through the agent stays absent."""
    if change.before is None or change.after is None:
        return change.after
    if row is None:
        return None
    return {**row, **{name: value for name, value in change.after.items() if change.before[name] != value}}


def _differing(found: Iterable[tuple[RowKey, Row | None, Row | None]]) -> list[RowChange]:
    return [RowChange(table, key, before, after) for (table, key), before, after in found if before != after]
