"""Immutable copies of a clone. Taking one costs nothing: the image is made when it is read, or just before the clone changes."""

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from threading import RLock

from sqlalchemy.orm import Session

from wardian.sandbox.database.base import FrozenDatabase, QueryLimits, Rows
from wardian.sandbox.database.problems import problem_of
from wardian.sandbox.database.sqlite.connection import open_image
from wardian.sandbox.database.sqlite.dialect import SqliteEngine
from wardian.sandbox.database.sqlite.functions import HostFunctions
from wardian.sandbox.database.sqlite.query import AgentQueries
from wardian.sandbox.database.sqlite.roles import Role
from wardian.sandbox.fingerprint import Fingerprint


@dataclass(slots=True, eq=False)
class Moment:
    """One committed state of a clone, shared by all copies that were taken of it."""

    raw: sqlite3.Connection | None
    """The clone's connection, as long as it still is in this state."""
    lock: RLock
    """The clone's."""
    image: bytes | None = None
    holders: int = 0

    def materialise(self) -> bytes | None:
        """Make the image if somebody needs it. `raw` may be in a transaction: pages reach its image only on commit."""
        with self.lock:
            if self.image is None and self.raw is not None and self.holders:
                self.image = self.raw.serialize()
            return self.image

    def pass_by(self) -> None:
        """The clone is about to change, or to close."""
        self.materialise()
        self.raw = None


class FrozenImage(FrozenDatabase):
    """A copy of one moment; see `Moment`."""

    def __init__(self, moment: Moment, engine: SqliteEngine, tables: frozenset[str], fingerprint: Fingerprint) -> None:
        moment.holders += 1
        self._moment: Moment | None = moment
        self._engine = engine
        self._tables = tables
        self._role = Role(tables, writes=False)
        self._fingerprint = fingerprint

    def session(self) -> AbstractContextManager[Session]:
        return self._session()

    @contextmanager
    def _session(self) -> Iterator[Session]:
        host = HostFunctions()
        raw = self._open(host)
        connection = self._engine.connect(raw)
        session = Session(connection, expire_on_commit=False)
        try:
            yield session
            # A change that was made and not yet sent must not pass unseen.
            session.flush()
        except Exception as error:
            problem = problem_of(error)
            if problem is None or problem is error:
                raise
            raise problem from error
        finally:
            session.close()
            connection.close()
            raw.close()
            host.close()

    @property
    def image(self) -> bytes:
        """The bytes of that moment.

        Raises:
            RuntimeError: it is closed.
        """
        image = None if self._moment is None else self._moment.materialise()
        if image is None:
            raise RuntimeError("this frozen database is closed")
        return image

    def _open(self, host: HostFunctions) -> sqlite3.Connection:
        raw = open_image(self.image, host)
        raw.execute("PRAGMA query_only = ON")
        raw.set_authorizer(self._role)
        return raw

    def query(self, sql: str, limits: QueryLimits | None = None) -> Rows:
        with closing(HostFunctions()) as host, closing(self._open(host)) as raw:
            return AgentQueries(raw, self._tables, host).run(sql, None, limits or QueryLimits(), self._role)

    def fingerprint(self) -> Fingerprint:
        return self._fingerprint

    def close(self) -> None:
        moment, self._moment = self._moment, None
        if moment is not None:
            with moment.lock:
                moment.holders -= 1
                if not moment.holders:
                    moment.image = None


def image_of(copy: FrozenDatabase) -> bytes:
    """The bytes of a frozen copy of this engine."""
    assert isinstance(copy, FrozenImage), "a copy is sealed by the engine that made it"
    return copy.image
