"""World databases on SQLite: a sealed image, deserialised into memory for each clone.

A clone costs a copy of the image and a dozen calls. Its image holds triggers that report each changed row to a function of the
clone's connection, so the fingerprint follows every change, whatever statement made it. A transaction in which a statement
failed cannot commit, as on Postgres: what its triggers reported before the failure would not be true.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType

from sqlalchemy import Connection, Engine, MetaData, text
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError, StatementError
from sqlalchemy.orm import Session

from wardian.sandbox.database.base import FrozenDatabase, QueryLimits, RowChange, Rows, Scalar, WorldDatabase
from wardian.sandbox.database.connect import attach, open_image
from wardian.sandbox.database.query import run_query
from wardian.sandbox.database.roles import CHANGE, frozen_authorizer, harden, reader_authorizer, tool_authorizer
from wardian.sandbox.database.rows import NetChanges, Stored, TableShape, TableSum, fingerprint_of, sum_rows
from wardian.sandbox.errors import DatabaseProblem, DatabaseProblemKind
from wardian.sandbox.fingerprint import Fingerprint


@dataclass(frozen=True, slots=True)
class SealedImage:
    """All that clones share."""

    key: str
    image: bytes
    metadata: MetaData
    shapes: tuple[TableShape, ...]
    sums: Mapping[str, tuple[int, int]]
    """Digest and row count of each table at the start."""
    engine: Engine


class SqliteDatabase(WorldDatabase):
    """One clone. Use it from one thread at a time."""

    def __init__(self, sealed: SealedImage) -> None:
        self.template_key = sealed.key
        self._sealed = sealed
        self._by_name = {shape.name: shape for shape in sealed.shapes}
        self._sums = {name: TableSum(total, rows) for name, (total, rows) in sealed.sums.items()}
        self._ids: dict[str, int] = {}
        self._running_ids: dict[str, int] = {}
        self._since_start = NetChanges()
        self._since_taken = NetChanges()
        self._pending: list[tuple[TableShape, tuple[Stored, ...] | None, tuple[Stored, ...] | None]] = []
        self._open = False
        self._raw = open_image(sealed.image)
        self._raw.create_function(CHANGE, -1, self._report)
        harden(self._raw)
        self._connection: Connection | None = attach(sealed.engine, self._raw)
        self._raw.set_authorizer(tool_authorizer)

    def _report(self, table: int, operation: str, *values: Stored) -> None:
        """Called by the image's triggers for each changed row: (old and) new values in the order of the columns."""
        shape = self._sealed.shapes[table]
        width = len(shape.columns)
        before = values[:width] if operation in "ud" else None
        after = values[-width:] if operation in "ui" else None
        self._pending.append((shape, before, after))

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        if self._open:
            raise RuntimeError("a transaction of this database is open already; they do not nest")
        connection = self._live()
        self._open = True
        connection.info["failed"] = False
        self._running_ids = dict(self._ids)
        transaction = connection.begin()
        session = Session(connection, expire_on_commit=False)
        try:
            yield session
            session.flush()
            if connection.info["failed"]:
                message = "a statement of this transaction failed, so nothing of it is kept"
                raise DatabaseProblem(DatabaseProblemKind.CONSTRAINT, message)
            session.close()
            transaction.commit()
            self._keep()
        except (SQLAlchemyError, sqlite3.Error, OverflowError, UnicodeEncodeError) as error:
            raise problem_of(error) from error
        finally:
            session.close()
            if transaction.is_active:
                transaction.rollback()
            self._pending.clear()
            self._open = False

    def _keep(self) -> None:
        """Take the changes of a committed transaction into digests and diffs."""
        for shape, before, after in self._pending:
            found = self._sums[shape.name]
            if before is not None:
                found.remove(shape.name, before)
            if after is not None:
                found.add(shape.name, after)
            self._since_start.record(shape, before, after)
            self._since_taken.record(shape, before, after)
        self._ids = self._running_ids

    def allocate_id(self, session: Session, table: str) -> int:
        shape = self._by_name[table]
        column = shape.columns[shape.key[0]]
        highest = session.execute(text(f'SELECT max("{column}") FROM "{table}"')).scalar()
        following = max(self._running_ids.get(table, 1), (highest or 0) + 1)
        self._running_ids[table] = following + 1
        return following

    def query(self, sql: str, parameters: Mapping[str, Scalar] | None = None, limits: QueryLimits | None = None) -> Rows:
        self._live()
        self._raw.set_authorizer(reader_authorizer(self._by_name.keys()))
        try:
            return run_query(self._raw, sql, parameters or {}, limits or QueryLimits(), self._sealed.shapes)
        finally:
            self._raw.set_authorizer(tool_authorizer)

    def fingerprint(self) -> Fingerprint:
        return fingerprint_of(self._sums, self._ids)

    def recompute(self) -> Fingerprint:
        self._live()
        return fingerprint_of(sums_of(self._raw, self._sealed.shapes), self._ids)

    def freeze(self) -> FrozenDatabase:
        self._live()
        return FrozenSqlite(self._sealed, self._raw.serialize(), dict(self._ids))

    def changes_since_start(self) -> tuple[RowChange, ...]:
        return self._since_start.listed(self._by_name)

    def take_changes(self) -> tuple[RowChange, ...]:
        taken, self._since_taken = self._since_taken, NetChanges()
        return taken.listed(self._by_name)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _live(self) -> Connection:
        if self._connection is None:
            raise RuntimeError("this clone is closed")
        return self._connection

    def __enter__(self) -> "SqliteDatabase":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class FrozenSqlite(FrozenDatabase):
    """An immutable copy; opened when first read."""

    def __init__(self, sealed: SealedImage, image: bytes, ids: Mapping[str, int]) -> None:
        self._sealed = sealed
        self._image = image
        self._ids = ids
        self._raw: sqlite3.Connection | None = None
        self._connection: Connection | None = None
        self._closed = False

    def _opened(self) -> Connection:
        if self._closed:
            raise RuntimeError("this copy is closed")
        if self._connection is None:
            raw = open_image(self._image)
            raw.execute("PRAGMA query_only=ON")
            self._raw = raw
            self._connection = attach(self._sealed.engine, raw)
            raw.set_authorizer(frozen_authorizer)
        return self._connection

    @contextmanager
    def session(self) -> Iterator[Session]:
        connection = self._opened()
        transaction = connection.begin()
        session = Session(connection, expire_on_commit=False, autoflush=False)
        try:
            yield session
        except (DBAPIError, StatementError) as error:
            raise problem_of(error) from error
        finally:
            session.close()
            if transaction.is_active:
                transaction.rollback()

    def fingerprint(self) -> Fingerprint:
        self._opened()
        assert self._raw is not None
        return fingerprint_of(sums_of(self._raw, self._sealed.shapes), self._ids)

    def close(self) -> None:
        self._closed = True
        connection, self._connection, self._raw = self._connection, None, None
        if connection is not None:
            connection.close()


