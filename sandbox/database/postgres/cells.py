"""How a row travels: each cell as one canonical text, written by the server and read here as what SQLite's driver would give."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Boolean, Column, Date, DateTime, Float, Integer, LargeBinary, MetaData
from sqlalchemy.types import TypeDecorator, TypeEngine

from wardian.sandbox.database.rows import SEQUENCES, Stored, TableShape, shapes_of
from wardian.sandbox.errors import TemplateBroken

MAX_NAME_BYTES = 63
_INSTANT = """pg_catalog.to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"""


@dataclass(frozen=True, slots=True)
class Wire:
    """One table: its shape, and how its rows are written and read."""

    shape: TableShape
    expressions: tuple[str, ...]
    """One for each column; the server's SQL."""
    readers: tuple[Callable[[str], Stored], ...]

    @property
    def array(self) -> str:
        """The row as one array of texts; the server's SQL."""
        return f"ARRAY[{', '.join(self.expressions)}]::text[]"

    def read(self, cells: Sequence[str | None]) -> list[Stored]:
        """The row that such an array stands for."""
        return [None if cell is None else reader(cell) for cell, reader in zip(cells, self.readers, strict=True)]


def wires_of(metadata: MetaData) -> tuple[Wire, ...]:
    """Every table of a schema by name, and `SEQUENCES` last.

    Raises:
        TemplateBroken: as `shapes_of`, or a name is longer than the server keeps.
    """
    shapes = shapes_of(metadata)
    for name in _names_of(metadata):
        if len(name.encode()) > MAX_NAME_BYTES:
            raise TemplateBroken(
                f"the name {name} has {len(name.encode())} bytes; Postgres keeps {MAX_NAME_BYTES} bytes and cuts the rest off"
            )
    tables = sorted(metadata.tables.values(), key=lambda table: table.name)
    made = [wire(shape, [(column.name, _kind(column)) for column in table.columns]) for shape, table in zip(shapes, tables, strict=True)]
    return (*made, SEQUENCES_WIRE)


def _names_of(metadata: MetaData) -> Iterator[str]:
    for table in metadata.tables.values():
        yield table.name
        yield from (column.name for column in table.columns)
        named = (*(one.name for one in table.constraints), *(one.name for one in table.indexes))
        yield from (name for name in named if isinstance(name, str))


def wire(shape: TableShape, columns: Sequence[tuple[str, Any]]) -> Wire:
    """The wire of a table whose columns are named, each with what `_form` knows it by."""
    found = [_form(quoted(name), kind) for name, kind in columns]
    return Wire(shape, tuple(expression for expression, _ in found), tuple(reader for _, reader in found))


def _form(column: str, kind: Any) -> tuple[str, Callable[[str], Stored]]:
    forms: dict[Any, tuple[str, Callable[[str], Stored]]] = {
        bool: (f"{column}::text", lambda cell: cell == "true"),
        int: (f"{column}::text", int),
        float: (f"{column}::text", float),
        bytes: (f"pg_catalog.encode({column}, 'hex')", bytes.fromhex),
        "instant": (_INSTANT.format(column), str),
        "date": (f"pg_catalog.to_char({column}, 'YYYY-MM-DD')", str),
        str: (column, str),
        "text": (f"{column}::text", str),
    }
    return forms[kind]


def _kind(column: Column[Any]) -> Any:
    kind: TypeEngine[Any] = column.type
    while isinstance(kind, TypeDecorator):
        kind = kind.impl_instance
    for known, name in ((Boolean, bool), (Integer, int), (Float, float), (LargeBinary, bytes), (DateTime, "instant"), (Date, "date")):
        if isinstance(kind, known):
            return name
    return str


def quoted(name: str) -> str:
    """`name` as an identifier."""
    return '"' + name.replace('"', '""') + '"'


SEQUENCES_WIRE = wire(SEQUENCES, [("name", str), ("last", int)])
