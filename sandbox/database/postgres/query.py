"""The agent's own SQL on a clone: read only, one statement, within limits of time, memory and size.

It runs under a role that may read the world's tables alone, in a read-only transaction that is always rolled back.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import psycopg
from psycopg.types.string import TextLoader

from wardian.sandbox.database.base import QueryLimits, Rows, Scalar, Written
from wardian.sandbox.database.calls import READS, too_many
from wardian.sandbox.database.postgres.links import CALL_S, Link
from wardian.sandbox.database.postgres.problems import agents_problem, lost
from wardian.sandbox.database.postgres.roles import AGENTS, TOOLS
from wardian.sandbox.database.postgres.statements import agents
from wardian.sandbox.database.types import INT64_MAX, INT64_MIN, check_integer, check_real, check_text
from wardian.sandbox.errors import DatabaseProblem, DatabaseProblemKind

MIN_VALUE_BYTES = 64 * 1024
MAX_WRITTEN_BYTES = 64 << 20
"""Old and new rows of one call; they travel to this process."""
BATCH = 50
DIGITS = 18
"""The power of ten of the largest integer of 64 bits."""
FLOATS = 10**15
"""From here on a number with a fraction is told as text: a float would lose digits of it."""
_SIZE = "SELECT coalesce(sum(octet_length(cells::text)), 0), count(*) FROM public.wardian_journal WHERE seq > {}"
_PLAIN = ("bool", "int2", "int4", "int8", "oid", "float4", "float8", "numeric", "text", "varchar", "bpchar", "name", "bytea")
"""Types whose values are read as what they are; all others as the server writes them."""
_INSTANT = re.compile(r"(\d{4,})-(\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d+))?\+00")


def run(link: Link, url: str, sql: str, parameters: Mapping[str, Scalar], limits: QueryLimits) -> Rows:
    """Run one statement of the agent's.

    Raises:
        DatabaseProblem: it was refused or stopped.
        DatabaseLost: the server is at fault.
    """
    return _run(link, url, (sql, parameters), limits, f"BEGIN READ ONLY; SET LOCAL ROLE {AGENTS}", "ROLLBACK")


def run_frozen(link: Link, url: str, sql: str, limits: QueryLimits) -> Rows:
    """The same, on a link that holds a snapshot as the agent's role, and keeps it."""
    return _run(link, url, (sql, {}), limits, "SAVEPOINT wardian", "ROLLBACK TO SAVEPOINT wardian; RELEASE SAVEPOINT wardian")


def _run(link: Link, url: str, asked: tuple[str, Mapping[str, Scalar]], limits: QueryLimits, begin: str, end: str) -> Rows:
    statement, names = agents(asked[0])
    values = [_checked(asked[1], name) for name in names]
    most = max(limits.bytes, MIN_VALUE_BYTES)
    # Text of a row that is too long is refused on the server, before it travels.
    fits = f"wardian_fits(octet_length(q::text), {most})"
    whole = f"DECLARE wardian_agent NO SCROLL CURSOR FOR SELECT q.* FROM (\n{statement}\n) AS q WHERE {fits}"
    try:
        link.execute(f"{begin}; {_time_limit(limits.time_s)}".encode())
    except psycopg.Error as error:
        raise lost(url, error) from error
    try:
        with psycopg.RawCursor(link) as cursor:
            _read_as_text(cursor)
            cursor.execute(whole.encode(), values or None)
            return _fetch(cursor, limits)
    except psycopg.Error as error:
        raise agents_problem(error, url, limits.time_s) from error
    finally:
        with suppress(psycopg.Error):  # a lost connection is rolled back already
            link.execute(end.encode())


