"""What is wrong with a value of a file of tasks, in words that name the value and the fix."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from wardian.envs.taskfile import schema
from wardian.envs.taskfile.reading import Path

_FORMS = {
    "string": "a text in quotes",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "tuple": "a list such as [a, b]",
    "dict": "an object such as {key: value}",
    "model": "an object such as {key: value}",
    "model_attributes": "an object such as {key: value}",
}
"""By the first part of pydantic's name of the error."""
_LIMITS = {
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "string_too_long": "must have at most {max_length} characters",
    "too_long": "must have at most {max_length} items",
}
_PATTERNS = {
    schema.ID: "must be lower-case letters, digits and -, such as fix-total",
    schema.NAME: "must be lower-case letters, digits, - and _, such as total_is_right",
}
SHOWN_CHARS = 80


def message(path: Path, problems: Sequence[Any]) -> str:
    """What pydantic's `problems` with the value at `path` come to: of a value that may be of several types, each has one."""
    if len(problems) > 1 and all(one["type"].endswith("_type") for one in problems):
        return f"must be one value: a text, a number, true, false or null, not {_shown(problems[0]['input'])}"
    return _message(path, problems[0])


def _message(path: Path, one: Mapping[str, Any]) -> str:
    kind, value, limits = one["type"], one["input"], one.get("ctx", {})
    if kind == "extra_forbidden":
        return _no_such_key(path, value)
    if kind == "missing":
        return "is missing"
    if kind in ("too_short", "string_too_short"):
        return f"must not be empty; {'write at least one' if kind == 'too_short' else 'write a text'}"
    if kind in ("literal_error", "enum"):
        return f"must be {limits['expected']}, not {_shown(value)}"
    if kind == "string_pattern_mismatch":
        return f"{_PATTERNS[limits['pattern']]}, begin with a letter or digit, and have at most 63 characters, not {_shown(value)}"
    if kind in _LIMITS:
        return f"{_LIMITS[kind].format(**limits)}, not {_shown(value)}"
    if kind.startswith(("datetime", "timezone")):
        return f"must be a time with its zone, such as 2026-01-05T09:00:00Z, not {_shown(value)}"
    if kind == "tuple_type" and "rows" in path:
        return f"must be a list of rows, each a list of values, such as [[1]], not {_shown(value)}"
    if kind.endswith("_type") and (form := _FORMS.get(kind.removesuffix("_type"))):
        return f"must be {form}, not {_shown(value)}"
    return str(one["msg"]).removeprefix("Value error, ")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."


def _no_such_key(path: Path, value: object) -> str:
    if value is None:
        return "there is no such key here, and it has no value; inside { } a text with a comma must stand in quotes"
    if str(path[-1]) in _keys():
        return "this key has no place here, or none beside the others here (`wardian schema tasks` lists all)"
    close = difflib.get_close_matches(str(path[-1]), sorted(_keys()), n=1, cutoff=0.7)
    return f"there is no such key here{f'; did you mean {close[0]}?' if close else ''} (`wardian schema tasks` lists all)"


def _keys() -> set[str]:
    models = [one for one in vars(schema).values() if isinstance(one, type) and issubclass(one, BaseModel)]
    return {field.alias or name for model in models for name, field in model.model_fields.items()}
