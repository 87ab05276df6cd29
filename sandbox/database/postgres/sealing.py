"""States of a clone as rows that differ from the template, and how they come back into a fresh clone.

A copy of the database would be exact to the page, but no other process could have it, and the server makes one only of a database that
nobody is connected to. Rows are put back in the order in which they were last changed, so that a query without ORDER BY mostly gives
them as before. Foreign keys are not looked at in between (`session_replication_role`); the triggers that report changes fire nevertheless,
so the fingerprint afterwards is of what was really written. Rows are put in by the clone's own connection and never by an administrator:
a constraint may call a function of an import.

The first row that a connection writes to a table costs it twice what the next one does: it reads the catalogue, compiles triggers and
plans. So a spare rehearses the statements of earlier restores: the same ones, on no row, and undone.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, TypeAlias

import psycopg
from sqlalchemy.orm import Session

from wardian.sandbox.database.base import FrozenDatabase, QueryLimits, Rows
from wardian.sandbox.database.journal import RowKey, Window, keyed
from wardian.sandbox.database.postgres.capture import TAKE
from wardian.sandbox.database.postgres.cells import Wire, quoted
from wardian.sandbox.database.postgres.clone import PostgresDatabase
from wardian.sandbox.database.postgres.frozen import KnownCopy
from wardian.sandbox.database.postgres.links import Link, connected
from wardian.sandbox.database.postgres.problems import lost
from wardian.sandbox.database.postgres.server import OWNER_RESTORES, Server
from wardian.sandbox.database.rows import Stored, TableShape
from wardian.sandbox.database.sealed import SealedState, unpacked
from wardian.sandbox.errors import LeakDetected
from wardian.sandbox.fingerprint import Fingerprint

Generated: TypeAlias = tuple[str, str]
"""A table and a column."""
_BEGIN = "BEGIN; SET LOCAL session_replication_role = replica"
_GENERATED = """
    SELECT c.relname, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE a.attgenerated <> '' AND c.relnamespace = 'public'::regnamespace
"""
_ASKING = """
    SELECT t.tgrelid::regclass::text, quote_ident(t.tgname) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
    WHERE t.tgenabled = 'O' AND c.relnamespace = 'public'::regnamespace ORDER BY t.oid
