"""States of a clone as rows that differ from the template, and how they come back into a fresh clone.

A copy of the database would be exact to the page, but no other process could have it, and the server makes one only of a database that
nobody is connected to. Rows are put back in the order in which they were last changed, so that a query without ORDER BY mostly gives
them as before. That is done by an administrator, for whom foreign keys are not looked at in between; the triggers that report
changes fire nevertheless, so the fingerprint afterwards is of what was really written.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import psycopg

from wardian.sandbox.database.base import FrozenDatabase
from wardian.sandbox.database.journal import RowKey, Window, keyed
from wardian.sandbox.database.postgres.cells import Wire, quoted
from wardian.sandbox.database.postgres.clone import PostgresDatabase
from wardian.sandbox.database.postgres.problems import lost
from wardian.sandbox.database.postgres.server import Link, connected
from wardian.sandbox.database.rows import Stored
from wardian.sandbox.database.sealed import SealedDatabase, SealedState, unpacked
from wardian.sandbox.errors import LeakDetected

_BEGIN = b"BEGIN; SET LOCAL session_replication_role = replica"
_GENERATED = """
    SELECT c.relname, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE a.attgenerated <> '' AND c.relnamespace = 'public'::regnamespace
"""


def restore(database: PostgresDatabase, url: str, sealed: SealedDatabase) -> tuple[FrozenDatabase, ...]:
    """Bring a fresh clone through the states that were sealed; gives the frozen copies of the older ones. `url` is of the clone.

    Raises:
        LeakDetected: a state is not what was sealed.
        DatabaseLost: the server does not answer or cannot go on.
    """
    copies: list[FrozenDatabase] = []
    try:
        with connected(url) as link:
            generated = frozenset(link.execute(_GENERATED).fetchall())
            for state in sealed.copies:
                _bring(database, link, state, generated)
                copies.append(database.freeze())
            _bring(database, link, sealed.present, generated)
        database.take_changes()
    except BaseException as error:
        for copy in copies:
            copy.close()
        if isinstance(error, psycopg.Error):
            raise lost(url, error) from error
        raise
    return tuple(copies)


def _bring(database: PostgresDatabase, link: Link, state: SealedState, generated: frozenset[Any]) -> None:
    """`generated`: columns that the server computes itself, as (table, column)."""
    wires = database.wires
    wanted = keyed([wire.shape for wire in wires], unpacked(state.body))
    steps = list(_steps(database.window(), wanted))
    if steps:
        link.execute(_BEGIN)
        _put(link, wires, steps, generated)
        database.adopt(link)
    if wrong := database.fingerprint().differences(state.fingerprint):
        raise LeakDetected("database", wrong)


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


def _put(link: Link, wires: Sequence[Wire], steps: Sequence[_Step], generated: frozenset[Any]) -> None:
    """Remove all that changes first, so that rows which trade a unique value do not meet."""
    for number, wire in enumerate(wires):
        mine = [(key, there, row) for (table, key), there, row in steps if table == number]
        shape = wire.shape
        name = f"public.{quoted(shape.name)}"
        if gone := [key for key, there, _ in mine if there]:
            where = " AND ".join(f"{quoted(shape.columns[position])} = %s" for position in shape.key)
            _many(link, f"DELETE FROM {name} WHERE {where}", gone)
        if made := [row for _, _, row in mine if row is not None]:
            given = [position for position, column in enumerate(shape.columns) if (shape.name, column) not in generated]
            columns = ", ".join(quoted(shape.columns[position]) for position in given)
            values = [[row[position] for position in given] for row in made]
            _many(link, f"INSERT INTO {name} ({columns}) VALUES ({', '.join(['%s'] * len(given))})", values)


def _many(link: Link, sql: str, rows: Sequence[Sequence[object]]) -> None:
    with link.cursor() as cursor:
        cursor.executemany(sql.encode(), rows)
