"""What changed: kept as it happens, exact under every kind of rollback, and summed up on commit.

An engine reports each row that it removes or adds. Each report gets the number of reports before it, which the engine keeps
*in the database itself*: when a statement, a savepoint or a transaction is undone, that number goes back with it, and the next
report (or the commit) drops all that came after. So no kind of rollback needs to be noticed.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from wardian.sandbox.database.base import RowChange, Scalar, order_of
from wardian.sandbox.database.rows import MODULUS, Stored, TableShape, fingerprint_of
from wardian.sandbox.database.sealed import packed, unpacked
from wardian.sandbox.fingerprint import Fingerprint

_Row = Sequence[Stored]
RowKey: TypeAlias = tuple[int, tuple[Scalar, ...]]
"""A table's place, and a row's primary key."""
Window: TypeAlias = dict[RowKey, tuple[_Row | None, _Row | None]]
"""First and last row of each key that changed, in the order of the last change; `None` where there was or is no row."""


class Journal:
    """Reports of the running transaction, and the sums and net changes of the committed ones."""

    def __init__(self, shapes: Sequence[TableShape], counts: Sequence[int], totals: Sequence[int]) -> None:
        self._shapes = shapes
        self._counts = list(counts)
        self._totals = list(totals)
        self._base = 0
        self._reports: list[tuple[int, bool, _Row]] = []
        self._since_start: Window = {}
        """Rows of our own tables too."""
        self._since_taken: Window = {}
        self._fingerprint: Fingerprint | None = None

    def removed(self, mark: int, table: int, *row: Stored) -> int:
        """Note that `row` is gone; gives the next mark."""
        return self._note(mark, table, False, row)

    def added(self, mark: int, table: int, *row: Stored) -> int:
        """Note that `row` is new; gives the next mark."""
        return self._note(mark, table, True, row)

    def _note(self, mark: int, table: int, is_added: bool, row: _Row) -> int:
        del self._reports[mark - self._base :]
        self._reports.append((table, is_added, row))
        return mark + 1

    @property
    def pending(self) -> int:
        """How much was reported in the running transaction, undone or not."""
        return len(self._reports)

    def commit(self, mark: int) -> None:
        """Count the reports up to `mark` as done."""
        del self._reports[mark - self._base :]
        for table, is_added, row in self._reports:
            self._apply(table, is_added, row)
        if self._reports:
            self._fingerprint = None
        self._reports.clear()
        self._base = mark

    def rollback(self) -> None:
        """Forget the running transaction."""
        self._reports.clear()

    def _apply(self, table: int, is_added: bool, row: _Row) -> None:
        shape = self._shapes[table]
        sign = 1 if is_added else -1
        self._counts[table] += sign
        self._totals[table] = (self._totals[table] + sign * shape.digest(row)) % MODULUS
        key = table, shape.key_of(row)
        for window in (self._since_start,) if shape.internal else (self._since_start, self._since_taken):
            first = window.pop(key)[0] if key in window else None if is_added else row
            window[key] = first, row if is_added else None

    def fingerprint(self) -> Fingerprint:
        """The committed state: one leaf per table."""
        if self._fingerprint is None:
            self._fingerprint = fingerprint_of(self._shapes, zip(self._counts, self._totals, strict=True))
        return self._fingerprint

    def window(self) -> Window:
        """First and last row of each key that changed since the start, our own tables included."""
        return dict(self._since_start)

    def seal(self) -> bytes:
        """All that is known of the committed transactions. Changes that were not taken count as taken."""
        rows = [[table, first, last] for (table, _), (first, last) in self._since_start.items()]
        return packed({"counts": self._counts, "totals": self._totals, "base": self._base, "rows": rows})

    @classmethod
    def restored(cls, shapes: Sequence[TableShape], sealed: bytes) -> "Journal":
        """The journal of which `seal` gave these bytes."""
        found = unpacked(sealed)
        journal = cls(shapes, found["counts"], found["totals"])
        journal._base = found["base"]
        journal._since_start = keyed(shapes, found["rows"])
        return journal

    def since_start(self) -> tuple[RowChange, ...]:
        """Net changes of all committed transactions."""
        return self._net(self._since_start)

    def take(self) -> tuple[RowChange, ...]:
        """Net changes since the last call."""
        found = self._net(self._since_taken)
        self._since_taken = {}
        return found

    def _net(self, window: Window) -> tuple[RowChange, ...]:
        changes = []
        for (table, key), (before, after) in window.items():
            shape = self._shapes[table]
            if shape.internal:
                continue
            # By digest: as records show them, the number 1.5 and the text 1.5 are alike.
            if (None if before is None else shape.digest(before)) != (None if after is None else shape.digest(after)):
                old = None if before is None else shape.as_mapping(before)
                new = None if after is None else shape.as_mapping(after)
                changes.append(RowChange(shape.name, key, old, new))
        return tuple(sorted(changes, key=order_of))


def keyed(shapes: Sequence[TableShape], rows: Sequence[Sequence[Any]]) -> Window:
    """A window from `[table, first row, last row]` of each key."""
    return {(table, shapes[table].key_of(first if first is not None else last)): (first, last) for table, first, last in rows}