def write(link: Link, url: str, sql: str, limits: QueryLimits, taken: int) -> Written:
    """Run one statement of the agent's that changes rows, inside the transaction that runs as the tool role. `taken`: the number of
    the last report of changes before it.

    Raises:
        DatabaseProblem: it was refused or stopped; the transaction is of no use any more.
        DatabaseLost: the server is at fault.
    """
    statement, names = agents(sql, writing=True)
    if names:
        raise DatabaseProblem(DatabaseProblemKind.SYNTAX, f"the parameter :{names[0]} has no value")
    try:
        link.execute(_time_limit(limits.time_s).encode())
        with psycopg.RawCursor(link) as cursor:
            _read_as_text(cursor)
            cursor.execute(statement.encode())
            if (cursor.statusmessage or "").startswith("SELECT"):
                raise DatabaseProblem(DatabaseProblemKind.FORBIDDEN, READS)
            written = Written(cursor.rowcount, _capped(cursor, limits) if cursor.description else None)
        size = link.execute(f"RESET ROLE; {_SIZE.format(taken)}; SET LOCAL ROLE {TOOLS}; {_time_limit(CALL_S)}".encode())
        size.nextset()
        found, changes = size.fetchone() or (0, 0)
    except psycopg.Error as error:
        raise agents_problem(error, url, limits.time_s) from error
    if changes > limits.changes:
        raise too_many(limits.changes)
    if found > MAX_WRITTEN_BYTES:
        raise DatabaseProblem(DatabaseProblemKind.INVALID_VALUE, f"the rows have {found} bytes; at most {MAX_WRITTEN_BYTES} in one call")
    return written


def _time_limit(seconds: float) -> str:
    return f"SET LOCAL statement_timeout = {max(1, int(seconds * 1000))}"


def _checked(parameters: Mapping[str, Scalar], name: str) -> Any:
    if name not in parameters:
        raise DatabaseProblem(DatabaseProblemKind.SYNTAX, f"the parameter :{name} has no value")
    value = parameters[name]
    if isinstance(value, str):
        return check_text(value)
    if isinstance(value, float):
        return check_real(value)
    return check_integer(value) if type(value) is int else value


def _read_as_text(cursor: Any) -> None:
    plain = {info.oid for info in (cursor.adapters.types.get(name) for name in _PLAIN) if info is not None}
    for info in cursor.adapters.types:
        if info.oid not in plain:
            cursor.adapters.register_loader(info.oid, TextLoader)
        if info.array_oid:
            cursor.adapters.register_loader(info.array_oid, TextLoader)


def _fetch(cursor: Any, limits: QueryLimits) -> Rows:
    def batches() -> Iterator[Sequence[Any]]:
        full = True
        while full:
            cursor.execute(f"FETCH {BATCH} FROM wardian_agent".encode())
            batch = cursor.fetchall()
            yield from batch
            full = len(batch) == BATCH

    return _capped(cursor, limits, batches())


def _capped(cursor: Any, limits: QueryLimits, stored: Iterable[Sequence[Any]] | None = None) -> Rows:
    rows: list[tuple[Scalar | float, ...]] = []
    instants: list[int] | None = None
    size, truncated = 0, False
    for found in cursor if stored is None else stored:
        if instants is None:
            instants = [position for position, column in enumerate(cursor.description) if column.type_code == 1184]
        row = _shown(found, instants)
        size += sum(len(value.encode()) if isinstance(value, str) else 8 for value in row)
        if len(rows) == limits.rows or size > limits.bytes:
            truncated = True
            break
        rows.append(row)
    return Rows(tuple(column.name for column in cursor.description or ()), tuple(rows), truncated)


def _shown(stored: Sequence[Any], instants: Sequence[int]) -> tuple[Scalar | float, ...]:
    row = [_cell(value) for value in stored]
    for position in instants:
        if isinstance(row[position], str):
            row[position] = _instant(str(row[position]))
    return tuple(row)


def _cell(value: Any) -> Scalar | float:
    """A cell as the agent sees it: bytes as `\\x` and hex digits, a number that JSON has no form for as text."""
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, float):
        if value != value:
            return "NaN"
        if value in (float("inf"), float("-inf")):
            return "Infinity" if value > 0 else "-Infinity"
        return value + 0.0
    found: Scalar = value
    return found


def _number(value: Decimal) -> int | float | str:
    """A number as text where it is no integer of 64 bits and no float keeps its digits: Python refuses to write one of 5,000 digits."""
    if not value.is_finite() or value.adjusted() > DIGITS:
        return str(value)
    if value == value.to_integral_value():
        return int(value) if INT64_MIN <= value <= INT64_MAX else str(value)
    return float(value) if abs(value) < FLOATS else str(value)


def _instant(text: str) -> str:
    """An instant in the form that is kept on every engine; a finer one with all its digits."""
    found = _INSTANT.fullmatch(text)
    if found is None:
        return text
    year, day, clock, fraction = found.groups()
    return f"{year}-{day}T{clock}.{(fraction or '').ljust(3, '0')}Z"
