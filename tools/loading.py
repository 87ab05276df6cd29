"""JSON text of a model to a JSON value, or to one named reason why not. Never a guess, and never an exception.

Strict JSON first. Then at most one of these repairs, each of which leaves exactly one reading and is recorded:

- `control_characters`: raw newlines, tabs and the like inside strings are taken as written;
- `code_fence`: the whole text is one fenced block, whose inside is taken.

Nothing is unescaped, trimmed, rounded or renamed. What CPython's decoder lets through is refused here: duplicate keys, NaN and
infinity (`1e999` too), lone surrogates, integers beyond 64 bits, and nesting that would exhaust its stack.
"""

import json
import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from wardian.tools.contract import Json, Status

MAX_CHARS = 1 << 20
"""Longest raw text of one call's arguments."""
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
    """The argument at fault, as a path such as `lines.0.qty`; empty when it is the whole text."""

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
        return Rejected(Kind.TOO_LARGE, f"The arguments have {len(text)} characters; at most {MAX_CHARS} are taken. Send less at once.")
    found = load_strict(text)
    if isinstance(found, Loaded):
        return found
    if found.kind is Kind.MALFORMED_JSON:
        fenced = _FENCE.fullmatch(text)
        again = load_strict(fenced["inside"]) if fenced else load_strict(text, control_characters=True)
        if isinstance(again, Loaded):
            return Loaded(again.value, "code_fence" if fenced else "control_characters")
        if not fenced:
            return again  # the first fault that is left when control characters are allowed
    return found


def load_strict(text: str, *, control_characters: bool = False) -> Loaded | Rejected:
    """Read one JSON value from `text` without any repair."""
    if _depth(text) > MAX_DEPTH:
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
    waiting: list[tuple[Json, str, int]] = [(value, "", 0)]
    while waiting:
        node, path, depth = waiting.pop()
        if isinstance(node, dict | list | tuple):
            if depth >= MAX_DEPTH:
                return Rejected(Kind.TOO_DEEP, f"The JSON is nested deeper than {MAX_DEPTH} levels. Send a flatter value.", path)
            inner = node.items() if isinstance(node, dict) else enumerate(node)
            for key, child in inner:
                if isinstance(node, dict) and (refused := _check_text(key, path)):
                    return refused
                waiting.append((child, f"{path}.{key}" if path else str(key), depth + 1))
        elif refused := _check_scalar(node, path):
            return refused
    return None


def json_end(text: str, start: int) -> int | None:
    """Where the object or array that begins at `start` (after blanks) ends; `None` when it does not."""
    depth = 0
    for found in _BRACKET.finditer(text, start):
        if found[0] in ("[", "{"):
            depth += 1
        elif found[0] in ("]", "}"):
            depth -= 1
        elif depth == 0:
            return None
        if depth == 0:
            return found.end()
    return None


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


def _check_scalar(value: Json, path: str) -> Rejected | None:
    if isinstance(value, str):
        return _check_text(value, path)
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int):
        if INT_MIN <= value <= INT_MAX:
            return None
        return Rejected(Kind.OUT_OF_RANGE, f"{path or 'value'}: integers must be from {INT_MIN} to {INT_MAX}.", path)
    if isinstance(value, float):
        if math.isfinite(value):
            return None
        return Rejected(Kind.NON_FINITE, f"{path or 'value'}: NaN, infinity and numbers beyond about 1.8e308 are refused.", path)
    return Rejected(Kind.WRONG_TYPE, f"{path or 'value'}: {type(value).__name__} is not a JSON value.", path)


def _check_text(text: Any, path: str) -> Rejected | None:
    if not isinstance(text, str):
        return Rejected(Kind.WRONG_TYPE, f"{path or 'arguments'}: keys must be strings, got {text!r}.", path)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as problem:
        code = ord(text[problem.start])
        where = path or "arguments"
        message = f"{where}: character {problem.start} is a lone surrogate (\\u{code:04x}), which is not text. Send the whole character."
        return Rejected(Kind.INVALID_UNICODE, message, path.encode("ascii", "backslashreplace").decode())
    return None


def _syntax(text: str, problem: json.JSONDecodeError) -> Rejected:
    near = text[max(0, problem.pos - 20) : problem.pos + 20].encode("utf-8", "backslashreplace").decode()
    where = f"at character {problem.pos}, near {near!r}"
    if problem.msg.startswith("Extra data"):
        advice = "Send one JSON object and nothing after it; several calls are several tool calls."
        return Rejected(Kind.TRAILING_DATA, f"There is text after the JSON value, {where}. {advice}")
    if "escape" in problem.msg:
        advice = 'In a JSON string a backslash is written \\\\, and only \\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX are escapes.'
        return Rejected(Kind.INVALID_ESCAPE, f"Invalid escape in a JSON string, {where}. {advice}")
    advice = "Send one JSON object with keys and strings in double quotes."
    return Rejected(Kind.MALFORMED_JSON, f"The arguments are not valid JSON: {problem.msg} {where}. {advice}")


def _depth(text: str) -> int:
    """Deepest nesting, found without recursion. Cheap for ordinary text: the walk only starts where it could matter."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return 0
    depth = deepest = 0
    for found in _BRACKET.finditer(text):
        if found[0] in ("[", "{"):
            depth += 1
            deepest = max(deepest, depth)
        elif found[0] in ("]", "}"):
            depth -= 1
    return deepest


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
        shown = twice[:100].encode("utf-8", "backslashreplace").decode()
        raise _Stop(Rejected(Kind.DUPLICATE_KEY, f"The key {shown!r} stands twice in one object. Send each key once.", shown))
    return found


_STRICT = json.JSONDecoder(object_pairs_hook=_pairs, parse_int=_integer, parse_constant=_constant)
_LENIENT = json.JSONDecoder(object_pairs_hook=_pairs, parse_int=_integer, parse_constant=_constant, strict=False)
_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
"""A string, or a bracket outside of strings; possessive, so that no text makes it slow."""
_FENCE = re.compile(r"\s*```(?:json)?[ \t]*\r?\n(?P<inside>(?:(?!```).)*)```\s*", re.DOTALL)
