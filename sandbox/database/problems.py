"""Telling the agent's faults from the author's: which errors of a driver are a `DatabaseProblem`."""

from sqlalchemy.exc import DBAPIError, IntegrityError, StatementError

from wardian.sandbox.errors import DatabaseProblem, DatabaseProblemKind

_REFUSALS = ("not authorized", "prohibited", "may not be modified", "within a transaction", "readonly database")
"""How SQLite words what a role may not do."""


def problem_of(error: BaseException) -> DatabaseProblem | None:
    """The problem that `error` stands for; `None` when it is none: the author's own fault, or an end from outside."""
    if isinstance(error, DatabaseProblem):
        return error
    if not isinstance(error, StatementError):
        return None
    cause = error.orig
    if isinstance(cause, DatabaseProblem):
        return cause
    if isinstance(error, IntegrityError):
        is_value = "cannot store" in str(cause) or "datatype mismatch" in str(cause)
        return DatabaseProblem(DatabaseProblemKind.INVALID_VALUE if is_value else DatabaseProblemKind.CONSTRAINT, str(cause))
    if any(words in str(cause) for words in _REFUSALS):
        return DatabaseProblem(DatabaseProblemKind.FORBIDDEN, str(cause))
    if not isinstance(error, DBAPIError) and isinstance(cause, TypeError | ValueError | LookupError):
        return DatabaseProblem(DatabaseProblemKind.INVALID_VALUE, str(cause))
    return None
