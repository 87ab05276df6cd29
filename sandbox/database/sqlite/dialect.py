"""SQLAlchemy's SQLite dialect, made exact: strict tables, instants as fixed-width text, and values checked before they are stored.

One engine per template is shared by all its clones, so that a statement is compiled once. A clone hands its own connection to it.
"""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from sqlalchemy import Connection, Engine, NullPool, Table, create_engine
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.base import SQLiteDDLCompiler, SQLiteTypeCompiler
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.types import DateTime

from wardian.sandbox.database.calls import rolled_back
from wardian.sandbox.database.types import check_real, check_text, instant_text, invalid

IN_CALL = "wardian_in_call"
"""In the `info` of connections whose statements must all run inside a transaction."""


class _InstantText(DateTime):
    """`DateTime(timezone=True)` as text."""

    def bind_processor(self, dialect: Any) -> Callable[[datetime | None], str | None]:
        return lambda value: None if value is None else instant_text(value)

    def literal_processor(self, dialect: Any) -> Callable[[datetime], str]:
        return lambda value: f"'{instant_text(value)}'"

    def result_processor(self, dialect: Any, coltype: object) -> Callable[[str | None], datetime | None]:
        return lambda value: None if value is None else datetime.fromisoformat(value).astimezone(UTC)


class _StrictTypes(SQLiteTypeCompiler):
    """Strict tables know INTEGER, REAL, TEXT and BLOB."""

    def _integer(self, type_: Any, **kw: Any) -> str:
        return "INTEGER"

    def _real(self, type_: Any, **kw: Any) -> str:
        return "REAL"

    def _text(self, type_: Any, **kw: Any) -> str:
        return "TEXT"

    visit_INTEGER = visit_BIGINT = visit_SMALLINT = visit_BOOLEAN = _integer
    visit_FLOAT = visit_DOUBLE = visit_DOUBLE_PRECISION = visit_REAL = _real
    visit_VARCHAR = visit_NVARCHAR = visit_CHAR = visit_NCHAR = visit_TEXT = visit_CLOB = _text
    visit_DATE = visit_DATETIME = visit_TIMESTAMP = _text


class _StrictTables(SQLiteDDLCompiler):
    def post_create_table(self, table: Table) -> str:
        text: str = super().post_create_table(table)  # type: ignore[no-untyped-call]
        return text if "STRICT" in text else f"{text},\n STRICT" if text.strip() else "\n STRICT"


_COLSPECS: Any = {**SQLiteDialect_pysqlite.colspecs, DateTime: _InstantText}


class WorldDialect(SQLiteDialect_pysqlite):
    """Transactions are begun and ended by `WorldDatabase`, never by SQLAlchemy: one call is one transaction."""

    driver = "wardian"
    supports_statement_cache = True
    ddl_compiler = _StrictTables
    type_compiler_cls = _StrictTypes
    colspecs = _COLSPECS

    def on_connect(self) -> None:  # type: ignore[override]
        """Nothing: SQLAlchemy's own would register a `regexp` function that can run for hours."""
        return

    def do_begin(self, dbapi_connection: Any) -> None:
        return

    def do_commit(self, dbapi_connection: Any) -> None:
        return

    def do_rollback(self, dbapi_connection: Any) -> None:
        return

    def do_close(self, dbapi_connection: Any) -> None:
        """Nothing: a connection is closed by who made it."""
        return

    def do_terminate(self, dbapi_connection: Any) -> None:
        return

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        _look_whether_rolled_back(cursor, context)
        _run(cursor.execute, statement, parameters, (parameters,))

    def do_executemany(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        _look_whether_rolled_back(cursor, context)
        _run(cursor.executemany, statement, parameters, parameters)


def _look_whether_rolled_back(cursor: Any, context: Any) -> None:
    """Refuse a statement of a call whose transaction is gone: `INSERT OR ROLLBACK` ended it, and all that follows would be kept."""
    if context is not None and IN_CALL in context.root_connection.info and not cursor.connection.in_transaction:
        raise rolled_back()


def _run(execute: Callable[[str, Any], Any], statement: str, parameters: Any, rows: Sequence[Sequence[Any]]) -> None:
    """Execute after a look at every value, also those that have no declared type."""
    for row in rows:
        for value in row:
            if type(value) is str:
                check_text(value)
            elif type(value) is float:
                check_real(value)
    try:
        execute(statement, parameters)
    except OverflowError:
        raise invalid("an integer must fit in 64 bits") from None


class SharedEngine:
    """One engine for many connections that are made, and closed, elsewhere."""

    def __init__(self) -> None:
        registry.register("sqlite.wardian", __name__, "WorldDialect")
        self._handed: list[sqlite3.Connection] = []
        self._lock = Lock()
        self.engine: Engine = create_engine("sqlite+wardian://", creator=self._handed.pop, poolclass=NullPool, pool_reset_on_return=None)
        # The first connection of an engine is asked about versions, with pragmas that a world's connection refuses.
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as raw:
            self.connect(raw).close()

    def connect(self, raw: sqlite3.Connection) -> Connection:
        """`raw` as a connection of SQLAlchemy. Closing that leaves `raw` open."""
        with self._lock:
            self._handed.append(raw)
            return self.engine.connect()
