"""JSON text of a model to a JSON value, or to one named reason why not. Never a guess, and never an exception.

Strict JSON first. Then at most one of these repairs, each of which leaves exactly one reading and is recorded:

- `control_characters`: raw newlines, tabs and the like inside strings are taken as written;
- `code_fence`: the whole text is one fenced block, whose inside is taken. A fence within a string of that inside is data.

Nothing is unescaped, trimmed, rounded or renamed. What CPython's decoder lets through is refused here: duplicate keys, NaN and
infinity (`1e999` too), lone surrogates, integers beyond 64 bits, and nesting that would exhaust its stack.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from wardian.tools.contract import Json, Status
from wardian.tools.encoding import text as printable
from wardian.tools.scanning import is_deeper

MAX_CHARS = 1 << 24
"""Longest text of one call's arguments, as JSON."""
MAX_VALUES = 100_000
"""Most values in them, each entry of an array or object counted: each costs much more than a character of a string."""
MAX_DEPTH = 64
"""Deepest nesting of arrays and objects."""
MAX_DIGITS = 1000
"""Longest integer looked at; CPython itself stops at 4300 digits with a `ValueError`."""
INT_MIN, INT_MAX = -(1 << 63), (1 << 63) - 1


class Kind(StrEnum):
    """Why a call was refused before its handler saw it."""

    MALFORMED_JSON = "malformed_json"
    TRAILING_DATA = "trailing_data"
    INVALID_ESCAPE = "invalid_escape"
    INVALID_UNICODE = "invalid_unicode"
    """A lone surrogate: text that no file and no database can hold."""
    NOT_OBJECT = "not_object"
    DUPLICATE_KEY = "duplicate_key"
    NON_FINITE = "non_finite"
    NUMBER_TOO_LONG = "number_too_long"
    TOO_LARGE = "too_large"
    TOO_DEEP = "too_deep"
    NO_TOOL_CALL = "no_tool_call"
    MISMATCHED_TAG = "mismatched_tag"
    UNKNOWN_TOOL = "unknown_tool"
    MISSING = "missing"
    UNKNOWN_ARGUMENT = "unknown_argument"
    WRONG_TYPE = "wrong_type"
    OUT_OF_RANGE = "out_of_range"
    ENUM = "enum"
    INVALID_VALUE = "invalid_value"


_OF_ARGUMENTS = (Kind.MISSING, Kind.UNKNOWN_ARGUMENT, Kind.WRONG_TYPE, Kind.OUT_OF_RANGE, Kind.ENUM, Kind.INVALID_VALUE)


@dataclass(frozen=True, slots=True)
class Rejected:
    kind: Kind
    message: str
    """For the agent: what is wrong, where, and what to send instead."""
    field: str = ""
    """The argument at fault, as a path such as `lines.0.qty`, made short; empty when it is the whole text."""

    def __str__(self) -> str:
        return f"{self.kind.value}({self.field})" if self.field else self.kind.value

    @property
    def status(self) -> Status:
        if self.kind is Kind.UNKNOWN_TOOL:
            return Status.UNKNOWN_TOOL
        return Status.INVALID_ARGUMENTS if self.kind in _OF_ARGUMENTS else Status.MALFORMED_CALL


@dataclass(frozen=True, slots=True)
class Loaded:
    """A JSON value that passed every check of text and numbers."""

    value: Json
    repaired: str = ""
    """Name of the repair that it took; empty for none."""


class _Stop(Exception):
    """Carries an outcome out of a hook of the json module."""

    def __init__(self, rejected: Rejected) -> None:
        super().__init__(rejected.kind.value)
        self.rejected = rejected


def load(text: str) -> Loaded | Rejected:
    """Read one JSON value from `text`, strictly, then with at most one repair."""
    if len(text) > MAX_CHARS:
        return too_large(len(text))
    found = load_strict(text)
    if isinstance(found, Loaded) or found.kind is not Kind.MALFORMED_JSON:
        return found
    inside = _fenced(text)
    if inside is not None:
        again = load_strict(inside)
        return Loaded(again.value, "code_fence") if isinstance(again, Loaded) else found
    again = load_strict(text, control_characters=True)
    # Else the first fault that is left when control characters are allowed.
    return Loaded(again.value, "control_characters") if isinstance(again, Loaded) else again


def too_large(chars: int) -> Rejected:
    """Arguments that are longer, as JSON, than any are taken."""
    return Rejected(Kind.TOO_LARGE, f"The arguments have {chars} characters; at most {MAX_CHARS} are taken. Send less at once.")


def _fenced(text: str) -> str | None:
    """What stands between the fence at the beginning of `text` and the one at its end; `None` where there are no such two."""
    head, newline, rest = text.strip().partition("\n")
    if newline and head.rstrip() in ("```", "```json") and rest.endswith("```"):
        return rest.removesuffix("```")
    return None


def load_strict(text: str, *, control_characters: bool = False) -> Loaded | Rejected:
    """Read one JSON value from `text` without any repair."""
    if is_deeper(text, MAX_DEPTH):
        return Rejected(Kind.TOO_DEEP, f"The JSON is nested deeper than {MAX_DEPTH} levels. Send a flatter value.")
    try:
        value = (_LENIENT if control_characters else _STRICT).decode(text)
    except json.JSONDecodeError as problem:
        return _syntax(text, problem)
    except _Stop as stop:
        return stop.rejected
    except RecursionError:
        return Rejected(Kind.TOO_DEEP, "The JSON is nested too deep. Send a flatter value.")
    refused = check(value)
    return refused or Loaded(value)


