"""The agent's own SQL on a clone: read only, one statement, within limits of time, work, memory and size.

The first limit is a number of steps of SQLite's virtual machine: unlike a time it stops a statement at the same place on every
host. The time limit is behind it, for single steps that take long.
"""

import resource
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from wardian.sandbox.database.base import QueryLimits, Rows, Scalar, Written
from wardian.sandbox.database.calls import READS, too_many
from wardian.sandbox.database.journal import Journal
from wardian.sandbox.database.rows import Stored
from wardian.sandbox.database.sqlite.functions import HostFunctions
from wardian.sandbox.database.sqlite.roles import TABLE_FUNCTIONS, Role
from wardian.sandbox.database.sqlite.statements import prepared
from wardian.sandbox.database.types import MAX_TEXT_BYTES
from wardian.sandbox.errors import DatabaseProblem, DatabaseProblemKind, LeakDetected

_STEPS_PER_LOOK = 50
"""Few, since one step may be `instr` or `replace` over a long text, a third of a second each, and nothing stops it midway."""
_LOOKS_PER_SIZE = 80
"""The size of the process is asked for less often: that is a system call."""
_MEMORY_KIB = 512 * 1024
"""How far the process may grow under one statement."""
_MIN_VALUE_BYTES = 64 * 1024
_LIMITS = {
    sqlite3.SQLITE_LIMIT_COLUMN: 250,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 100_000,
}


class _Watch:
    """Stops a statement that does too much. SQLite calls it every `_STEPS_PER_LOOK` steps."""

    def __init__(self, limits: QueryLimits, journal: Journal | None = None) -> None:
        self._journal = journal
        self._most = limits.changes + (journal.pending if journal else 0)
        self._looks = limits.steps // _STEPS_PER_LOOK
        self._time_s = limits.time_s
        self._until = time.monotonic() + limits.time_s
        self._memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + _MEMORY_KIB
        self.why = ""

    def __call__(self) -> int:
        self._looks -= 1
        if self._looks <= 0:
            self.why = "it does too much work"
        elif time.monotonic() > self._until:
            self.why = f"it ran longer than {self._time_s:g} s"
        elif self._looks % _LOOKS_PER_SIZE == 0 and resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > self._memory:
            self.why = "it needs too much memory"
        elif self._journal is not None and self._journal.pending > self._most:
            self.why = "it changes too many rows"
        return 1 if self.why else 0


