"""Telling apart whose fault an error of the server is: by its SQLSTATE, never by its words."""

import psycopg
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.exc import DBAPIError, StatementError

from wardian.sandbox.errors import DatabaseLost, DatabaseProblem, DatabaseProblemKind, SandboxError

DISK_FULL = "53100"
_HINTS = {
    "53300": "; it has no connection left: raise max_connections, or use fewer cells",
    DISK_FULL: "; its disk is full: give it more room, or use fewer cells",
    "53200": "; it is out of memory",
}
_LOST = ("08", "57P", "58", "XX", "F0")
"""Classes of states that no statement is to blame for."""
_FORBIDDEN = ("42501", "25006", "0A000")
_TOO_SLOW = ("57014", "53200", "53400", "54001")
"""Cancelled, out of its memory, over its files on disk, nested too deeply."""
UNFORESEEN = "XX000"
"""What the server's authors gave no state of its own: an odd value brings it about, so it is no sign of a server that is broken."""


def lost(url: str, error: psycopg.Error, state: str | None = None) -> DatabaseLost:
    """The error of a server that cannot serve, in words that say what to do; `state` where it is known and the error has none."""
    if (where := shown(url)) is None:  # the driver's words would show a part of it, and it may hold a password
        return DatabaseLost("the URL of the database server cannot be read; write postgresql://USER:PASSWORD@HOST:PORT/postgres")
    words = " ".join(str(error).split())
    return DatabaseLost(f"the database server {where}: {words}{_HINTS.get(state or error.sqlstate or '', '')}")


def shown(url: str) -> str | None:
    """Where a server is, without its password; `None` for a URL that cannot be read."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        return None
    return f"{parts.get('host', 'localhost')}:{parts.get('port', 5432)}"


def is_lost(error: psycopg.Error) -> bool:
    """Whether the server or the connection is at fault and no statement is."""
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError)
    return state.startswith(_LOST) or state in (DISK_FULL, "53300", "25P03", "3D000")


def problem_of(error: BaseException, url: str) -> SandboxError | None:
    """What `error` of a tool's call stands for; `None` when it is the author's own fault, or an end from outside."""
    if isinstance(error, SandboxError):
        return error
    cause = error.orig if isinstance(error, StatementError) else error
    if isinstance(cause, SandboxError):
        return cause
    if isinstance(cause, psycopg.Error):
        if is_lost(cause):
            return lost(url, cause)
        kind = _kind(cause.sqlstate or "")
        return None if kind is None else DatabaseProblem(kind, said(cause))
    if isinstance(error, StatementError) and not isinstance(error, DBAPIError) and isinstance(cause, TypeError | ValueError | LookupError):
        return DatabaseProblem(DatabaseProblemKind.INVALID_VALUE, str(cause))
    return None


def agents_problem(error: psycopg.Error, url: str, time_s: float) -> SandboxError:
    """What `error` of the agent's own statement stands for."""
    state = error.sqlstate or ""
    if is_lost(error) and state != UNFORESEEN:
        return lost(url, error)
    if state == "57014":
        return DatabaseProblem(DatabaseProblemKind.TOO_SLOW, f"the statement was stopped: it ran longer than {time_s:g} s; narrow it")
    if state in _TOO_SLOW:
        return DatabaseProblem(DatabaseProblemKind.TOO_SLOW, "the statement was stopped: it needs too much memory; narrow it")
    if state.startswith("54") or state == UNFORESEEN:
        return DatabaseProblem(DatabaseProblemKind.INVALID_VALUE, said(error))
    return DatabaseProblem(_kind(state) or DatabaseProblemKind.SYNTAX, said(error))


def _kind(state: str) -> DatabaseProblemKind | None:
    if state in _FORBIDDEN:
        return DatabaseProblemKind.FORBIDDEN
    if state in _TOO_SLOW or state == "55P03":
        return DatabaseProblemKind.TOO_SLOW
    if state.startswith("23"):
        # 23514 is a check; ours stand on the types and refuse values.
        return DatabaseProblemKind.INVALID_VALUE if state == "23514" else DatabaseProblemKind.CONSTRAINT
    return DatabaseProblemKind.INVALID_VALUE if state.startswith("22") or state == "42804" else None


def said(error: psycopg.Error) -> str:
    """The server's message, without positions and context."""
    return error.diag.message_primary or " ".join(str(error).split())
