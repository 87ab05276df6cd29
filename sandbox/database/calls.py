"""Calls as transactions, the same on every engine: the session of one tool call, and the clone that it works on."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import RLock

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from wardian.sandbox.database.base import RowChange, WorldDatabase
from wardian.sandbox.database.journal import Journal
from wardian.sandbox.database.rows import TableShape
from wardian.sandbox.errors import DatabaseProblem, DatabaseProblemKind
from wardian.sandbox.fingerprint import Fingerprint


class CallSession(Session):
    """The session of one tool call, whose transaction ends with the call and not before."""

    def commit(self) -> None:
        """Refuse: what a call writes is written whole when it ends well. Use `flush`.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("a call is one transaction: it is committed when the call ends; use session.flush()")

    def rollback(self) -> None:
        """Refuse: a call is undone by raising. Use `begin_nested` to undo a part.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("a call is one transaction: raise to undo it, or use session.begin_nested() for a part")


READS = "this reads and writes nothing; a reading statement goes to query"


def too_many(most: int) -> DatabaseProblem:
    """The problem of a statement that changes too many rows."""
    return DatabaseProblem(DatabaseProblemKind.TOO_SLOW, f"the statement was stopped: it removes or adds more than {most} rows; narrow it")


def rolled_back() -> DatabaseProblem:
    """The problem of a call that one of its statements has undone."""
    return DatabaseProblem(DatabaseProblemKind.CONSTRAINT, "a statement that failed has rolled back the whole call; nothing of it is kept")


class JournalledDatabase(WorldDatabase):
    """A clone with one connection, whose changes a journal follows. Engines fill in how a transaction begins and ends.

    Calls from several threads wait for each other; a transaction is held by one thread from begin to end.
    """

    def __init__(self, template_key: str, journal: Journal) -> None:
        self.template_key = template_key
        self._journal = journal
        self._session: Session | None = None
        self._lock = RLock()
        self._closed = False

    @abstractmethod
    def _begin(self) -> Connection:
        """Begin a transaction; gives the clone's connection."""

    @abstractmethod
    def _commit(self) -> None:
        """End it well, in the database and in the journal."""

    @abstractmethod
    def _rollback(self) -> None:
        """Undo it."""

    @abstractmethod
    def _problem_of(self, error: BaseException) -> Exception | None:
        """What `error` stands for; `None` when it stands for itself."""

    @abstractmethod
    def _let_go(self) -> None:
        """Give back all that the clone holds. Called once."""

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the clone while no transaction runs."""
        with self._lock:
            if self._closed:
                raise RuntimeError("this world database is closed")
            self._must_be_idle()
            yield

    def _must_be_idle(self) -> None:
        if self._session is not None:
            raise RuntimeError("a transaction of this world database is open; end it first")

    def transaction(self) -> AbstractContextManager[Session]:
        return self._transaction()

    @contextmanager
    def _transaction(self) -> Iterator[Session]:
        with self._alone():
            session = self._session = CallSession(self._begin(), expire_on_commit=False)
            try:
                yield session
                session.flush()
                self._commit()
            except BaseException as error:
                self._rollback()
                problem = self._problem_of(error)
                if problem is None or problem is error:
                    raise
                raise problem from error
            finally:
                self._session = None
                session.close()

    def _must_run(self, session: Session, what: str) -> None:
        if session is not self._session:
            raise RuntimeError(f"{what} needs the session of the running transaction")

    def _counted(self, session: Session, table: str, shapes: tuple[TableShape, ...]) -> int:
        """The place in `shapes` of a table whose ids are to be given out in the running transaction."""
        self._must_run(session, f"allocate_id({table!r})")
        for place, shape in enumerate(shapes):
            if shape.name == table and len(shape.key) == 1 and not shape.internal:
                return place
        raise ValueError(f"allocate_id: {table!r} is no table of this world with a single key column")

    def fingerprint(self) -> Fingerprint:
        return self._journal.fingerprint()

    def changes_since_start(self) -> tuple[RowChange, ...]:
        return self._journal.since_start()

    def take_changes(self) -> tuple[RowChange, ...]:
        return self._journal.take()

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._must_be_idle()
            self._closed = True
            self._let_go()
