"""Records as plain JSON values and back, by the types of their fields.

Not pydantic: its `str` refuses lone surrogates, which paths of an agent's making and text of a model may hold.
"""

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

Record = TypeVar("Record")


def plain(value: Any) -> Any:
    """`value` in objects, lists, strings, numbers, booleans and null. What a record computes by itself is left out."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value) if one.init}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value


def made(kind: type[Record], value: Any) -> Record:
    """The value of type `kind` that `plain` gave `value` for.

    Raises:
        ValueError: it did not.
    """
    found: Record = _made(kind, value)
    return found


@lru_cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {one.name: hints[one.name] for one in fields(kind) if one.init}


def _made(kind: Any, value: Any) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, types.UnionType):
        return _one_of(inner, value)
    if is_dataclass(kind):
        return _record(kind, value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if origin is tuple and inner[-1] is not ...:
        return tuple(_made(one, part) for one, part in zip(inner, _of(list, value), strict=True))
    if origin is tuple:
        return tuple(_made(inner[0], part) for part in _of(list, value))
    if origin in (list, Sequence):
        return [_made(inner[0], part) for part in _of(list, value)]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {name: _made(inner[1], part) for name, part in _of(dict, value).items()}
    return _of(kind, value)


def _one_of(kinds: tuple[Any, ...], value: Any) -> Any:
    if value is None and type(None) in kinds:
        return None
    for kind in kinds:
        if kind is not type(None):
            try:
                return _made(kind, value)
            except ValueError:
                continue
    raise ValueError(f"{value!r:.100} is none of {kinds}")


def _record(kind: Any, value: Any) -> Any:
    hints = _hints(kind)
    if set(_of(dict, value)) != set(hints):
        raise ValueError(f"{kind.__name__} has the fields {', '.join(hints)}, and here are {', '.join(map(str, value))}")
    return kind(**{name: _made(hint, value[name]) for name, hint in hints.items()})


def _of(kind: type, value: Any) -> Any:
    if kind is float and type(value) is int:
        return float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{value!r:.100} is no {kind.__name__}")
    return value
