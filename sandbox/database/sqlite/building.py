"""Makes images: from a schema and seed rows, or from a database file that exists."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import MetaData
from sqlalchemy.schema import CreateIndex, CreateTable, DDLElement

from wardian.sandbox.database.base import TemplateSource
from wardian.sandbox.database.calls import CallSession
from wardian.sandbox.database.rows import INTERNAL, SEQUENCES, TableShape, any_shape, shapes_of, summed
from wardian.sandbox.database.sqlite.circles import MARK, REPLACES, has_circles
from wardian.sandbox.database.sqlite.connection import install_capture, open_image, quoted, rows_of
from wardian.sandbox.database.sqlite.dialect import SqliteEngine
from wardian.sandbox.database.sqlite.functions import HostFunctions
from wardian.sandbox.database.sqlite.roles import Role
from wardian.sandbox.errors import TemplateBroken

ROW_NUMBERS = ("rowid", "_rowid_", "oid")
"""Names by which SQLite tells the number of a row, where no column has the same name. It is the key of tables that have none."""
_HEADER = b"SQLite format 3\x00"


@dataclass(frozen=True, slots=True)
class Built:
    """An image that was verified, with its sums."""

    image: bytes
    shapes: tuple[TableShape, ...]
    tables: frozenset[str]
    counts: tuple[int, ...]
    totals: tuple[int, ...]


def schema_text(metadata: MetaData, engine: SqliteEngine) -> str:
    """The statements that make the schema: part of a template's key."""
    return "\n".join(_schema_statements(metadata, engine))


def _schema_statements(metadata: MetaData, engine: SqliteEngine) -> list[str]:
    tables = metadata.sorted_tables
    indexes = [index for table in tables for index in sorted(table.indexes, key=lambda index: str(index.name))]
    made: list[DDLElement] = [*map(CreateTable, tables), *map(CreateIndex, indexes)]
    return [str(statement.compile(engine.engine)) for statement in made]


def build_image(source: TemplateSource, engine: SqliteEngine) -> Built:
    """Make the schema, fill it with seed rows, verify and seal.

    Raises:
        TemplateBroken: the schema cannot be kept exactly, or the result is not sound.
        Exception: whatever `seed_rows` raises.
    """
    shapes = (*shapes_of(source.metadata), SEQUENCES)
    tables = frozenset(shape.name for shape in shapes[:-1])
    with _workbench(sqlite3.connect(":memory:", isolation_level=None)) as raw:
        raw.execute("PRAGMA foreign_keys = ON")
        for statement in _schema_statements(source.metadata, engine):
            try:
                raw.execute(statement)
            except sqlite3.Error as error:
                raise TemplateBroken(f"template {source.name}: SQLite refuses {' '.join(statement.split())[:200]!r}: {error}") from error
        _seed(source, raw, tables, engine)
        return _sealed(raw, shapes, tables)


def image_of_file(path: Path) -> Built:
    """Take the database file at `path` as it is, with what stands in its write-ahead log, and seal it. The file is only read.

    Raises:
        TemplateBroken: it is missing, empty, no database, damaged, or holds no table whose changes can be captured.
    """
    _check_header(path)
    try:
        # The backup reads one consistent state, log included; copying files beside a log would not.
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
            raw = sqlite3.connect(":memory:", isolation_level=None)
            file.backup(raw)
        with _workbench(raw):
            _check_sound(raw)
            shapes = (*_found_shapes(raw, path), SEQUENCES)
            _check_references(raw, path)
            _mark_circles(raw, path)
            views = (row[0] for row in raw.execute("SELECT name FROM sqlite_schema WHERE type = 'view'"))
            return _sealed(raw, shapes, frozenset((*(shape.name for shape in shapes[:-1]), *views)))
    except sqlite3.Error as error:
        raise TemplateBroken(f"{path}: SQLite cannot read it: {error}") from error


