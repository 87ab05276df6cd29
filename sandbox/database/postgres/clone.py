"""One episode's clone of a Postgres template."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from wardian.sandbox.database.base import FrozenDatabase, QueryLimits, Rows, Scalar, Written
from wardian.sandbox.database.calls import JournalledDatabase, rolled_back
from wardian.sandbox.database.engines import IN_CALL
from wardian.sandbox.database.journal import Journal, Window
from wardian.sandbox.database.postgres import query
from wardian.sandbox.database.postgres.building import sums_of
from wardian.sandbox.database.postgres.capture import TAKE
from wardian.sandbox.database.postgres.cells import Wire, quoted
from wardian.sandbox.database.postgres.dialect import PostgresEngine
from wardian.sandbox.database.postgres.frozen import FrozenCopy, Moment, window_of
from wardian.sandbox.database.postgres.links import AS_BEGUN, FORMS, Link
from wardian.sandbox.database.postgres.problems import DISK_FULL, lost, problem_of
from wardian.sandbox.database.postgres.resources import Copy
from wardian.sandbox.database.postgres.roles import TOOLS
from wardian.sandbox.database.postgres.server import Server
from wardian.sandbox.database.rows import fingerprint_of
from wardian.sandbox.database.sealed import SealedDatabase, SealedState, packed
from wardian.sandbox.errors import DatabaseLost, DatabaseProblem, DatabaseProblemKind, SandboxError
from wardian.sandbox.fingerprint import Fingerprint

_BEGIN = f"BEGIN; SET LOCAL ROLE {TOOLS}".encode()
OWN_MIB = 64
"""A full disk is the doing of a clone that has grown by more than this, and else ours: a policy must not erase its own bad episodes."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """What all clones of a template share. Nothing in it changes."""

    key: str
    wires: tuple[Wire, ...]
    """By name, with `SEQUENCES` last."""
    counts: tuple[int, ...]
    totals: tuple[int, ...]
    engine: PostgresEngine
    server: Server
    size_bytes: int = 0
    """Of the template on the server."""
    timed: bool = False
    """Whether the database may fill in the world's time by itself."""


