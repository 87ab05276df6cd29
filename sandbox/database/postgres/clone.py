"""One episode's clone of a Postgres template."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from threading import RLock

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection
from sqlalchemy.orm import Session

from wardian.sandbox.database.base import FrozenDatabase, QueryLimits, RowChange, Rows, Scalar, WorldDatabase
from wardian.sandbox.database.calls import CallSession, rolled_back
from wardian.sandbox.database.journal import Journal
from wardian.sandbox.database.postgres import query
from wardian.sandbox.database.postgres.building import sums_of
from wardian.sandbox.database.postgres.capture import TAKE
from wardian.sandbox.database.postgres.cells import Wire, quoted
from wardian.sandbox.database.postgres.dialect import IN_CALL, SharedEngine
from wardian.sandbox.database.postgres.frozen import FrozenCopy, Moment
from wardian.sandbox.database.postgres.problems import lost, problem_of
from wardian.sandbox.database.postgres.resources import Copy
from wardian.sandbox.database.postgres.server import TOOLS, Link, Server
from wardian.sandbox.database.rows import fingerprint_of
from wardian.sandbox.errors import SandboxError
from wardian.sandbox.fingerprint import Fingerprint

_BEGIN = f"BEGIN; SET LOCAL ROLE {TOOLS}".encode()
_END = f"RESET ROLE; {TAKE}".encode()


@dataclass(frozen=True, slots=True)
class Sealed:
    """What all clones of a template share. Nothing in it changes."""

    key: str
    wires: tuple[Wire, ...]
    """By name, with `SEQUENCES` last."""
    counts: tuple[int, ...]
    totals: tuple[int, ...]
    engine: SharedEngine
    server: Server


class PostgresDatabase(WorldDatabase):
    """A clone on a server. Calls from several threads wait for each other; a transaction is held by one thread from begin to end."""

    def __init__(self, sealed: Sealed, copy: Copy) -> None:
        self.template_key = sealed.key
        self._sealed = sealed
        self._copy = copy
        self._raw: Link = copy.link
        self._journal = Journal([wire.shape for wire in sealed.wires], sealed.counts, sealed.totals)
        self._mark = 0
        self._connection: Connection | None = None
        self._session: Session | None = None
        self._lock = RLock()
        self._moment = Moment(copy)
        self._closed = False

    @contextmanager
    def _alone(self) -> Iterator[Link]:
        """Hold the clone while no transaction runs."""
        with self._lock:
            if self._closed:
                raise RuntimeError("this world database is closed")
            if self._session is not None:
                raise RuntimeError("a transaction of this world database is open; end it first")
            yield self._raw

    def transaction(self) -> AbstractContextManager[Session]:
        return self._transaction()

    @contextmanager
    def _transaction(self) -> Iterator[Session]:
        with self._alone():
            self._asked(_BEGIN)
            if self._connection is None:
                self._connection = self._sealed.engine.connect(self._raw).execution_options(**{IN_CALL: True})
            session = self._session = CallSession(self._connection, expire_on_commit=False)
            try:
                yield session
                session.flush()
                self._commit()
            except BaseException as error:
                self._rollback()
                problem = problem_of(error, self._sealed.server.url)
                if problem is None or problem is error:
                    raise
                raise problem from error
            finally:
                self._session = None
                session.close()

    def _commit(self) -> None:
        if self._raw.info.transaction_status == TransactionStatus.INERROR:
            raise rolled_back()
        cursor = self._raw.execute(_END)
        cursor.nextset()
        reports = sorted(cursor.fetchall())
        mark = self._mark
        for _, table, added, cells in reports:
            row = self._sealed.wires[table].read(cells)
            mark = (self._journal.added if added else self._journal.removed)(mark, table, *row)
        if reports:
            self._moment.pass_by()
        try:
            self._raw.execute(b"COMMIT")
        finally:
            if reports:
                self._moment = Moment(self._copy)
        self._journal.commit(mark)
        self._mark = mark

    def _rollback(self) -> None:
        self._journal.rollback()
        with suppress(psycopg.Error):  # a lost server has undone it already
            if self._raw.info.transaction_status != TransactionStatus.IDLE:
                self._raw.execute(b"ROLLBACK")

    def _asked(self, sql: bytes) -> None:
        try:
            self._raw.execute(sql)
        except psycopg.Error as error:
            raise lost(self._sealed.server.url, error) from error

    def allocate_id(self, session: Session, table: str) -> int:
        if session is not self._session:
            raise RuntimeError(f"allocate_id({table!r}) needs the session of the running transaction")
        wire = next((wire for wire in self._sealed.wires[:-1] if wire.shape.name == table), None)
        if wire is None or len(wire.shape.key) != 1:
            raise ValueError(f"allocate_id: {table!r} is no table of this world with a single key column")
        if self._raw.info.transaction_status == TransactionStatus.INERROR:
            raise rolled_back()
        key = wire.shape.key[0]
        highest = (
            f"coalesce((SELECT max({quoted(wire.shape.columns[key])}) FROM public.{quoted(table)}), 0)" if wire.readers[key] is int else "0"
        )
        update = f"UPDATE public.wardian_sequences SET last = greatest(last, {highest}) + 1 WHERE name = '{_escaped(table)}' RETURNING last"
        try:
            cursor = self._raw.execute(f"RESET ROLE; {update}; SET LOCAL ROLE {TOOLS}".encode())
        except psycopg.Error as error:
            raise problem_of(error, self._sealed.server.url) or error from error
        cursor.nextset()
        found = cursor.fetchone()
        assert found is not None
        return int(found[0])

    def query(self, sql: str, parameters: Mapping[str, Scalar] | None = None, limits: QueryLimits | None = None) -> Rows:
        with self._alone() as raw:
            return query.run(raw, self._sealed.server.url, sql, parameters or {}, limits or QueryLimits())

    def fingerprint(self) -> Fingerprint:
        return self._journal.fingerprint()

    def recompute(self) -> Fingerprint:
        with self._alone() as raw:
            try:
                sums = sums_of(raw, self._sealed.wires)
            except psycopg.Error as error:
                raise lost(self._sealed.server.url, error) from error
        return fingerprint_of([wire.shape for wire in self._sealed.wires], zip(sums.counts, sums.totals, strict=True))

    def freeze(self) -> FrozenDatabase:
        with self._alone():
            return FrozenCopy(self._moment, self._sealed.engine, self._journal.fingerprint())

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
            with suppress(SandboxError):  # the server is gone, and with it what a copy would show
                self._moment.pass_by()
            if self._connection is not None:
                self._connection.close()
            self._copy.close()


def _escaped(name: str) -> str:
    return name.replace("'", "''")