class AgentQueries:
    """Runs statements as the agent, and gives the connection back as it was."""

    def __init__(self, connection: sqlite3.Connection, tables: frozenset[str], host: HostFunctions, timed: bool = False) -> None:
        self._connection = connection
        self._role = Role(tables, writes=False, timed=timed)
        self._host = host
        self._connected: set[str] = set()

    def run(self, sql: str, parameters: Mapping[str, Scalar] | None, limits: QueryLimits, after: Role) -> Rows:
        """Run one statement; `after` is the role to go back to.

        Raises:
            DatabaseProblem: it was refused or stopped.
            LeakDetected: it changed something, which must not be possible.
        """
        text = prepared(sql)
        before = self._connection.total_changes
        watch = _Watch(limits)
        self._role.denied = self._host.refused = ""
        longest = max(limits.bytes, _MIN_VALUE_BYTES)
        try:
            self._connect_table_functions(text, after)
            with self._limited(longest, watch, self._role, after):
                return _fetch(self._connection.execute(text, dict(parameters or {})), limits)
        except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeEncodeError) as error:
            raise self._problem(error, watch, longest, self._role) from error
        finally:
            if self._connection.in_transaction or self._connection.total_changes != before:
                raise LeakDetected("world database", (f"a statement that may only read has written: {sql[:200]!r}",))

    def write(self, sql: str, limits: QueryLimits, role: Role, journal: Journal) -> Written:
        """Run one statement that changes rows, as `role`, inside the transaction that runs.

        Raises:
            DatabaseProblem: it was refused or stopped.
        """
        text = prepared(sql, writing=True)
        watch, most = _Watch(limits, journal), limits.changes + journal.pending
        before = self._connection.total_changes
        role.denied, role.wrote, self._host.refused = "", False, ""
        longest = max(limits.bytes, MAX_TEXT_BYTES)
        try:
            self._connect_table_functions(text, role)
            with self._limited(longest, watch, role, role):
                cursor = self._connection.execute(text)
                returned = _fetch(cursor, limits) if cursor.description else None
            if not role.wrote:
                raise DatabaseProblem(DatabaseProblemKind.FORBIDDEN, READS)
            if journal.pending > most:
                raise too_many(limits.changes)
            return Written(self._changes(role) if self._connection.total_changes != before else 0, returned)
        except sqlite3.IntegrityError as error:
            raise DatabaseProblem(DatabaseProblemKind.CONSTRAINT, str(error)) from error
        except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeEncodeError) as error:
            raise self._problem(error, watch, longest, role) from error

    def _changes(self, role: Role) -> int:
        """Rows that the last statement changed, those of triggers and references apart."""
        role.internal = True
        try:
            found: int = self._connection.execute("SELECT changes()").fetchone()[0]
        finally:
            role.internal = False
        return found

    def _connect_table_functions(self, text: str, after: Role) -> None:
        """On first use SQLite declares a table for such a function, which the authorizer would take for writing."""
        lowered = text.lower()
        for name in TABLE_FUNCTIONS - self._connected:
            if name in lowered:
                self._connection.set_authorizer(None)
                self._connection.execute(f"SELECT * FROM {name} LIMIT 0").close()
                self._connection.set_authorizer(after)
                self._connected.add(name)

    @contextmanager
    def _limited(self, longest: int, watch: _Watch, role: Role, after: Role) -> Iterator[None]:
        # Setting the authorizer also makes SQLite prepare every cached statement again, so none keeps another role's rights.
        connection = self._connection
        caps = {**_LIMITS, sqlite3.SQLITE_LIMIT_LENGTH: longest}
        kept = {limit: connection.setlimit(limit, value) for limit, value in caps.items()}
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        connection.set_authorizer(role)
        connection.set_progress_handler(watch, _STEPS_PER_LOOK)
        try:
            yield
        finally:
            connection.set_progress_handler(None, 0)
            connection.set_authorizer(after)
            connection.text_factory = str
            for limit, value in kept.items():
                connection.setlimit(limit, value)

    def _problem(self, error: Exception, watch: _Watch, longest: int, role: Role) -> DatabaseProblem:
        message = str(error)
        if watch.why:
            return DatabaseProblem(DatabaseProblemKind.TOO_SLOW, f"the statement was stopped: {watch.why}; narrow it")
        if self._host.refused:
            return DatabaseProblem(DatabaseProblemKind.FORBIDDEN, self._host.refused)
        if role.denied:
            return DatabaseProblem(DatabaseProblemKind.FORBIDDEN, role.denied)
        if "too big" in message:
            return DatabaseProblem(DatabaseProblemKind.INVALID_VALUE, f"a value has more than the {longest} bytes that are allowed")
        if "user-defined function" in message:  # what follows the changes could not read a row
            return DatabaseProblem(DatabaseProblemKind.INVALID_VALUE, "a row holds a text that is no valid Unicode")
        if isinstance(error, OverflowError) or any(
            words in message for words in ("overflow", "malformed JSON", "JSON path", "too complex")
        ):
            return DatabaseProblem(DatabaseProblemKind.INVALID_VALUE, message)
        return DatabaseProblem(DatabaseProblemKind.SYNTAX, message)


def _fetch(cursor: sqlite3.Cursor, limits: QueryLimits) -> Rows:
    try:
        columns = tuple(column[0] for column in cursor.description or ())
        rows: list[tuple[Scalar | float, ...]] = []
        size = 0
        for stored in cursor:
            row = tuple(map(_shown, stored))
            size += sum(len(value.encode()) if isinstance(value, str) else 8 for value in row)
            if len(rows) == limits.rows or size > limits.bytes:
                return Rows(columns, tuple(rows), truncated=True)
            rows.append(row)
        return Rows(columns, tuple(rows))
    finally:
        cursor.close()


def _shown(value: Stored) -> Scalar | float:
    """A cell as the agent sees it: bytes as `\\x` and hex digits, an infinite number as text."""
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return value + 0.0 if isinstance(value, float) else value
