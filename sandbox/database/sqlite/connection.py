"""Connections to an image in memory, and the triggers that report what changes in one."""

import sqlite3
from collections.abc import Sequence

from wardian.sandbox.database.journal import Journal
from wardian.sandbox.database.rows import Stored, TableShape
from wardian.sandbox.database.sqlite.circles import MARK, is_flat
from wardian.sandbox.database.sqlite.functions import HostFunctions
from wardian.sandbox.database.sqlite.roles import SCHEMA_TABLE, Role


def open_image(image: bytes, host: HostFunctions) -> sqlite3.Connection:
    """A connection to a copy of `image` in memory. Statements commit by themselves unless a transaction was begun."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.deserialize(image)
    # A statement must not leave files on the host's disk, and REPLACE must report what it removes.
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute(f"PRAGMA recursive_triggers = {'OFF' if is_flat(connection) else 'ON'}")
    # Frozen copies rely on it: what a transaction writes reaches the image only on commit.
    connection.execute("PRAGMA cache_spill = OFF")
    connection.execute("PRAGMA foreign_keys = ON")
    host.install(connection)
    return connection


def open_clone(image: bytes, host: HostFunctions, journal: Journal, role: Role) -> sqlite3.Connection:
    """The same, with changes reported to `journal` and statements authorized by `role`."""
    connection = open_image(image, host)
    connection.create_function("wardian_removed", -1, journal.removed)
    connection.create_function("wardian_added", -1, journal.added)
    connection.set_authorizer(role)
    return connection


def mark_of(connection: sqlite3.Connection) -> int:
    """How many reports the database counts; needs an internal role."""
    found: int = connection.execute("SELECT n FROM wardian_mark").fetchone()[0]
    return found


def rows_of(connection: sqlite3.Connection, shape: TableShape) -> sqlite3.Cursor:
    """Every row of a table, as stored."""
    return connection.execute(f"SELECT {', '.join(map(quoted, shape.columns))} FROM {quoted(shape.name)}")


def quoted(name: str) -> str:
    """`name` as an identifier."""
    return '"' + name.replace('"', '""') + '"'


def install_capture(connection: sqlite3.Connection, shapes: Sequence[TableShape]) -> None:
    """Add the mark, the sequences, the copy of the schema, and three triggers per table. `shapes` must end with `SEQUENCES`."""
    # The schema table already has a line without a name for the copy that is being made.
    connection.execute(f"CREATE TABLE {SCHEMA_TABLE} AS SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name <> '{MARK}'")
    connection.execute("CREATE TABLE wardian_mark (n INTEGER NOT NULL) STRICT")
    connection.execute("INSERT INTO wardian_mark VALUES (0)")
    connection.execute("CREATE TABLE wardian_sequences (name TEXT PRIMARY KEY, last INTEGER NOT NULL) STRICT, WITHOUT ROWID")
    given = _given(connection)
    for shape in shapes[:-1]:
        if len(shape.key) == 1:
            last = max(_highest(connection, shape), given.get(shape.name, 0))
            connection.execute("INSERT INTO wardian_sequences VALUES (?, ?)", (shape.name, last))
    for number, shape in enumerate(shapes):
        for trigger in _triggers(number, shape, shape.name in given):
            connection.execute(trigger)


def _given(connection: sqlite3.Connection) -> dict[str, int]:
    """The last ids of tables that SQLite itself counts (AUTOINCREMENT), which no trigger can stand on."""
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%'").fetchall()
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_sequence'").fetchone():
        return {}
    seen = dict(connection.execute("SELECT name, seq FROM sqlite_sequence WHERE typeof(seq) = 'integer'"))
    return {name: seen.get(name, 0) for (name,) in tables}


def _highest(connection: sqlite3.Connection, shape: TableShape) -> int:
    highest: Stored = connection.execute(f"SELECT max({quoted(shape.columns[shape.key[0]])}) FROM {quoted(shape.name)}").fetchone()[0]
    return max(highest, 0) if isinstance(highest, int) else 0


def _triggers(number: int, shape: TableShape, counted: bool) -> tuple[str, str, str]:
    """`counted`: an id that a row brings along counts as given out, as SQLite counts it."""
    old, new = (", ".join(f"{row}.{quoted(column)}" for column in shape.columns) for row in ("OLD", "NEW"))
    removed = f"wardian_removed(n, {number}, {old})"
    bodies = {
        "INSERT": f"wardian_added(n, {number}, {new})",
        "DELETE": removed,
        "UPDATE": f"wardian_added({removed}, {number}, {new})",
    }
    count = ""
    if counted:
        key, name = f"NEW.{quoted(shape.columns[shape.key[0]])}", shape.name.replace("'", "''")
        count = f"UPDATE wardian_sequences SET last = {key} WHERE name = '{name}' AND last < {key};"
    insert, delete, update = (
        f"CREATE TRIGGER wardian_{event.lower()}_{number} AFTER {event} ON {quoted(shape.name)}"
        f" BEGIN UPDATE wardian_mark SET n = {body}; {count if event == 'INSERT' else ''} END"
        for event, body in bodies.items()
    )
    return insert, delete, update
