"""The canonical form of rows, the same on every engine, and the digest of a table's rows.

A table's digest is the sum, modulo 2^128, of the hashes of its rows: it does not depend on their order, and a changed row changes
it by one subtraction and one addition. That makes it cheap to keep step by step. It detects faults; it is no defence against
somebody who searches for a collision.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from blake3 import blake3
from sqlalchemy import Boolean, Column, Date, DateTime, Float, Integer, LargeBinary, MetaData, String, Table
from sqlalchemy.types import TypeDecorator, TypeEngine

from wardian.sandbox.database.base import Scalar
from wardian.sandbox.errors import TemplateBroken
from wardian.sandbox.fingerprint import Fingerprint

Stored: TypeAlias = bool | int | float | str | bytes | None
"""What an engine's driver gives for a cell."""
MODULUS = 1 << 128
INTERNAL = "wardian_"
"""Names that begin so are ours; a world's tables may not."""
MAX_COLUMNS = 100


def _as_flag(value: Stored) -> Stored:
    return None if value is None else bool(value)


def _as_is(value: Stored) -> Stored:
    return value + 0.0 if isinstance(value, float) else value


def _blob(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    raise TypeError(f"no cell of a row: {value!r}")


_encode: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), default=_blob).encode


@dataclass(frozen=True, slots=True)
class TableShape:
    """What the canonical form of a table's rows depends on."""

    name: str
    columns: tuple[str, ...]
    key: tuple[int, ...]
    """Positions of the primary key's columns."""
    forms: tuple[tuple[int, Callable[[Stored], Stored]], ...] = ()
    """Positions whose stored value is not always the canonical one, with what makes it so."""

    @property
    def internal(self) -> bool:
        """Whether it is ours and no table of the world."""
        return self.name.startswith(INTERNAL)

    def canonical(self, row: Sequence[Stored]) -> Sequence[Stored]:
        """The row's values in their canonical form."""
        if not self.forms:
            return row
        values = list(row)
        for position, form in self.forms:
            values[position] = form(values[position])
        return values

    def digest(self, row: Sequence[Stored]) -> int:
        """The hash of one row, below `MODULUS`."""
        return int.from_bytes(blake3(_encode(self.canonical(row)).encode()).digest(16), "big")

    def key_of(self, row: Sequence[Stored]) -> tuple[Scalar, ...]:
        """The row's primary key."""
        return tuple(scalar(row[position]) for position in self.key)

    def as_mapping(self, row: Sequence[Stored]) -> dict[str, Scalar]:
        """The row by column name."""
        return {name: scalar(value) for name, value in zip(self.columns, self.canonical(row), strict=True)}


_CONSTANT = re.compile(r"\(*\s*(?:null|true|false|[-+]?[\d.]+(?:e[-+]?\d+)?|'(?:[^']|'')*')\s*\)*", re.IGNORECASE)
_OF_THE_HOST = frozenset({"now", "today", "tomorrow", "yesterday"})
SEQUENCES = TableShape("wardian_sequences", ("name", "last"), (0,))
"""The last id given out, by table. It is state that later ids depend on, so it has a leaf in the fingerprint."""


def scalar(value: Stored) -> Scalar:
    """A cell as records show it: a float as its shortest exact text, bytes as `\\x` and hex digits."""
    if isinstance(value, float):
        return repr(value)
    return "\\x" + value.hex() if isinstance(value, bytes) else value


def fingerprint_of(shapes: Iterable[TableShape], sums: Iterable[tuple[int, int]]) -> Fingerprint:
    """One leaf per table, from its number of rows and sum of hashes; `(ids)` for the ids that were given out."""
    leaves = zip(shapes, sums, strict=True)
    return Fingerprint({"(ids)" if shape.internal else shape.name: f"{count} rows {total:032x}" for shape, (count, total) in leaves})


def summed(shape: TableShape, rows: Iterable[Sequence[Stored]]) -> tuple[int, int]:
    """Number of rows, and sum of their hashes."""
    count = total = 0
    for row in rows:
        count += 1
        total += shape.digest(row)
    return count, total % MODULUS


def shapes_of(metadata: MetaData) -> tuple[TableShape, ...]:
    """The shapes of a schema's tables, by name.

    Raises:
        TemplateBroken: a table has no primary key, a reserved name, too many columns, or a type that is not exact.
    """
    return tuple(_shape(table) for table in sorted(metadata.tables.values(), key=lambda table: table.name))


def check_table(name: str, columns: Sequence[str], key: Sequence[int]) -> None:
    """Look whether changes of a table can be captured.

    Raises:
        TemplateBroken: they cannot.
    """
    if name.lower().startswith((INTERNAL, "sqlite_")):
        raise TemplateBroken(f"table {name}: names that begin with {INTERNAL} or sqlite_ are reserved")
    if not key:
        raise TemplateBroken(f"table {name}: a world's table needs a primary key, to tell its rows apart")
    if len(columns) > MAX_COLUMNS:
        raise TemplateBroken(f"table {name}: {len(columns)} columns; at most {MAX_COLUMNS} can be captured")


def check_default(column: Column[Any]) -> None:
    """Look whether what the database fills a column with is a constant.

    Raises:
        TemplateBroken: it is an expression, which may ask for the host's time or for chance.
    """
    default = getattr(column.server_default, "arg", None)
    if default is None:
        return
    said = default if isinstance(default, str) else str(default)
    bare = said.strip().lower().strip("'")
    if bare in _OF_THE_HOST or not (isinstance(default, str) or _CONSTANT.fullmatch(said)):
        raise TemplateBroken(
            f"column {column.table.name}.{column.name}: its default {said!r} is no constant, and could ask for the host's time or for"
            " chance; give the value when you write the row"
        )


def _shape(table: Table) -> TableShape:
    columns = tuple(column.name for column in table.columns)
    key = tuple(columns.index(column.name) for column in table.primary_key.columns)
    check_table(table.name, columns, key)
    for column in table.columns:
        check_default(column)
    forms = ((position, _form(column)) for position, column in enumerate(table.columns))
    return TableShape(table.name, columns, key, tuple((position, form) for position, form in forms if form))


def _form(column: Column[Any]) -> Callable[[Stored], Stored] | None:
    kind: TypeEngine[Any] = column.type
    while isinstance(kind, TypeDecorator):
        kind = kind.impl_instance
    if isinstance(kind, Boolean):
        return _as_flag
    if isinstance(kind, Float | LargeBinary):
        return _as_is
    if isinstance(kind, Integer | String | Date) or (isinstance(kind, DateTime) and kind.timezone):
        return None
    raise TemplateBroken(
        f"column {column}: {column.type!r} is not kept exactly on every engine; "
        "use Money, Instant, Id, Text, Flag, Real or JsonValue of wardian.sandbox.database.types"
    )


def any_shape(name: str, columns: tuple[str, ...], key: tuple[int, ...]) -> TableShape:
    """The shape of a table without declared types that bind: each cell by its own type.

    Raises:
        TemplateBroken: as `check_table`.
    """
    check_table(name, columns, key)
    return TableShape(name, columns, key, tuple((position, _as_is) for position in range(len(columns))))
