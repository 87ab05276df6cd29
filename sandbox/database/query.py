"""The agent's own SQL on SQLite: one statement, read only, bounded in work, rows and bytes."""

import math
import sqlite3
import time
from collections.abc import Callable, Mapping

from wardian.sandbox.database.base import QueryLimits, Rows, Scalar
from wardian.sandbox.database.roles import check_quoted_names
from wardian.sandbox.database.rows import TableShape
from wardian.sandbox.errors import DatabaseProblem, DatabaseProblemKind

STEPS_PER_CALL = 10_000
STEPS_PER_SECOND = 20_000_000
"""Virtual-machine instructions that a second of limit stands for. Counting work instead of time makes the same statement
end at the same point on every machine; real time is a second fence, at five times the limit."""


def run_query(
    raw: sqlite3.Connection, sql: str, parameters: Mapping[str, Scalar], limits: QueryLimits, shapes: tuple[TableShape, ...]
) -> Rows:
    """Run one statement under the authorizer that is set. The connection is usable after, whatever happened.

    Raises:
        DatabaseProblem: refused, wrong, or stopped; its kind says which.
    """
    known = {shape.name.lower() for shape in shapes} | {name.lower() for shape in shapes for name in shape.columns}
    check_quoted_names(sql, known)
    raw.set_progress_handler(_meter(limits), STEPS_PER_CALL)
    try:
        cursor = raw.execute(sql, dict(parameters))
        try:
            return _collect(cursor, limits)
        finally:
            cursor.close()
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        raise _problem(error, limits) from error
    finally:
        raw.set_progress_handler(None, 0)
        if raw.in_transaction:
            raw.rollback()


def _meter(limits: QueryLimits) -> Callable[[], int]:
    left = max(1, int(limits.time_s * STEPS_PER_SECOND / STEPS_PER_CALL))
    deadline = time.monotonic() + 5 * limits.time_s

    def tick() -> int:
        nonlocal left
        left -= 1
        return int(left < 0 or time.monotonic() > deadline)

    return tick


def _collect(cursor: sqlite3.Cursor, limits: QueryLimits) -> Rows:
    if cursor.description is None:
        raise DatabaseProblem(DatabaseProblemKind.SYNTAX, "the statement gives no rows; write a SELECT")
    columns = tuple(column[0] for column in cursor.description)
    rows: list[tuple[Scalar | float, ...]] = []
    size = 0
    for row in cursor:
        shown = tuple(_shown(value) for value in row)
        size += sum(len(value) if isinstance(value, str) else 8 for value in shown)
        if len(rows) >= limits.rows or size > limits.bytes:
            return Rows(columns, tuple(rows), truncated=True)
        rows.append(shown)
    return Rows(columns, tuple(rows))


def _shown(value: object) -> Scalar | float:
    """One encoding per type: bytes as `x'hex'`, fractions that JSON cannot hold as text."""
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")
    assert value is None or isinstance(value, int | str)
    return value


def _problem(error: Exception, limits: QueryLimits) -> DatabaseProblem:
    message = str(error)
    kind = DatabaseProblemKind
    if "interrupted" in message:
        return DatabaseProblem(kind.TOO_SLOW, f"stopped: the statement needs more work than {limits.time_s:g} s allow")
    if "user-defined function raised exception" in message:
        return DatabaseProblem(kind.FORBIDDEN, "date and time functions must be given a moment: there is no 'now' here")
    if any(sign in message for sign in ("not authorized", "prohibited", "authorization denied")):
        return DatabaseProblem(kind.FORBIDDEN, f"not allowed here: {message}; only SELECT over the world's tables is")
    if "one statement at a time" in message:
        return DatabaseProblem(kind.FORBIDDEN, "one statement at a time")
    if isinstance(error, UnicodeEncodeError) or "null character" in message or "too big" in message or isinstance(error, OverflowError):
        return DatabaseProblem(kind.INVALID_VALUE, message)
    return DatabaseProblem(kind.SYNTAX, message)
