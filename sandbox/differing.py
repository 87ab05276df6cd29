"""What differs between two values: one walk for fingerprints, snapshots, replays and diffs of worlds.

Every answer names the place first, then what was expected (or stood there before), then what was found (or stands there after).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

SHOWN_CHARS = 60
"""Of each of two values that differ."""


class Absent:
    """Stands where one of two values has nothing."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT = Absent()
Part: TypeAlias = tuple[str, Any, Any]
"""Path of a component, as expected, as found; `ABSENT` where there is nothing."""


@dataclass(frozen=True, slots=True)
class Difference:
    component: str
    """Path of the component, such as `events[0].args.amount` or `database.refunds[7].after.amount`."""
    expected: str
    """Shortened to the place where it differs."""
    found: str

    def __str__(self) -> str:
        return f"{self.component}: expected {self.expected}, found {self.found}"


def parts(path: str, expected: Any, found: Any) -> Iterator[Part]:
    """All places in which two values of JSON shape differ, depth first, each with both values."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for key in [*expected, *(key for key in found if key not in expected)]:
            yield from parts(f"{path}.{key}".lstrip("."), expected.get(key, ABSENT), found.get(key, ABSENT))
    elif isinstance(expected, list | tuple) and isinstance(found, list | tuple):
        for index in range(max(len(expected), len(found))):
            yield from parts(f"{path}[{index}]", *(side[index] if index < len(side) else ABSENT for side in (expected, found)))
    elif expected != found or isinstance(expected, bool) != isinstance(found, bool):
        yield path, expected, found


def differences(path: str, expected: Any, found: Any) -> Iterator[Difference]:
    """The same, with both values as short texts."""
    return (Difference(where, *_shown(one, other)) for where, one, other in parts(path, expected, found))


def lines(expected: Mapping[str, object], found: Mapping[str, object], title: str = "") -> list[str]:
    """One readable line per name whose value is not as expected, values whole, by name."""
    return [
        f"{title}{name}: expected {expected.get(name, ABSENT)}, found {found.get(name, ABSENT)}"
        for name in sorted({*expected, *found})
        if expected.get(name, ABSENT) != found.get(name, ABSENT)
    ]


def _shown(expected: Any, found: Any) -> tuple[str, str]:
    """Both as text, cut to the place where they differ."""
    one, other = repr(expected), repr(found)
    if max(len(one), len(other)) <= SHOWN_CHARS:
        return one, other
    same = next((index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    begin = max(0, same - SHOWN_CHARS // 4)
    return _cut(one, begin), _cut(other, begin)


def _cut(text: str, begin: int) -> str:
    end = begin + SHOWN_CHARS
    return f"{'...' if begin else ''}{text[begin:end]}{'...' if len(text) > end else ''}"
