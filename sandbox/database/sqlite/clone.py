"""One episode's clone of an SQLite template."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from threading import RLock

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from wardian.sandbox.database.base import FrozenDatabase, QueryLimits, RowChange, Rows, Scalar, WorldDatabase
from wardian.sandbox.database.calls import CallSession, rolled_back
from wardian.sandbox.database.journal import Journal
from wardian.sandbox.database.problems import problem_of
from wardian.sandbox.database.rows import TableShape, fingerprint_of, summed
from wardian.sandbox.database.sqlite.connection import mark_of, open_clone, quoted, rows_of
from wardian.sandbox.database.sqlite.dialect import IN_CALL, SharedEngine
from wardian.sandbox.database.sqlite.frozen import FrozenImage, Moment
from wardian.sandbox.database.sqlite.functions import DateFunctions
from wardian.sandbox.database.sqlite.query import AgentQueries
from wardian.sandbox.database.sqlite.roles import Role
from wardian.sandbox.errors import DatabaseProblem, DatabaseProblemKind
from wardian.sandbox.fingerprint import Fingerprint


@dataclass(frozen=True, slots=True)
class Sealed:
    """What all clones of a template share. Nothing in it changes."""

    key: str
    image: bytes
    shapes: tuple[TableShape, ...]
    """By name, with `SEQUENCES` last."""
    tables: frozenset[str]
    """Names that the roles may read: tables and views of the world."""
    counts: tuple[int, ...]
    totals: tuple[int, ...]
    engine: SharedEngine


class SqliteDatabase(WorldDatabase):
    """A clone in memory. Calls from several threads wait for each other; a transaction is held by one thread from begin to end."""

    def __init__(self, sealed: Sealed) -> None:
        self.template_key = sealed.key
        self._sealed = sealed
        self._journal = Journal(sealed.shapes, sealed.counts, sealed.totals)
        self._dates = DateFunctions()
        self._role = Role(sealed.tables, writes=True)
        self._raw = open_clone(sealed.image, self._dates, self._journal, self._role)
        self._queries = AgentQueries(self._raw, sealed.tables, self._dates)
        self._connection: Connection | None = None
        self._session: Session | None = None
        self._lock = RLock()
        self._moment = Moment(self._raw, self._lock)
        self._closed = False

    @contextmanager
    def _alone(self) -> Iterator[sqlite3.Connection]:
        """Hold the clone while no transaction runs."""
        with self._lock:
            if self._closed:
                raise RuntimeError("this world database is closed")
            if self._session is not None:
                raise RuntimeError("a transaction of this world database is open; end it first")
            yield self._raw

    @contextmanager
    def _internal(self) -> Iterator[sqlite3.Connection]:
        """Let statements of this package touch what is ours."""
        self._role.internal = True
        try:
            yield self._raw
        finally:
            self._role.internal = False

    def transaction(self) -> AbstractContextManager[Session]:
        return self._transaction()

    @contextmanager
    def _transaction(self) -> Iterator[Session]:
        with self._alone() as raw:
            if self._connection is None:
                self._connection = self._sealed.engine.connect(raw)
                self._connection.info[IN_CALL] = True
            with self._internal():
                raw.execute("BEGIN IMMEDIATE")
            session = self._session = CallSession(self._connection, expire_on_commit=False)
            try:
                yield session
                session.flush()
                self._commit()
            except BaseException as error:
                self._rollback()
                problem = problem_of(error)
                if problem is None or problem is error:
                    raise
                raise problem from error
            finally:
                self._session = None
                session.close()

    def _commit(self) -> None:
        with self._internal() as raw:
            if not raw.in_transaction:
                raise rolled_back()
            if not self._journal.pending:
                raw.commit()
                return
            mark = mark_of(raw)
            self._moment.pass_by()
            try:
                raw.commit()
            except sqlite3.IntegrityError as error:  # of a deferred constraint
                raise DatabaseProblem(DatabaseProblemKind.CONSTRAINT, str(error)) from error
            finally:
                self._moment = Moment(raw, self._lock)
        self._journal.commit(mark)

    def _rollback(self) -> None:
        with self._internal() as raw:
            raw.rollback()
        self._journal.rollback()

    def allocate_id(self, session: Session, table: str) -> int:
        if session is not self._session:
            raise RuntimeError(f"allocate_id({table!r}) needs the session of the running transaction")
        shape = next((shape for shape in self._sealed.shapes[:-1] if shape.name == table), None)
        if shape is None or len(shape.key) != 1:
            raise ValueError(f"allocate_id: {table!r} is no table of this world with a single key column")
        sql = (
            f"UPDATE wardian_sequences SET last = max(last, coalesce((SELECT max({quoted(shape.columns[shape.key[0]])}) FROM"
            f" {quoted(table)}), 0)) + 1 WHERE name = ? RETURNING last"
        )
        with self._internal() as raw:
            found: int = raw.execute(sql, (table,)).fetchall()[0][0]
        return found

    def query(self, sql: str, parameters: Mapping[str, Scalar] | None = None, limits: QueryLimits | None = None) -> Rows:
        with self._alone():
            return self._queries.run(sql, parameters, limits or QueryLimits(), self._role)

    def fingerprint(self) -> Fingerprint:
        return self._journal.fingerprint()

    def recompute(self) -> Fingerprint:
        with self._alone(), self._internal() as raw:
            return recomputed(raw, self._sealed.shapes)

    def freeze(self) -> FrozenDatabase:
        with self._alone():
            return FrozenImage(self._moment, self._sealed.engine, self._sealed.tables, self._journal.fingerprint())

    def changes_since_start(self) -> tuple[RowChange, ...]:
        return self._journal.since_start()

    def take_changes(self) -> tuple[RowChange, ...]:
        return self._journal.take()

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            if self._session is not None:
                raise RuntimeError("a transaction of this world database is open; end it first")
            self._closed = True
            self._moment.pass_by()
            if self._connection is not None:
                self._connection.close()
            self._raw.close()
            self._dates.close()


def recomputed(connection: sqlite3.Connection, shapes: tuple[TableShape, ...]) -> Fingerprint:
    """The fingerprint of all rows of a connection that may read what is ours."""
    return fingerprint_of(shapes, (summed(shape, rows_of(connection, shape)) for shape in shapes))