def check(value: Json) -> Rejected | None:
    """Check a JSON value that is in memory already: depth, number ranges, text that UTF-8 can hold, nothing foreign."""
    waiting: list[tuple[Json, _Place, int]] = [(value, None, 0)]
    count = 0
    while waiting:
        node, place, depth = waiting.pop()
        if isinstance(node, dict | list | tuple):
            if depth >= MAX_DEPTH:
                message = f"The JSON is nested deeper than {MAX_DEPTH} levels. Send a flatter value."
                return Rejected(Kind.TOO_DEEP, message, _shown_place(place))
            count += len(node)
            if count > MAX_VALUES:
                return Rejected(Kind.TOO_LARGE, f"The arguments hold more than {MAX_VALUES} values. Send less at once.")
            inner = node.items() if isinstance(node, dict) else enumerate(node)
            for key, child in inner:
                if isinstance(node, dict) and (refused := _check_text(key, place)):
                    return refused
                waiting.append((child, (place, key), depth + 1))
        elif refused := _check_scalar(node, place):
            return refused
    return None


def shown_path(parts: Iterable[object]) -> str:
    """A path such as `lines.0.qty` for people and logs. A key that a model made up may be of any length; this is not."""
    path = ".".join(_short(part, SHOWN_CHARS // 2) for part in parts)
    return _short(path, SHOWN_CHARS)


SHOWN_CHARS = 120
"""Of what a model wrote, so much of one place or value is said back."""

_Place: TypeAlias = tuple["_Place", object] | None
"""Where a node stands: its parent's place and its key there. Made into text only when it is to be shown."""


def _shown_place(place: _Place) -> str:
    parts = []
    while place is not None:
        place, key = place
        parts.append(key)
    return shown_path(reversed(parts))


def _short(value: object, chars: int) -> str:
    whole = str(value)
    return printable(whole if len(whole) <= chars else f"{whole[: chars - 3]}...")


def json_type(value: Json) -> str:
    """What JSON calls a value, with its article."""
    names = {
        dict: "an object",
        list: "an array",
        tuple: "an array",
        str: "a string",
        bool: "a boolean",
        int: "an integer",
        float: "a number",
    }
    return "null" if value is None else names.get(type(value), type(value).__name__)


def _check_scalar(value: Json, place: _Place) -> Rejected | None:
    if isinstance(value, str):
        return _check_text(value, place)
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int):
        if INT_MIN <= value <= INT_MAX:
            return None
        return _at(place, Kind.OUT_OF_RANGE, f"integers must be from {INT_MIN} to {INT_MAX}.")
    if isinstance(value, float):
        if math.isfinite(value):
            return None
        return _at(place, Kind.NON_FINITE, "NaN, infinity and numbers beyond about 1.8e308 are refused.")
    return _at(place, Kind.WRONG_TYPE, f"{type(value).__name__} is not a JSON value.")


def _check_text(text: Any, place: _Place) -> Rejected | None:
    if not isinstance(text, str):
        return _at(place, Kind.WRONG_TYPE, f"keys must be strings, got {_short(text, SHOWN_CHARS)}.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as problem:
        code = ord(text[problem.start])
        message = f"character {problem.start} is a lone surrogate (\\u{code:04x}), which is not text. Send the whole character."
        return _at(place, Kind.INVALID_UNICODE, message)
    return None


def _at(place: _Place, kind: Kind, message: str) -> Rejected:
    field = _shown_place(place)
    return Rejected(kind, f"{field or 'arguments'}: {message}", field)


def _syntax(text: str, problem: json.JSONDecodeError) -> Rejected:
    near = printable(text[max(0, problem.pos - 20) : problem.pos + 20])
    where = f"at character {problem.pos}, near {near!r}"
    if problem.msg.startswith("Extra data"):
        advice = "Send one JSON object and nothing after it; several calls are several tool calls."
        return Rejected(Kind.TRAILING_DATA, f"There is text after the JSON value, {where}. {advice}")
    if "escape" in problem.msg:
        advice = 'In a JSON string a backslash is written \\\\, and only \\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX are escapes.'
        return Rejected(Kind.INVALID_ESCAPE, f"Invalid escape in a JSON string, {where}. {advice}")
    advice = "Send one JSON object with keys and strings in double quotes."
    return Rejected(Kind.MALFORMED_JSON, f"The arguments are not valid JSON: {problem.msg} {where}. {advice}")


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise _Stop(Rejected(Kind.NUMBER_TOO_LONG, f"A number has {len(digits)} digits. Integers go from {INT_MIN} to {INT_MAX}."))
    return int(digits)


def _constant(name: str) -> float:
    raise _Stop(Rejected(Kind.NON_FINITE, f"{name} is not JSON and is refused. Send a finite number, or leave the argument out."))


def _pairs(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        shown = _short(twice, SHOWN_CHARS // 2)
        raise _Stop(Rejected(Kind.DUPLICATE_KEY, f"The key {shown!r} stands twice in one object. Send each key once.", shown))
    return found


_STRICT = json.JSONDecoder(object_pairs_hook=_pairs, parse_int=_integer, parse_constant=_constant)
_LENIENT = json.JSONDecoder(object_pairs_hook=_pairs, parse_int=_integer, parse_constant=_constant, strict=False)
