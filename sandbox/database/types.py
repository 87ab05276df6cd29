"""Column types of world schemas. A value is kept exactly or refused; none is quietly changed.

Each type stores the same canonical value on every engine: integers as 64-bit integers, instants as milliseconds of UTC, JSON as
one canonical text. What an engine would bend (floats for money, naive times, NaN, NUL in text) is refused as `invalid_value`
before it reaches the engine.
"""

import json
import math
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, Boolean, DateTime, Dialect, Float, String
from sqlalchemy.types import TypeDecorator

from wardian.sandbox.errors import DatabaseProblem, DatabaseProblemKind

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
MAX_TEXT_BYTES = 1 << 20
"""What one text may hold; it bounds the memory that a tool can fill by one value."""


def invalid(message: str) -> DatabaseProblem:
    """The problem of a value that cannot be kept exactly."""
    return DatabaseProblem(DatabaseProblemKind.INVALID_VALUE, message)


def check_text(value: str) -> str:
    """Give `value` back.

    Raises:
        DatabaseProblem: it holds NUL or a lone surrogate, which not every engine can keep, or more than `MAX_TEXT_BYTES`.
    """
    if "\x00" in value:
        raise invalid("text must not hold the NUL character")
    size = len(value)
    if not value.isascii():
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise invalid("text must be valid Unicode; it holds a lone surrogate") from None
    if size > MAX_TEXT_BYTES:
        raise invalid(f"text must not be longer than {MAX_TEXT_BYTES} bytes; it has {size}")
    return value


def check_integer(value: Any, what: str = "an integer") -> int:
    """Give `value` back.

    Raises:
        DatabaseProblem: it is no integer (bools are none) or does not fit in 64 bits.
    """
    if type(value) is not int:
        raise invalid(f"{what} must be a whole number, not {value!r}")
    if not INT64_MIN <= value <= INT64_MAX:
        raise invalid(f"{what} must fit in 64 bits, got {value}")
    return value


def check_real(value: float) -> float:
    """Give `value` back, with -0.0 as 0.0.

    Raises:
        DatabaseProblem: it is NaN or infinite.
    """
    if not math.isfinite(value):
        raise invalid(f"a number must be finite, not {value}")
    return value + 0.0


def instant_text(value: datetime) -> str:
    """The stored text of `value`, such as `2026-03-01T09:00:00.000Z`; texts sort as the instants do.

    Raises:
        DatabaseProblem: it is naive, no whole number of milliseconds, or outside the years 1 to 9999 of UTC.
    """
    if value.utcoffset() is None:
        raise invalid(f"a time needs a time zone; {value.isoformat()} has none")
    try:
        moment = value.astimezone(UTC)
    except OverflowError:
        raise invalid(f"a time must lie in the years 1 to 9999 of UTC; {value.isoformat()} does not") from None
    if moment.microsecond % 1000:
        raise invalid(f"a time holds whole milliseconds; {value.isoformat()} is finer")
    return f"{moment.year:04}-{moment:%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"


def canonical_json(value: Any) -> str:
    """`value` as JSON with sorted keys and no spaces; equal values give equal texts.

    Raises:
        DatabaseProblem: it is not JSON, is nested too deeply, or holds NaN, infinity, or text that `check_text` refuses.
    """
    try:
        text = json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise invalid(f"no JSON value: {error}") from error
    return check_text(text)


def _plain(value: Any) -> Any:
    """The same value, with one form for each number (1.0 is 1, as RFC 8785 writes it) and checked texts."""
    if isinstance(value, float):
        return int(value) if abs(value) < 2**53 and value.is_integer() else value
    if isinstance(value, str):
        return check_text(value)
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("every key of an object must be text")
        return {check_text(key): _plain(part) for key, part in value.items()}
    return value


class Id(TypeDecorator[int]):
    """A 64-bit integer that names a row. The world gives it out: see `WorldDatabase.allocate_id`."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        return None if value is None else check_integer(value, "an id")


class Count(TypeDecorator[int]):
    """A whole number of 64 bits."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        return None if value is None else check_integer(value, "a number")


class Money(TypeDecorator[int]):
    """An amount in integer minor units (cents). Floats, bools and decimals are refused."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        return None if value is None else check_integer(value, "an amount in minor units")


class Instant(TypeDecorator[datetime]):
    """A moment: aware datetimes in, UTC out, whole milliseconds. SQLite keeps fixed-width text."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is not None:
            if not isinstance(value, datetime):
                raise invalid(f"a time must be a datetime, not {value!r}")
            instant_text(value)
        return value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)


class Text(TypeDecorator[str]):
    """Valid Unicode without NUL, compared by code point."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        if not isinstance(value, str):
            raise invalid(f"text must be a string, not {value!r}")
        return check_text(value)


class Flag(TypeDecorator[bool]):
    """True or false; SQLite keeps 1 or 0."""

    impl = Boolean
    cache_ok = True

    def process_bind_param(self, value: bool | None, dialect: Dialect) -> bool | None:
        if value is not None and type(value) is not bool:
            raise invalid(f"a flag must be true or false, not {value!r}")
        return value


class Real(TypeDecorator[float]):
    """A finite number. Never for money."""

    impl = Float
    cache_ok = True

    def process_bind_param(self, value: int | float | None, dialect: Dialect) -> float | None:
        if value is None:
            return None
        if type(value) not in (int, float):
            raise invalid(f"a number is wanted, not {value!r}")
        try:
            return check_real(float(value))
        except OverflowError:
            raise invalid("a number must fit in a float; this integer is too large") from None


class JsonValue(TypeDecorator[Any]):
    """Any JSON value, kept as canonical text, so that equal values are equal rows. `None` is SQL NULL."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else canonical_json(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return None if value is None else json.loads(value)

    def compare_values(self, x: Any, y: Any) -> bool:
        """Whether an attribute that was set has changed. To Python, 1 equals True."""
        return bool(x == y) and canonical_json(x) == canonical_json(y)