class PostgresDatabase(JournalledDatabase):
    """A clone on a server."""

    def __init__(self, sealed: Sealed, copy: Copy) -> None:
        super().__init__(sealed.key, Journal([wire.shape for wire in sealed.wires], sealed.counts, sealed.totals))
        self._sealed = sealed
        self._copy = copy
        self._raw: Link = copy.link
        self._mark = 0
        self._taken = 0
        """The number of the last report of changes that was read."""
        self._connection: Connection | None = None
        self._moment = Moment(copy)
        self._told: datetime | None = None

    def _tell_time(self) -> None:
        """Let the database know the world's time; no part of any transaction, change or fingerprint."""
        if self._sealed.timed and self.time is not None and (now := self.time()) != self._told:
            self._asked(f"UPDATE public.wardian_clock SET now = '{now.isoformat()}'".encode())
            self._told = now

    def _begin(self) -> Connection:
        self._tell_time()
        self._asked(_BEGIN)
        if self._connection is None:
            self._connection = self._sealed.engine.connect(self._raw).execution_options(**{IN_CALL: True})
        return self._connection

    def _problem_of(self, error: BaseException) -> Exception | None:
        cause = error.orig if isinstance(error, DBAPIError) else error
        if isinstance(cause, psycopg.Error) and cause.sqlstate == DISK_FULL and (grown := self._grown_mib()) > OWN_MIB:
            return DatabaseProblem(DatabaseProblemKind.TOO_SLOW, f"there is no room: this database has grown by {grown} MiB; write less")
        return problem_of(error, self._sealed.server.url)

    def _grown_mib(self) -> int:
        """By how much the clone is larger than its template; what was undone still counts. 0 where the server does not say."""
        try:
            return (self._sealed.server.size_of(self._copy.name) - self._sealed.size_bytes) >> 20
        except DatabaseLost:
            return 0

    def _commit(self) -> None:
        if self._raw.info.transaction_status == TransactionStatus.INERROR:
            raise rolled_back()
        forms = FORMS if self._sealed.timed else ""
        cursor = self._raw.execute(f"RESET ROLE; {forms}{self._take()}".encode())
        for name, begun in AS_BEGUN.items() if forms else ():
            cursor.nextset()
            _check_form(name, begun, *cursor.fetchone() or ("",))
        cursor.nextset()
        self._committed(cursor.fetchall())

    def _take(self) -> str:
        return TAKE.format(self._taken)

    def _committed(self, reports: list[Any]) -> None:
        """Note the reports of the running transaction, and commit it."""
        mark = self._mark
        for number, table, added, cells in sorted(reports):
            self._taken = number
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
        wire = self._sealed.wires[self._counted(session, table, tuple(wire.shape for wire in self._sealed.wires))]
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

    def execute(self, session: Session, sql: str, limits: QueryLimits | None = None) -> Written:
        self._must_run(session, "execute")
        session.flush()
        return query.write(self._raw, self._sealed.server.url, sql, limits or QueryLimits(), self._taken)

    def query(self, sql: str, parameters: Mapping[str, Scalar] | None = None, limits: QueryLimits | None = None) -> Rows:
        with self._alone():
            self._tell_time()
            return query.run(self._raw, self._sealed.server.url, sql, parameters or {}, limits or QueryLimits())

    def recompute(self) -> Fingerprint:
        with self._alone():
            try:
                sums = sums_of(self._raw, self._sealed.wires)
            except psycopg.Error as error:
                raise lost(self._sealed.server.url, error) from error
        return fingerprint_of([wire.shape for wire in self._sealed.wires], zip(sums.counts, sums.totals, strict=True))

    def freeze(self) -> FrozenDatabase:
        with self._alone():
            return FrozenCopy(self._moment, self._sealed.engine, self._journal.fingerprint(), self._journal.window())

    @property
    def link(self) -> Link:
        """The clone's own connection. For this package."""
        return self._raw

    @property
    def name(self) -> str:
        """Of the database on its server."""
        return self._copy.name

    @property
    def wires(self) -> tuple[Wire, ...]:
        """The tables of the clone, as its journal counts them."""
        return self._sealed.wires

    def window(self) -> Window:
        """First and last row of each key that changed since the start."""
        return self._journal.window()

    def adopt(self, sql: str) -> None:
        """Run statements of ours, the first of which begins a transaction; commit it, and follow what it changed."""
        with self._alone():
            cursor = self._raw.execute(f"{sql}; {self._take()}".encode())
            while cursor.nextset():
                continue
            self._committed(cursor.fetchall())

    def seal(self, copies: Sequence[FrozenDatabase] = ()) -> SealedDatabase:
        with self._alone():
            older = tuple(SealedState(copy.fingerprint(), _rows(window_of(copy))) for copy in copies)
            present = SealedState(self._journal.fingerprint(), _rows(self._journal.window()))
            return SealedDatabase(self.template_key, present, older)

    def _let_go(self) -> None:
        with suppress(SandboxError):  # the server is gone, and with it what a copy would show
            self._moment.pass_by()
        if self._connection is not None:
            self._connection.close()
        self._copy.close()


def _check_form(name: str, begun: str, found: str) -> None:
    """Look at a setting that values are written or read by. Undoing the call sets it back."""
    if found != begun:
        raise DatabaseProblem(
            DatabaseProblemKind.FORBIDDEN,
            f"a function or trigger of this database left {name} at {found!r}, not {begun!r}; nothing was done",
        )


def _rows(window: Window) -> bytes:
    return packed([[table, first, last] for (table, _), (first, last) in window.items()])


def _escaped(name: str) -> str:
    return name.replace("'", "''")
