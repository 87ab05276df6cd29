"""When two values are the same, whatever engine they come from.

Numbers are compared by value to 12 digits, so that 5.94 is the decimal of one engine and the float of the other; true is 1; a time is the
same with a `T` or a space, with or without a zone of UTC, and with or without a fraction of zero. A text that holds digits is no number;
a whole number of more than 64 bits is text, as a database shows it.
"""

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeAlias

from wardian.sandbox.database.types import INT64_MAX, INT64_MIN
from wardian.tools.contract import Json

Row: TypeAlias = Sequence[bool | int | float | str | None]
DIGITS = 12

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(?::(\d\d)(?:\.(\d+))?)?(?:Z|[+-]00(?::?00)?)?", re.ASCII)


def canonical(value: bool | int | float | str | None) -> Hashable:
    """The form in which equal values are equal."""
    if value is None:
        return ("null",)
    if isinstance(value, int | float):
        is_long = isinstance(value, int) and not INT64_MIN <= value <= INT64_MAX
        return ("text", str(value)) if is_long else ("number", _number(value))
    found = _TIME.fullmatch(value)
    if found is None:
        return ("text", value)
    day, minute, second, fraction = found.groups()
    return ("text", f"{day} {minute}:{second or '00'}.{(fraction or '').rstrip('0')}".rstrip("."))


def _number(value: int | float) -> int | float:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else int(value)


def same(expected: bool | int | float | str | None, found: bool | int | float | str | None, tolerance: float = 0.0) -> bool:
    """Whether two values are the same, numbers within `tolerance`."""
    if tolerance and isinstance(expected, int | float) and isinstance(found, int | float):
        try:
            return abs(expected - found) <= tolerance
        except OverflowError:  # a whole number that is longer than any float
            return False
    return canonical(expected) == canonical(found)


def same_row(expected: Row, found: Row, tolerance: float = 0.0) -> bool:
    """Whether two rows are the same, value by value."""
    return len(expected) == len(found) and all(same(one, other, tolerance) for one, other in zip(expected, found, strict=True))


def unmatched(expected: Sequence[Row], found: Sequence[Row], tolerance: float = 0.0) -> tuple[list[Row], list[Row]]:
    """Rows that are expected and not found, and the other way round; in any order, each row as often as it stands."""
    if not tolerance:
        left = Counter(_key(row) for row in found)
        missing = [row for row in expected if not _take(left, _key(row))]
        wanted = Counter(_key(row) for row in expected)
        return missing, [row for row in found if not _take(wanted, _key(row))]
    partner = _pairs(expected, found, tolerance)
    taken = set(partner.values())
    return (
        [row for number, row in enumerate(expected) if number not in taken],
        [row for number, row in enumerate(found) if number not in partner],
    )


def _key(row: Row) -> tuple[Hashable, ...]:
    return tuple(canonical(value) for value in row)


def _take(left: Counter[tuple[Hashable, ...]], key: tuple[Hashable, ...]) -> bool:
    left[key] -= 1
    return left[key] >= 0


def _pairs(expected: Sequence[Row], found: Sequence[Row], tolerance: float) -> dict[int, int]:
    """The largest number of pairs, as position found: position expected. One row may fit several within the tolerance."""
    fits = [[number for number, row in enumerate(found) if same_row(wanted, row, tolerance)] for wanted in expected]
    partner: dict[int, int] = {}
    for start in range(len(expected)):
        reached = {start: -1}
        waiting = [start]
        came_from: dict[int, int] = {}
        while waiting:
            current = waiting.pop(0)
            for number in fits[current]:
                if number in came_from:
                    continue
                came_from[number] = current
                if number not in partner:
                    _turn(partner, came_from, reached, number)
                    waiting.clear()
                    break
                reached[partner[number]] = number
                waiting.append(partner[number])
    return partner


def _turn(partner: dict[int, int], came_from: Mapping[int, int], reached: Mapping[int, int], free: int) -> None:
    """Give every row on the way to a free one the next partner."""
    while free >= 0:
        wanted = came_from[free]
        partner[free] = wanted
        free = reached[wanted]


def same_json(expected: Json, found: Json) -> bool:
    """Whether two JSON values are the same: numbers by value, objects in any order of keys; true is no number."""
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, int | float) and isinstance(found, int | float):
        return _number(expected) == _number(found)
    if isinstance(expected, dict) and isinstance(found, dict):
        return expected.keys() == found.keys() and all(same_json(value, found[key]) for key, value in expected.items())
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(same_json(one, other) for one, other in zip(expected, found, strict=True))
    return type(expected) is type(found) and bool(expected == found)
