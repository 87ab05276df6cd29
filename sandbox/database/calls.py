"""The session of one tool call, the same on every engine."""

from sqlalchemy.orm import Session

from wardian.sandbox.errors import DatabaseProblem, DatabaseProblemKind


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


def rolled_back() -> DatabaseProblem:
    """The problem of a call that one of its statements has undone."""
    return DatabaseProblem(DatabaseProblemKind.CONSTRAINT, "a statement that failed has rolled back the whole call; nothing of it is kept")
