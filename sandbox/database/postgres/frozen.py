"""Immutable copies of a clone. Taking one costs nothing: a snapshot is taken when it is read, or just before the clone changes."""

import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from sqlalchemy.orm import Session

from wardian.sandbox.database.base import FrozenDatabase, QueryLimits, Rows
from wardian.sandbox.database.engines import IN_CALL
from wardian.sandbox.database.journal import Window
from wardian.sandbox.database.postgres import query
from wardian.sandbox.database.postgres.dialect import PostgresEngine
from wardian.sandbox.database.postgres.problems import lost, problem_of
from wardian.sandbox.database.postgres.resources import Copy
from wardian.sandbox.database.postgres.roles import AGENTS
from wardian.sandbox.fingerprint import Fingerprint

_SNAPSHOT = (
    f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL ROLE {AGENTS}; SELECT 1"
)
"""The snapshot is taken by the first statement that reads. What other transactions have not committed yet is not in it."""


@dataclass(slots=True, eq=False)
class Moment:
    """One committed state of a clone, shared by all frozen copies that were taken of it."""

    copy: Copy
    current: bool = True
    """Whether the clone still is in this state."""
    reader: psycopg.Connection[Any] | None = None
    holders: int = 0

    def materialise(self) -> psycopg.Connection[Any] | None:
        """Take the snapshot if somebody needs it and it still can be.

        Raises:
            DatabaseLost: the server does not answer, or has no connection left.
        """
        with self.copy.lock:
            if self.reader is None and self.current and self.holders:
                reader = self.copy.reader()
                try:
                    reader.execute(_SNAPSHOT)
                except psycopg.Error as error:
                    self.copy.give_back(reader)
                    raise lost(self.copy.server.url, error) from error
                self.reader = reader
            return self.reader

    def pass_by(self) -> None:
        """The clone is about to change, or to close.

        Raises:
            DatabaseLost: as `materialise`.
        """
        self.materialise()
        self.current = False

    def release(self) -> None:
        """One holder fewer."""
        with self.copy.lock:
            self.holders -= 1
            if not self.holders and self.reader is not None:
                reader, self.reader = self.reader, None
                self.copy.give_back(reader)


class KnownCopy(FrozenDatabase):
    """A copy of which is known what it differs in from the template."""

    window: Window
    """See `Journal.window`."""


class FrozenCopy(KnownCopy):
    """A copy of one moment; see `Moment`."""

    def __init__(self, moment: Moment, engine: PostgresEngine, fingerprint: Fingerprint, window: Window) -> None:
        moment.holders += 1
        self._moment: Moment | None = moment
        self._give_back = weakref.finalize(self, moment.release)  # a copy that nobody closed must not keep its connection
        self._engine = engine
        self._fingerprint = fingerprint
        self.window = window

    def session(self) -> AbstractContextManager[Session]:
        return self._session()

    @contextmanager
    def _session(self) -> Iterator[Session]:
        moment = self._held()
        with moment.copy.lock:
            raw = self._reader()
            # A statement that fails must not take the snapshot with it.
            _asked(moment, raw, "SAVEPOINT wardian")
        connection = self._engine.connect(raw).execution_options(**{IN_CALL: True})
        session = Session(connection, expire_on_commit=False)
        try:
            yield session
            # A change that was made and not yet sent must not pass unseen.
            session.flush()
        except Exception as error:
            problem = problem_of(error, moment.copy.server.url)
            if problem is None or problem is error:
                raise
            raise problem from error
        finally:
            session.close()
            connection.close()
            if not raw.closed:
                _asked(moment, raw, "ROLLBACK TO SAVEPOINT wardian; RELEASE SAVEPOINT wardian")

    def query(self, sql: str, limits: QueryLimits | None = None) -> Rows:
        moment = self._held()
        with moment.copy.lock:
            return query.run_frozen(self._reader(), moment.copy.server.url, sql, limits or QueryLimits())

    def _held(self) -> Moment:
        if self._moment is None:
            raise RuntimeError("this frozen database is closed")
        return self._moment

    def _reader(self) -> psycopg.Connection[Any]:
        raw = self._held().materialise()
        if raw is None:
            raise RuntimeError("this frozen database is closed")
        return raw

    def fingerprint(self) -> Fingerprint:
        return self._fingerprint

    def close(self) -> None:
        self._moment = None
        self._give_back()


def _asked(moment: Moment, raw: psycopg.Connection[Any], sql: str) -> None:
    try:
        raw.execute(sql.encode())
    except psycopg.Error as error:
        raise lost(moment.copy.server.url, error) from error


def window_of(copy: FrozenDatabase) -> Window:
    """What a frozen copy of this engine differs in from the template."""
    assert isinstance(copy, KnownCopy), "a copy is sealed by the engine that made it"
    return copy.window
