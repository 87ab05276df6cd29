"""Column types of world schemas: few, engine-neutral, and each with one canonical form.

Values are checked before they reach an engine, so that both engines refuse the same ones, by one typed error.
"""

import json
import math
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, Dialect, Float, Integer, String
from sqlalchemy import Text as SqlText
from sqlalchemy.types import TypeDecorator, TypeEngine

from wardian.sandbox.errors import DatabaseProblem, DatabaseProblemKind

INT64 = range(-(2**63), 2**63)
_BIG: TypeEngine[int] = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite's INTEGER holds 64 bits, and its strict tables know no other name for it."""


def refuse(message: str) -> DatabaseProblem:
    """A value that no engine gets to see."""
    return DatabaseProblem(DatabaseProblemKind.INVALID_VALUE, message)


def whole(value: object, what: str) -> int:
    """A 64-bit integer that is no bool.

    Raises:
        DatabaseProblem: it is something else.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise refuse(f"{what} must be a whole number, got {value!r}")
    if value not in INT64:
        raise refuse(f"{what} is out of the range of 64 bits: {value}")
    return value


class Id(TypeDecorator[int]):
    """An id that the world allocates; 64-bit."""

    impl = _BIG
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> int | None:
        return None if value is None else whole(value, "an id")


class Count(TypeDecorator[int]):
    """A whole number; 64-bit."""

    impl = _BIG
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> int | None:
        return None if value is None else whole(value, "a number")


class Money(TypeDecorator[int]):
    """An amount in minor units (cents); never a float."""

    impl = _BIG
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> int | None:
        return None if value is None else whole(value, "an amount in minor units")


class Flag(TypeDecorator[bool]):
    """True or false, stored as 1 or 0."""

    impl = Integer
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> int | None:
        if value is None:
            return None
        if not isinstance(value, bool):
            raise refuse(f"a flag must be true or false, got {value!r}")
        return int(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> bool | None:
        return None if value is None else bool(value)


def checked_text(value: object) -> str:
    """Text without NUL or lone surrogates.

    Raises:
        DatabaseProblem: it holds one, or is no text.
    """
    if not isinstance(value, str):
        raise refuse(f"text expected, got {type(value).__name__}")
    if "\0" in value:
        raise refuse("text must not hold a NUL character (U+0000)")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise refuse("text must be valid Unicode: it holds a lone surrogate") from None
    return value


class Text(TypeDecorator[str]):
    """Unicode text; compared by code point."""

    impl = SqlText
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else checked_text(value)


class Instant(TypeDecorator[datetime]):
    """A moment: aware datetimes here, fixed-width UTC text with milliseconds in the database (`2026-03-01T09:00:00.000Z`)."""

    impl = SqlText().with_variant(String(24), "postgresql")
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else instant_text(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        return None if value is None else datetime.fromisoformat(value)


def instant_text(value: object) -> str:
    """The canonical text of a moment.

    Raises:
        DatabaseProblem: `value` is no datetime, or has no time zone.
    """
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise refuse(f"a moment must be a datetime with a time zone, got {value!r}")
    moment = value.astimezone(UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


class JsonValue(TypeDecorator[Any]):
    """Any JSON value, stored as canonical text: sorted keys, no spaces, so that equal values are equal text."""

    impl = SqlText
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str:
        try:
            return checked_text(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise refuse(f"not a JSON value: {error}") from None

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else json.loads(value)


class Real(TypeDecorator[float]):
    """A finite binary fraction; not for money. Negative zero becomes zero."""

    impl = Float
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> float | None:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise refuse(f"a finite number expected, got {value!r}")
        return float(value) + 0.0