"""
"""All but those that report changes."""
_NEVER = "tableoid = (SELECT 0::oid)"
"""True of no row, which the planner does not know: a rehearsal is planned as the statement is."""
_REHEARSED_KEYS = 2
"""As many as give a statement the form that it has with more."""
Rehearsal: TypeAlias = dict[tuple[str, str], str]
"""Statements without effect, by what they do and the table."""


def generated_columns(url: str) -> frozenset[Generated]:
    """Columns that the server computes itself, of the clone at `url`.

    Raises:
        DatabaseLost: the server does not answer.
    """
    with connected(url) as link:
        return frozenset((str(table), str(column)) for table, column in link.execute(_GENERATED).fetchall())


def restore(database: PostgresDatabase, server: Server, state: SealedState, generated: frozenset[Generated]) -> Rehearsal:
    """Bring a fresh clone into a state; gives what of it a spare can rehearse.

    Raises:
        LeakDetected: it is not what was sealed.
        DatabaseLost: the server does not answer or cannot go on.
    """
    wires = database.wires
    steps = list(_steps(database.window(), window_in(state, wires)))
    statements = _statements(psycopg.ClientCursor(database.link), wires, steps, generated)
    try:
        if statements:
            with _without_keys(database, server) as begin:
                database.adopt("; ".join([begin, *(one.sql for one in statements)]))
    except psycopg.Error as error:
        raise lost(server.url, error) from error
    if wrong := database.fingerprint().differences(state.fingerprint):
        raise LeakDetected("database", wrong)
    database.take_changes()
    # On an older server the triggers of an import would fire, which are then switched off for a restore alone.
    return {(one.does, one.table): one.without_rows for one in statements} if server.version >= OWNER_RESTORES else {}


def rehearse(link: Link, rehearsal: Rehearsal) -> None:
    """Let the connection of a spare do what restores do, on no row. No trace is left in the database, not even of the attempt.

    Raises:
        psycopg.Error: the server does not answer or cannot go on.
    """
    link.execute("; ".join([_BEGIN, *rehearsal.values(), TAKE.format(0), "ROLLBACK"]).encode())


@contextmanager
def _without_keys(database: PostgresDatabase, server: Server) -> Iterator[str]:
    """How the transaction begins that does not look at foreign keys. An older server lets only an administrator say so, who there
    switches off the triggers that ask, for as long as the block lasts, in a clone that nobody else has yet.
    """
    if server.version >= OWNER_RESTORES:
        yield _BEGIN
        return
    with connected(server.url_of(database.name)) as link:
        asking = link.execute(_ASKING).fetchall()
        _switch(link, "DISABLE", asking)
        yield "BEGIN"
        _switch(link, "ENABLE", asking)


def _switch(link: Link, how: str, triggers: Sequence[tuple[str, str]]) -> None:
    for table, trigger in triggers:
        link.execute(f"ALTER TABLE {table} {how} TRIGGER {trigger}".encode())


class SealedCopy(KnownCopy):
    """An older state that a restored episode still holds. A clone of its own is made for it, and proved, when somebody reads it: few do."""

    def __init__(self, make: Callable[[SealedState], PostgresDatabase], state: SealedState, window: Window) -> None:
        self._make = make
        self._state = state
        self.window = window
        self._made: tuple[PostgresDatabase, FrozenDatabase] | None = None
        self._closed = False

    def _frozen(self) -> FrozenDatabase:
        if self._closed:
            raise RuntimeError("this frozen database is closed")
        if self._made is None:
            database = self._make(self._state)
            self._made = database, database.freeze()
        return self._made[1]

    def session(self) -> AbstractContextManager[Session]:
        return self._frozen().session()

    def query(self, sql: str, limits: QueryLimits | None = None) -> Rows:
        return self._frozen().query(sql, limits)

    def fingerprint(self) -> Fingerprint:
        return self._state.fingerprint

    def close(self) -> None:
        self._closed = True
        made, self._made = self._made, None
        if made is not None:
            made[1].close()
            made[0].close()


def window_in(state: SealedState, wires: Sequence[Wire]) -> Window:
    """What a sealed state differs in from the template."""
    return keyed([wire.shape for wire in wires], unpacked(state.body))


_Step = tuple[RowKey, bool, Sequence[Stored] | None]
"""A row to be put in: its key, whether one of that key is there, and the row; `None`: there is to be none."""


def _steps(now: Window, wanted: Window) -> Iterable[_Step]:
    for key, (first, last) in wanted.items():
        there = now[key][1] if key in now else first
        if there != last:
            yield key, there is not None, last
    for key, (first, last) in now.items():
        if key not in wanted and first != last:
            yield key, last is not None, first


class _Statement(NamedTuple):
    does: str
    table: str
    sql: str
    without_rows: str
    """The same, on no row."""


def _statements(
    writer: psycopg.ClientCursor[Any], wires: Sequence[Wire], steps: Sequence[_Step], generated: frozenset[Generated]
) -> list[_Statement]:
    """One statement to remove and one to add rows of each table, since each has triggers to call. All that changes is removed first, so
    that rows which trade a unique value do not meet.
    """
    removals, additions = [], []
    for number, wire in enumerate(wires):
        mine = [(key, there, row) for (table, key), there, row in steps if table == number]
        if gone := [key for key, there, _ in mine if there]:
            removals.append(_removal(writer, wire.shape, gone))
        if made := [row for _, _, row in mine if row is not None]:
            additions.append(_addition(writer, wire.shape, made, generated))
    return [*removals, *additions]


def _removal(writer: psycopg.ClientCursor[Any], shape: TableShape, keys: Sequence[Sequence[object]]) -> _Statement:
    columns = ", ".join(quoted(shape.columns[position]) for position in shape.key)
    start = f"DELETE FROM public.{quoted(shape.name)} WHERE ({columns}) IN"
    few = _rows(writer, keys[:_REHEARSED_KEYS])
    return _Statement("remove", shape.name, f"{start} ({_rows(writer, keys)})", f"{start} ({few}) AND {_NEVER}")


def _addition(
    writer: psycopg.ClientCursor[Any], shape: TableShape, rows: Sequence[Sequence[Stored]], generated: frozenset[Generated]
) -> _Statement:
    given = [position for position, column in enumerate(shape.columns) if (shape.name, column) not in generated]
    columns = ", ".join(quoted(shape.columns[position]) for position in given)
    start = f"INSERT INTO public.{quoted(shape.name)} ({columns})"
    values = [[row[position] for position in given] for row in rows]
    none = f"SELECT {', '.join(['NULL'] * len(given))} WHERE (SELECT false)"
    return _Statement("add", shape.name, f"{start} VALUES {_rows(writer, values)}", f"{start} {none}")


def _rows(writer: psycopg.ClientCursor[Any], rows: Sequence[Sequence[object]]) -> str:
    line = f"({', '.join(['%s'] * len(rows[0]))})"
    return ", ".join(writer.mogrify(line, row) for row in rows)
