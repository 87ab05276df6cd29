"""SQLAlchemy's SQLite dialect, made exact: strict tables, instants as fixed-width text, and values checked before they are stored."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Table
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.base import SQLiteDDLCompiler, SQLiteTypeCompiler
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.types import DateTime

from wardian.sandbox.database.calls import rolled_back
from wardian.sandbox.database.engines import IN_CALL, SharedEngine, WithoutTransactions, check_values
from wardian.sandbox.database.sqlite.circles import MARK, NO_REPLACE, REPLACES
from wardian.sandbox.database.types import instant_text
from wardian.sandbox.errors import DatabaseProblem, DatabaseProblemKind


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


class WorldDialect(WithoutTransactions, SQLiteDialect_pysqlite):
    supports_statement_cache = True
    ddl_compiler = _StrictTables
    type_compiler_cls = _StrictTypes
    colspecs = _COLSPECS

    def on_connect(self) -> None:  # type: ignore[override]
        """Nothing: SQLAlchemy's own would register a `regexp` function that can run for hours."""
        return

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        _look_whether_rolled_back(cursor, context)
        _look_whether_replacing(statement, context)
        check_values((parameters,))
        cursor.execute(statement, parameters)

    def do_executemany(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        _look_whether_rolled_back(cursor, context)
        _look_whether_replacing(statement, context)
        check_values(parameters)
        cursor.executemany(statement, parameters)


def _look_whether_replacing(statement: str, context: Any) -> None:
    if context is not None and context.root_connection.info.get(MARK) and REPLACES.search(statement):
        raise DatabaseProblem(DatabaseProblemKind.FORBIDDEN, NO_REPLACE)


def _look_whether_rolled_back(cursor: Any, context: Any) -> None:
    """Refuse a statement of a call whose transaction is gone: `INSERT OR ROLLBACK` ended it, and all that follows would be kept."""
    if context is not None and IN_CALL in context.root_connection.info and not cursor.connection.in_transaction:
        raise rolled_back()


class SqliteEngine(SharedEngine[sqlite3.Connection]):
    """See `SharedEngine`."""

    def __init__(self) -> None:
        registry.register("sqlite.wardian", __name__, "WorldDialect")
        super().__init__("sqlite+wardian://")
        # The first connection of an engine is asked about versions, with pragmas that a world's connection refuses.
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as raw:
            self.connect(raw).close()
