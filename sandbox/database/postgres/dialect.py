"""SQLAlchemy's Postgres dialect, made exact: 64-bit integers, checked reals and instants, and values looked at before they are sent."""

from collections.abc import Iterable
from typing import Any

from psycopg.pq import TransactionStatus
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.base import PGDDLCompiler, PGTypeCompiler
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from wardian.sandbox.database.calls import rolled_back
from wardian.sandbox.database.engines import IN_CALL, SharedEngine, WithoutTransactions, check_values
from wardian.sandbox.database.postgres.links import Link
from wardian.sandbox.database.postgres.statements import check_call

REAL, INSTANT = "wardian_real", "wardian_instant"
"""Types of ours that take only what is kept exactly: see `building`."""


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


class WorldDialect(WithoutTransactions, PGDialect_psycopg):
    supports_statement_cache = True
    ddl_compiler = _PlainColumns
    type_compiler_cls = _ExactTypes
    use_native_hstore = False

    def on_connect(self) -> None:
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
    check_values(row.values() if isinstance(row, dict) else row or () for row in rows)


class PostgresEngine(SharedEngine[Link]):
    """See `SharedEngine`. `first` is an administrator's connection, to ask about versions."""

    def __init__(self, first: Link) -> None:
        registry.register("postgresql.wardian", __name__, "WorldDialect")
        super().__init__("postgresql+wardian://")
        self.connect(first).close()
