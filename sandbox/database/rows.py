"""The canonical form of rows, their additive hashes, and the net changes of a clone.

A table's digest is the sum, modulo 2^128, of the hashes of its rows: it does not depend on their order, and follows a change by
one subtraction and one addition. Canonical bytes carry type and length, so no two rows share them; the sum is over 128 bits of
BLAKE3 per row.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from blake3 import blake3
from sqlalchemy import MetaData, Table

from wardian.sandbox.database.base import RowChange, Scalar
from wardian.sandbox.errors import TemplateBroken
from wardian.sandbox.fingerprint import Fingerprint, digest

Stored: TypeAlias = int | float | str | bytes | None
MODULUS = 1 << 128
MOST_COLUMNS = 60
"""An engine's function takes at most 127 arguments, and an update has two versions of each row."""


def canonical(row: Sequence[Stored]) -> bytes:
    """A row as bytes, by the type of each value."""
    parts = []
    for value in row:
        if value is None:
            parts.append(b"n;")
        elif isinstance(value, int):
            parts.append(b"i%d;" % value)
        elif isinstance(value, str):
            text = value.encode("utf-8", "surrogatepass")
            parts.append(b"s%d:%s" % (len(text), text))
        elif isinstance(value, float):
            parts.append(b"f%s;" % repr(value + 0.0).encode())
        else:
            parts.append(b"b%d:%s" % (len(value), value))
    return b"".join(parts)


def row_hash(table: str, row: Sequence[Stored]) -> int:
    """128 bits over table name and canonical row."""
    return int.from_bytes(blake3(table.encode() + b"\0" + canonical(row)).digest(length=16), "big")


@dataclass(frozen=True, slots=True)
class TableShape:
    """What of a table the change capture needs."""

    name: str
    columns: tuple[str, ...]
    key: tuple[int, ...]
    """Positions of the primary key's columns."""

    @classmethod
    def of(cls, table: Table) -> "TableShape":
        """Read it from a schema.

        Raises:
            TemplateBroken: no primary key, or too many columns.
        """
        columns = tuple(column.name for column in table.columns)
        key = tuple(columns.index(column.name) for column in table.primary_key.columns)
        if not key:
            raise TemplateBroken(f"table {table.name}: every table of a world needs a primary key")
        if len(columns) > MOST_COLUMNS:
            raise TemplateBroken(f"table {table.name}: {len(columns)} columns; a world's table may have {MOST_COLUMNS}")
        return cls(table.name, columns, key)

    def key_of(self, row: Sequence[Stored]) -> tuple[Scalar, ...]:
        return tuple(shown(row[position]) for position in self.key)

    def named(self, row: Sequence[Stored]) -> dict[str, Scalar]:
        return {name: shown(value) for name, value in zip(self.columns, row, strict=True)}


def shapes(metadata: MetaData) -> tuple[TableShape, ...]:
    """All tables of a schema, by name."""
    return tuple(TableShape.of(table) for table in sorted(metadata.tables.values(), key=lambda table: table.name))


def shown(value: Stored) -> Scalar:
    """A stored value in a record of changes: bytes as hex text, fractions as their shortest text."""
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, float):
        return repr(value)
    return value


@dataclass(slots=True)
class TableSum:
    total: int = 0
    rows: int = 0

    def add(self, table: str, row: Sequence[Stored]) -> None:
        self.total = (self.total + row_hash(table, row)) % MODULUS
        self.rows += 1

    def remove(self, table: str, row: Sequence[Stored]) -> None:
        self.total = (self.total - row_hash(table, row)) % MODULUS
        self.rows -= 1

    def leaf(self) -> str:
        return f"{self.rows}:{self.total:032x}"


def sum_rows(table: str, rows: Iterable[Sequence[Stored]]) -> TableSum:
    """Digest of a whole table."""
    found = TableSum()
    for row in rows:
        found.add(table, row)
    return found


@dataclass(slots=True)
class NetChanges:
    """First and last version of each row that changed, by table and key; rows that came back to what they were drop out."""

    rows: dict[tuple[str, tuple[Scalar, ...]], tuple[Sequence[Stored] | None, Sequence[Stored] | None]] = field(default_factory=dict)

    def record(self, shape: TableShape, before: Sequence[Stored] | None, after: Sequence[Stored] | None) -> None:
        if before is not None and after is not None and shape.key_of(before) != shape.key_of(after):
            self.record(shape, before, None)
            self.record(shape, None, after)
            return
        present = after if after is not None else before
        assert present is not None
        place = (shape.name, shape.key_of(present))
        first = self.rows[place][0] if place in self.rows else before
        if first == after:
            self.rows.pop(place, None)
        else:
            self.rows[place] = (first, after)

    def listed(self, by_name: Mapping[str, TableShape]) -> tuple[RowChange, ...]:
        """As records, by table and key."""
        found = []
        for (table, key), (before, after) in sorted(self.rows.items(), key=lambda item: (item[0][0], order_of(item[0][1]))):
            named = by_name[table].named
            found.append(RowChange(table, key, None if before is None else named(before), None if after is None else named(after)))
        return tuple(found)


def order_of(key: tuple[Scalar, ...]) -> tuple[tuple[int, int, str], ...]:
    """A total order over keys of mixed types: null, then numbers, then text."""
    return tuple((0, 0, "") if v is None else (1, int(v), "") if isinstance(v, int) else (2, 0, v) for v in key)


def fingerprint_of(sums: Mapping[str, TableSum], ids: Mapping[str, int]) -> Fingerprint:
    """One leaf per table, and one for the ids that were given out."""
    leaves = {name: found.leaf() for name, found in sums.items()}
    leaves["(ids)"] = digest(repr(sorted(ids.items())).encode())
    return Fingerprint(leaves)
