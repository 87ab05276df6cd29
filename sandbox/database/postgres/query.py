"""The agent's own SQL on a clone: read only, one statement, within limits of time, memory and size.

It runs under a role that may read the world's tables alone, in a read-only transaction that is always rolled back.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import psycopg
from psycopg.types.string import TextLoader

from wardian.sandbox.database.base import QueryLimits, Rows, Scalar
from wardian.sandbox.database.postgres.problems import agents_problem, lost
from wardian.sandbox.database.postgres.server import AGENTS, Link
from wardian.sandbox.database.postgres.statements import agents
from wardian.sandbox.database.types import check_integer, check_real, check_text
from wardian.sandbox.errors import DatabaseProblem, DatabaseProblemKind

MIN_VALUE_BYTES = 64 * 1024
BATCH = 50
_PLAIN = ("bool", "int2", "int4", "int8", "oid", "float4", "float8", "numeric", "text", "varchar", "bpchar", "name", "bytea")
"""Types whose values are read as what they are; all others as the server writes them."""
_INSTANT = re.compile(r"(\d{4,})-(\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d+))?\+00")


def run(link: Link, url: str, sql: str, parameters: Mapping[str, Scalar], limits: QueryLimits) -> Rows:
    """Run one statement of the agent's.

    Raises:
        DatabaseProblem: it was refused or stopped.
        DatabaseLost: the server is at fault.
    """
    statement, names = agents(sql)
    values = [_checked(parameters, name) for name in names]
    most = max(limits.bytes, MIN_VALUE_BYTES)
    # Text of a row that is too long is refused on the server, before it travels.
    fits = f"wardian_fits(octet_length(q::text), {most})"
    whole = f"DECLARE wardian_agent NO SCROLL CURSOR FOR SELECT q.* FROM (\n{statement}\n) AS q WHERE {fits}"
    begin = f"BEGIN READ ONLY; SET LOCAL ROLE {AGENTS}; SET LOCAL statement_timeout = {max(1, int(limits.time_s * 1000))}"
    try:
        link.execute(begin.encode())
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
            link.execute(b"ROLLBACK")


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
    rows: list[tuple[Scalar | float, ...]] = []
    size = 0
    while True:
        cursor.execute(f"FETCH {BATCH} FROM wardian_agent".encode())
        columns = tuple(column.name for column in cursor.description or ())
        instants = [position for position, column in enumerate(cursor.description or ()) if column.type_code == 1184]
        batch = cursor.fetchall()
        for stored in batch:
            row = _shown(stored, instants)
            size += sum(len(value.encode()) if isinstance(value, str) else 8 for value in row)
            if len(rows) == limits.rows or size > limits.bytes:
                return Rows(columns, tuple(rows), truncated=True)
            rows.append(row)
        if len(batch) < BATCH:
            return Rows(columns, tuple(rows))


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
        if not value.is_finite():
            return str(value)
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float):
        if value != value:
            return "NaN"
        if value in (float("inf"), float("-inf")):
            return "Infinity" if value > 0 else "-Infinity"
        return value + 0.0
    found: Scalar = value
    return found


def _instant(text: str) -> str:
    """An instant in the form that is kept on every engine; a finer one with all its digits."""
    found = _INSTANT.fullmatch(text)
    if found is None:
        return text
    year, day, clock, fraction = found.groups()
    return f"{year}-{day}T{clock}.{(fraction or '').ljust(3, '0')}Z"
