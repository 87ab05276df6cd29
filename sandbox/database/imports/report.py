"""What an import brought, what it left out, and which columns cannot be the same on the other engine. Kept as JSON beside the data."""

import re
from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict

FOLLOWS = "follows from other columns; it is not part of changes and fingerprints"
FROZEN = "materialized: it shows the rows of the import, whatever changes afterwards, since nobody may refresh it"
NO_KEY = "it has no key: its rows are told apart by a number, which each engine gives by itself"


_CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def printable(text: str) -> str:
    """Text of somebody's without what a terminal would obey."""
    return _CONTROLS.sub("?", text)


class Kind(StrEnum):
    """What a column's values are, in the same words for both engines."""

    INTEGER = "integer"
    REAL = "real"
    DECIMAL = "decimal"
    TEXT = "text"
    FLAG = "flag"
    BYTES = "bytes"
    TIMESTAMP = "timestamp"
    """A date and a time of day without a zone."""
    INSTANT = "instant"
    """The same with a zone."""
    DATE = "date"
    TIME = "time"
    OTHER = "other"


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Column(Record):
    name: str
    declared: str
    """The type as the source writes it."""
    kind: Kind
    nullable: bool = True
    default: str = ""
    """The default as the source writes it; empty: none."""
    cannot_agree: str = ""
    """Why the same value has another canonical form on the other engine; empty: it has the same."""
    digest: str = ""
    """Of key and value of each row, with numbers, times and spaces at the end in one spelling: equal where two columns say the same."""


class Table(Record):
    name: str
    rows: int
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    number: str = ""
    """The column that tells rows apart where the source's table has no key. It is counted by the engine, and not among `columns`."""
    cannot_agree: str = ""
    """Why rows of it have another canonical form on the other engine, whatever its columns; empty: they have the same."""
    fingerprint: str = ""
    """The table's leaf of the canonical fingerprint. It does not depend on names."""

    @property
    def can_agree(self) -> bool:
        """Whether the same table on the other engine can have the same leaf."""
        return not self.cannot_agree and not any(column.cannot_agree for column in self.columns)


class LeftOut(Record):
    """Something of the source that is not in the template."""

    what: str
    """Such as `extension`, `grant`, `psql command`."""
    name: str
    why: str = ""
    count: int = 1
    line: int = 0
    """Of the script, where the first of them stands; 0: it is no script."""


class Note(Record):
    """A column or object whose behaviour needs to be known."""

    where: str
    text: str


class Report(Record):
    tables: tuple[Table, ...]
    views: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    triggers: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    sequences: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def rows(self) -> int:
        """Of all tables."""
        return sum(table.rows for table in self.tables)

    def complete(self, fingerprints: dict[str, str], left_out: tuple[LeftOut, ...] = (), notes: tuple[Note, ...] = ()) -> Self:
        """The same, with each table's leaf, and what else was left out or needs to be known."""
        tables = tuple(table.model_copy(update={"fingerprint": fingerprints[table.name]}) for table in self.tables)
        more = {"left_out": (*left_out, *self.left_out), "notes": (*notes, *self.notes)}
        return self.model_copy(update={"tables": tables, **more})


class Source(Record):
    """Where an import came from."""

    kind: str
    """Such as `SQLite file`, `pg_dump archive`."""
    name: str
    """The file's name, or the URL without user and password."""
    bytes: int = 0
    version: str = ""
    """Of the program that made it, where it says so."""


class Manifest(Record):
    """All that is known of an import. Written last."""

    format: int = 1
    name: str
    engine: str
    """`sqlite` or `postgres`."""
    engine_version: str
    """With which it was imported and checked."""
    source: Source
    artifact: str
    """Name of the file that holds the database."""
    artifact_bytes: int
    artifact_digest: str
    template_bytes: int
    report: Report
