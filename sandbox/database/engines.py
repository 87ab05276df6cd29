"""SQLAlchemy over connections that are made, and closed, elsewhere, and whose transactions are not SQLAlchemy's.

One engine per template is shared by all its clones, so that a statement is compiled once. A clone hands its own connection to it.
"""

from collections.abc import Iterable
from threading import Lock
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Engine, NullPool, create_engine

from wardian.sandbox.database.types import check_integer, check_real, check_text

IN_CALL = "wardian_in_call"
"""Marks connections whose statements must all run inside a transaction."""

Raw = TypeVar("Raw")


class WithoutTransactions:
    """Mixed into a dialect: transactions are begun and ended by `WorldDatabase`, never by SQLAlchemy. One call is one transaction."""

    driver = "wardian"

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


class SharedEngine(Generic[Raw]):
    """One engine for many connections."""

    def __init__(self, url: str) -> None:
        self._handed: list[Raw] = []
        self._lock = Lock()
        self.engine: Engine = create_engine(url, creator=self._handed.pop, poolclass=NullPool, pool_reset_on_return=None)

    def connect(self, raw: Raw) -> Connection:
        """`raw` as a connection of SQLAlchemy. Closing that leaves `raw` open."""
        with self._lock:
            self._handed.append(raw)
            return self.engine.connect()


def check_values(rows: Iterable[Iterable[Any]]) -> None:
    """Look at every value before it is sent, also those that have no declared type.

    Raises:
        DatabaseProblem: one cannot be kept exactly.
    """
    for row in rows:
        for value in row:
            kind = type(value)
            if kind is str:
                check_text(value)
            elif kind is float:
                check_real(value)
            elif kind is int:
                check_integer(value)
