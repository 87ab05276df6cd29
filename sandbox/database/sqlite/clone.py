"""One episode's clone of an SQLite template."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from wardian.sandbox.database.base import FrozenDatabase, QueryLimits, Rows, Scalar, Written
from wardian.sandbox.database.calls import JournalledDatabase, rolled_back
from wardian.sandbox.database.engines import IN_CALL
from wardian.sandbox.database.journal import Journal
from wardian.sandbox.database.problems import problem_of
from wardian.sandbox.database.rows import TableShape, fingerprint_of, summed
from wardian.sandbox.database.sealed import SealedDatabase, SealedState
from wardian.sandbox.database.sqlite.circles import MARK, NO_REPLACE, REPLACES, is_flat
from wardian.sandbox.database.sqlite.connection import mark_of, open_clone, quoted, rows_of
from wardian.sandbox.database.sqlite.dialect import SqliteEngine
from wardian.sandbox.database.sqlite.frozen import FrozenImage, Moment, image_of
from wardian.sandbox.database.sqlite.functions import HostFunctions
from wardian.sandbox.database.sqlite.query import AgentQueries
from wardian.sandbox.database.sqlite.roles import Role
from wardian.sandbox.database.sqlite.sealing import difference
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
    engine: SqliteEngine
    timed: bool = False
    """Whether the database may fill in the world's time by itself."""


class SqliteDatabase(JournalledDatabase):
    """A clone in memory."""

    def __init__(self, sealed: Sealed, image: bytes | None = None, journal: Journal | None = None) -> None:
        """`image` and `journal` are those of a state that was sealed; by default the clone begins at the start."""
        journal = journal or Journal(sealed.shapes, sealed.counts, sealed.totals)
        super().__init__(sealed.key, journal)
        self._sealed = sealed
        self._host = HostFunctions(self._world_time)
        self._role = Role(sealed.tables, writes=True, timed=sealed.timed)
        self._raw = open_clone(sealed.image if image is None else image, self._host, journal, self._role)
        self._flat = self._is_flat()
        self._queries = AgentQueries(self._raw, sealed.tables, self._host, sealed.timed)
        self._connection: Connection | None = None
        self._moment = Moment(self._raw, self._lock)

    def _world_time(self) -> datetime | None:
        return self.time() if self.time is not None and self._sealed.timed else None

    def _is_flat(self) -> bool:
        with self._internal() as raw:
            return is_flat(raw)

    @contextmanager
    def _internal(self) -> Iterator[sqlite3.Connection]:
        """Let statements of this package touch what is ours."""
        self._role.internal = True
        try:
            yield self._raw
        finally:
            self._role.internal = False

    def _begin(self) -> Connection:
        if self._connection is None:
            self._connection = self._sealed.engine.connect(self._raw)
            self._connection.info[IN_CALL] = True
            self._connection.info[MARK] = self._flat
        self._host.refused = ""
        with self._internal() as raw:
            raw.execute("BEGIN IMMEDIATE")
        return self._connection

    def _problem_of(self, error: BaseException) -> Exception | None:
        if self._host.refused and isinstance(error, DBAPIError):
            return DatabaseProblem(DatabaseProblemKind.FORBIDDEN, self._host.refused)
        return problem_of(error)

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
        shape = self._sealed.shapes[self._counted(session, table, self._sealed.shapes)]
        sql = (
            f"UPDATE wardian_sequences SET last = max(last, coalesce((SELECT max({quoted(shape.columns[shape.key[0]])}) FROM"
            f" {quoted(table)}), 0)) + 1 WHERE name = ? RETURNING last"
        )
        with self._internal() as raw:
            found: int = raw.execute(sql, (table,)).fetchall()[0][0]
        return found

    def execute(self, session: Session, sql: str, limits: QueryLimits | None = None) -> Written:
        self._must_run(session, "execute")
        session.flush()
        if self._flat and REPLACES.search(sql):
            raise DatabaseProblem(DatabaseProblemKind.FORBIDDEN, NO_REPLACE)
        return self._queries.write(sql, limits or QueryLimits(), self._role, self._journal)

    def query(self, sql: str, parameters: Mapping[str, Scalar] | None = None, limits: QueryLimits | None = None) -> Rows:
        with self._alone():
            return self._queries.run(sql, parameters, limits or QueryLimits(), self._role)

    def recompute(self) -> Fingerprint:
        with self._alone(), self._internal() as raw:
            return recomputed(raw, self._sealed.shapes)

    def freeze(self) -> FrozenDatabase:
        with self._alone():
            return FrozenImage(self._moment, self._sealed.engine, self._sealed.tables, self._journal.fingerprint())

    def seal(self, copies: Sequence[FrozenDatabase] = ()) -> SealedDatabase:
        with self._alone():
            base, now = self._sealed.image, self._raw.serialize()
            older = tuple(SealedState(copy.fingerprint(), difference(image_of(copy), base)) for copy in copies)
            present = SealedState(self._journal.fingerprint(), difference(now, base))
            return SealedDatabase(self.template_key, present, older, self._journal.seal())

    def _let_go(self) -> None:
        self._moment.pass_by()
        if self._connection is not None:
            self._connection.close()
        self._raw.close()
        self._host.close()


def recomputed(connection: sqlite3.Connection, shapes: tuple[TableShape, ...]) -> Fingerprint:
    """The fingerprint of all rows of a connection that may read what is ours."""
    return fingerprint_of(shapes, (summed(shape, rows_of(connection, shape)) for shape in shapes))