@contextmanager
def _workbench(raw: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """A connection for building, closed at the end."""
    with closing(raw), closing(HostFunctions()) as host:
        host.install(raw)
        yield raw


def _seed(source: TemplateSource, raw: sqlite3.Connection, tables: frozenset[str], engine: SqliteEngine) -> None:
    raw.execute("BEGIN")
    raw.set_authorizer(Role(tables, writes=True))
    with engine.connect(raw) as connection, CallSession(connection) as session:
        source.seed_rows(session, source.seed)
        session.flush()
    raw.set_authorizer(None)
    raw.commit()


def _sealed(raw: sqlite3.Connection, shapes: tuple[TableShape, ...], tables: frozenset[str]) -> Built:
    install_capture(raw, shapes)
    raw.execute("VACUUM")
    _check_sound(raw)
    image = bytearray(raw.serialize())
    # 1: rollback journal. An image that says 2 (write-ahead log) cannot be opened in memory; everything is in it by now.
    image[18] = image[19] = 1
    sums = [summed(shape, rows_of(raw, shape)) for shape in shapes]
    built = Built(bytes(image), shapes, tables, tuple(count for count, _ in sums), tuple(total for _, total in sums))
    check_image(built)
    return built


def check_image(built: Built) -> None:
    """Open the image as a clone does, and compare the rows of every table with the sums.

    Raises:
        TemplateBroken: it is not what was summed.
    """
    with closing(HostFunctions()) as host, closing(open_image(built.image, host)) as raw:
        for shape, count, total in zip(built.shapes, built.counts, built.totals, strict=True):
            found = summed(shape, rows_of(raw, shape))
            if found != (count, total):
                raise TemplateBroken(f"table {shape.name}: the image has {found[0]} rows that are not the {count} that were sealed")


def _check_sound(raw: sqlite3.Connection) -> None:
    wrong = [row[0] for row in raw.execute("PRAGMA integrity_check(5)") if row[0] != "ok"]
    if wrong:
        raise TemplateBroken(f"the database is damaged: {'; '.join(wrong)}")
    orphans = raw.execute("PRAGMA foreign_key_check").fetchmany(5)
    if orphans:
        lines = "; ".join(f"row {row} of {table} refers to no row of {parent}" for table, row, parent, _ in orphans)
        raise TemplateBroken(f"foreign keys do not hold: {lines}; mend or remove these rows in a copy")


def _check_references(raw: sqlite3.Connection, path: Path) -> None:
    """A reference to a table that is not there makes every later statement on its table fail."""
    lost = raw.execute(
        "SELECT t.name, f.\"table\" FROM sqlite_schema t, pragma_foreign_key_list(t.name) f WHERE t.type = 'table'"
        " AND lower(f.\"table\") NOT IN (SELECT lower(name) FROM sqlite_schema WHERE type = 'table')"
    ).fetchall()
    if lost:
        lines = "; ".join(f"{table} refers to {parent}" for table, parent in lost[:5])
        raise TemplateBroken(f"{path}: foreign keys lead to tables that are not there: {lines}; make them, or drop the keys, in a copy")


def _check_header(path: Path) -> None:
    try:
        with path.open("rb") as file:
            head = file.read(len(_HEADER))
    except OSError as error:
        raise TemplateBroken(f"{path}: cannot be read: {error.strerror}") from error
    if not head:
        raise TemplateBroken(f"{path}: the file is empty; SQLite would take it for a database without tables")
    if head != _HEADER:
        raise TemplateBroken(f"{path}: no SQLite database; it begins with {head!r}")


def _mark_circles(raw: sqlite3.Connection, path: Path) -> None:
    if not has_circles(raw):
        return
    for name, sql in raw.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL"):
        if REPLACES.search(sql):
            raise TemplateBroken(
                f"{path}: triggers lead back to themselves, and {name} uses REPLACE; the rows it removes could not be followed"
            )
    raw.execute(f"CREATE TABLE {MARK} (n INTEGER) STRICT")


def _found_shapes(raw: sqlite3.Connection, path: Path) -> tuple[TableShape, ...]:
    found = raw.execute("SELECT name, type, sql FROM sqlite_schema ORDER BY name").fetchall()
    ours = [name for name, _, _ in found if name.lower().startswith(INTERNAL)]
    if ours:
        raise TemplateBroken(f"{path}: names that begin with {INTERNAL} are reserved: {', '.join(ours[:5])}")
    tables = [(name, sql) for name, kind, sql in found if kind == "table" and not name.startswith("sqlite_")]
    if not tables:
        raise TemplateBroken(f"{path}: a database without tables")
    virtual = [name for name, sql in tables if sql.upper().startswith("CREATE VIRTUAL")]
    if virtual:
        raise TemplateBroken(
            f"{path}: virtual tables cannot be captured: {', '.join(virtual[:5])}; drop them, and triggers that fill them, in a copy"
        )
    return tuple(_found_shape(raw, name) for name, _ in tables)


def _found_shape(raw: sqlite3.Connection, table: str) -> TableShape:
    columns = raw.execute(f"PRAGMA table_info({quoted(table)})").fetchall()
    names = tuple(column[1] for column in columns)
    key = tuple(position for _, position in sorted((place, position) for position, (*_, place) in enumerate(columns) if place))
    if key := key or _unique_key(raw, table, {position for position, column in enumerate(columns) if column[3]}):
        return any_shape(table, names, key)
    number = next((name for name in ROW_NUMBERS if name not in {name.lower() for name in names}), None)
    return any_shape(table, names, ()) if number is None else any_shape(table, (number, *names), (0,))


def _unique_key(raw: sqlite3.Connection, table: str, filled: set[int]) -> tuple[int, ...]:
    """Positions of columns that are never NULL and tell rows apart though they are no primary key; empty when there are none."""
    for _, index, is_unique, _, is_partial in raw.execute(f"PRAGMA index_list({quoted(table)})").fetchall():
        positions = tuple(position for _, position, _ in raw.execute(f"PRAGMA index_info({quoted(index)})"))
        if is_unique and not is_partial and filled.issuperset(positions):
            return positions
    return ()