def sums_of(raw: sqlite3.Connection, shapes: tuple[TableShape, ...]) -> dict[str, TableSum]:
    """Digest every table by reading every row."""
    found = {}
    for shape in shapes:
        columns = ",".join(f'"{name}"' for name in shape.columns)
        found[shape.name] = sum_rows(shape.name, raw.execute(f'SELECT {columns} FROM "{shape.name}"'))
    return found


def problem_of(error: BaseException) -> BaseException:
    """The typed problem behind what SQLAlchemy or SQLite raised; an error of a tool's own code stays as it is."""
    cause = error.orig if isinstance(error, StatementError) and error.orig is not None else error
    if isinstance(cause, DatabaseProblem):
        return cause
    if isinstance(error, IntegrityError) or isinstance(cause, sqlite3.IntegrityError):
        return DatabaseProblem(DatabaseProblemKind.CONSTRAINT, str(cause))
    if isinstance(cause, OverflowError | UnicodeEncodeError | sqlite3.InterfaceError):
        return DatabaseProblem(DatabaseProblemKind.INVALID_VALUE, str(cause))
    if isinstance(cause, sqlite3.DatabaseError):
        denied = "not authorized" in str(cause) or "readonly" in str(cause) or "prohibited" in str(cause)
        return DatabaseProblem(DatabaseProblemKind.FORBIDDEN if denied else DatabaseProblemKind.SYNTAX, str(cause))
    return error
