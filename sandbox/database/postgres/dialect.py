"""SQLAlchemy's Postgres dialect, made exact: 64-bit integers, checked reals and instants, and values looked at before they are sent.

One engine per template is shared by all its clones, so that a statement is compiled once. A clone hands its own connection to it.
"""

from collections.abc import Iterable
from threading import Lock
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, Engine, NullPool, create_engine
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.base import PGDDLCompiler, PGTypeCompiler
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from wardian.sandbox.database.calls import rolled_back
from wardian.sandbox.database.postgres.server import Link
from wardian.sandbox.database.postgres.statements import check_call
from wardian.sandbox.database.types import check_integer, check_real, check_text

REAL, INSTANT = "wardian_real", "wardian_instant"
"""Types of ours that take only what is kept exactly: see `building`."""
IN_CALL = "wardian_in_call"
"""The execution option of connections whose statements must all run inside a transaction."""


class _ExactTypes(PGTypeCompiler):
    def _integer(self, type_: Any, **kw: Any) -> str:
        return "BIGINT"

    def _real(self, type_: Any, **kw: Any) -> str:
        return REAL

    def _text(self, type_: Any, **kw: Any) -> str:
        return "TEXT"

    def _instant(self, type_: Any, **kw: Any) -> str:
        return INSTANT

    visit_INTEGER = visit_BIGINT = visit_SMALLINT = _integer
    visit_FLOAT = visit_DOUBLE = visit_DOUBLE_PRECISION = visit_REAL = _real
    visit_VARCHAR = visit_NVARCHAR = visit_CHAR = visit_NCHAR = visit_TEXT = visit_CLOB = _text
    visit_DATETIME = visit_TIMESTAMP = _instant


class _PlainColumns(PGDDLCompiler):
    def get_column_specification(self, column: Any, **kwargs: Any) -> str:
        """Name, type, default and nullability: no sequence is ever made, since ids are the world's to give."""
        kind = self.dialect.type_compiler_instance.process(column.type, type_expression=column)
        default = self.get_column_default_string(column)
        words = [self.preparer.format_column(column), kind, f"DEFAULT {default}" if default is not None else ""]
        return " ".join(filter(None, [*words, "" if column.nullable else "NOT NULL"]))


class WorldDialect(PGDialect_psycopg):
    """Transactions are begun and ended by `WorldDatabase`, never by SQLAlchemy: one call is one transaction."""

    driver = "wardian"
    supports_statement_cache = True
    ddl_compiler = _PlainColumns
    type_compiler_cls = _ExactTypes
    use_native_hstore = False

    def on_connect(self) -> None:
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
        if _in_call(context):
            _check(cursor, statement, (parameters,))
        cursor.execute(statement, parameters or None)

    def do_executemany(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        if _in_call(context):
            _check(cursor, statement, parameters)
        cursor.executemany(statement, parameters)


def _in_call(context: Any) -> bool:
    return context is not None and bool(context.execution_options.get(IN_CALL))


def _check(cursor: Any, statement: str, rows: Iterable[Any]) -> None:
    """Look at a statement of a call and at every value, also those that have no declared type."""
    if cursor.connection.info.transaction_status == TransactionStatus.INERROR and not statement.startswith("ROLLBACK TO"):
        raise rolled_back()
    check_call(statement)
    for row in rows:
        for value in row.values() if isinstance(row, dict) else row or ():
            if type(value) is str:
                check_text(value)
            elif type(value) is float:
                check_real(value)
            elif type(value) is int:
                check_integer(value)


class SharedEngine:
    """One engine for many connections that are made, and closed, elsewhere. `first` is an administrator's, to ask about versions."""

    def __init__(self, first: Link) -> None:
        registry.register("postgresql.wardian", __name__, "WorldDialect")
        self._handed: list[psycopg.Connection[Any]] = []
        self._lock = Lock()
        self.engine: Engine = create_engine(
            "postgresql+wardian://", creator=self._handed.pop, poolclass=NullPool, pool_reset_on_return=None
        )
        self.connect(first).close()

    def connect(self, raw: Link) -> Connection:
        """`raw` as a connection of SQLAlchemy. Closing that leaves `raw` open."""
        with self._lock:
            self._handed.append(raw)
            return self.engine.connect()
