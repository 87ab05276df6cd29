"""From what a model wrote to a tool's arguments, or to one named reason why not. Never a guess, and never an exception.

`loading` reads the JSON. Then *exact decoding*, recorded in the log: where the schema allows no string, a string that is the JSON text of
an array or object, or the canonical JSON text of an integer, number or boolean, of the type wanted is decoded once (`"[1]"`, `"17"`,
`"false"`; not `"017"`, `"False"`, or `"1.0"` for an integer). Where the schema allows a string it stays one, whatever it looks like.
Arguments that are as a whole one string holding a JSON object are decoded once as well. `null` or no text at all stands for `{}` only
for a tool without parameters.

Last the pydantic model, in strict JSON mode. Not Python mode: only in JSON mode does strict mean what a JSON sender can satisfy (an
array for a tuple, text for a date or an enum member), while a string is still no integer and a number no string.
"""

import json
import math
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from wardian.tools.contract import Arguments, Json
from wardian.tools.loading import Kind, Loaded, Rejected, check, json_type, load, load_strict
from wardian.tools.schemas import cached_schema, types_of


@dataclass(frozen=True, slots=True)
class Parsed:
    arguments: Arguments
    values: dict[str, Json]
    """The same as plain JSON, as it is logged and replayed; without defaults that the model left out."""
    repaired: str = ""
    """Repair and decoded fields, such as `control_characters` or `decoded(lines)`; empty for none."""


def parse(model: type[Arguments], raw: dict[str, Json] | str) -> Parsed | Rejected:
    """Read and validate the arguments of one call."""
    found = _object(raw, takes_nothing=not model.model_fields) if isinstance(raw, str) else check(raw) or Loaded(raw)
    if isinstance(found, Rejected):
        return found
    return validate(model, found.value, found.repaired)


def _object(raw: str, *, takes_nothing: bool) -> Loaded | Rejected:
    if takes_nothing and raw.strip() in ("", "null"):
        return Loaded({})
    found = load(raw)
    if isinstance(found, Rejected):
        return found
    value, repaired = found.value, found.repaired
    if isinstance(value, str) and value.lstrip().startswith("{"):
        inner = load_strict(value)
        if isinstance(inner, Rejected):
            return inner
        value, repaired = inner.value, _joined(repaired, "decoded(arguments)")
    if not isinstance(value, dict):
        return Rejected(Kind.NOT_OBJECT, f'The arguments are {json_type(value)}; send one JSON object, such as {{"name": value}}.')
    return Loaded(value, repaired)


def validate(model: type[Arguments], values: dict[str, Json], repaired: str = "") -> Parsed | Rejected:
    """Check `values`, which passed `parsing.check`, against `model`."""
    properties = cached_schema(model)["properties"]
    decoded: list[str] = []
    taken: dict[str, Json] = {}
    for name, value in values.items():
        types = types_of(properties[name]) if name in properties else frozenset()
        taken[name] = _decoded(value, types)
        if taken[name] is not value:
            decoded.append(name)
        elif _loses_digits(value, types):
            return Rejected(Kind.OUT_OF_RANGE, f"{name}: {value} cannot be held exactly as a number with a fraction.", name)
    try:
        arguments = model.model_validate_json(json.dumps(taken, ensure_ascii=False))
    except ValidationError as problem:
        return _first(problem, properties)
    return Parsed(arguments, taken, _joined(repaired, f"decoded({' '.join(decoded)})" if decoded else ""))


def _joined(*names: str) -> str:
    return ",".join(name for name in names if name)


def _decoded(value: Json, types: frozenset[str]) -> Json:
    """Decode a string once where no string is wanted and the text has exactly one reading; else give `value` itself."""
    if not isinstance(value, str) or not types or "string" in types:
        return value
    found = load_strict(value)
    if isinstance(found, Rejected):
        return value
    inner = found.value
    if isinstance(inner, dict | list):
        return inner if ("object" if isinstance(inner, dict) else "array") in types else value
    wanted = _scalar_types(inner) & types
    return inner if wanted and json.dumps(inner) == value else value


def _scalar_types(value: Json) -> frozenset[str]:
    if isinstance(value, bool):
        return frozenset({"boolean"})
    if isinstance(value, int):
        return frozenset({"integer", "number"})
    return frozenset({"number"}) if isinstance(value, float) else frozenset()


def _loses_digits(value: Json, types: frozenset[str]) -> bool:
    wants_float = "number" in types and "integer" not in types
    return wants_float and isinstance(value, int) and not isinstance(value, bool) and int(float(value)) != value


_LIMITS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
    "too_short": ("of at least this many items:", "min_length"),
    "too_long": ("of at most this many items:", "max_length"),
    "string_too_short": ("of at least this many characters:", "min_length"),
    "string_too_long": ("of at most this many characters:", "max_length"),
    "multiple_of": ("a multiple of", "multiple_of"),
}
_TYPES = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "int_parsing": "an integer",
    "float_type": "a number",
    "string_type": "a string",
    "bool_type": "true or false",
    "list_type": "an array",
    "tuple_type": "an array",
    "dict_type": "an object",
    "model_type": "an object",
    "none_required": "null",
}


def _first(problem: ValidationError, properties: dict[str, Json]) -> Rejected:
    """Turn pydantic's first error into a refusal that names field and fix; one at a time is what a model can act on."""
    errors = problem.errors(include_url=False, include_context=True)
    return _refusal(errors[0], [str(name) for name in properties], len(errors))


def _refusal(error: Any, known: list[str], count: int) -> Rejected:
    kind, reason = _reason(error, known)
    field = _path(error["loc"])
    more = f" ({count - 1} more problems follow once this one is fixed.)" if count > 1 else ""
    return Rejected(kind, f"{field or 'arguments'}: {reason}.{more}", field)


def _reason(error: Any, known: list[str]) -> tuple[Kind, str]:
    type_, value, context = error["type"], error.get("input"), error.get("ctx", {})
    if type_ == "missing":
        return Kind.MISSING, "is required and missing; add it"
    if type_ == "extra_forbidden":
        return Kind.UNKNOWN_ARGUMENT, f"is not an argument here; leave it out. Known: {', '.join(known) or 'none'}"
    if type_ in _LIMITS:
        words, key = _LIMITS[type_]
        return Kind.OUT_OF_RANGE, f"must be {words} {context.get(key)}, got {_shown(value)}"
    if type_ in ("literal_error", "enum"):
        return Kind.ENUM, f"must be {context.get('expected')}, got {_shown(value)}"
    if type_ in _TYPES or type_.endswith("_type"):
        wanted = _TYPES.get(type_) or type_.removesuffix("_type")
        return Kind.WRONG_TYPE, f"must be {wanted}, got {json_type(value)} {_shown(value)}"
    return Kind.INVALID_VALUE, f"{error['msg']}, got {_shown(value)}"


def _path(location: tuple[str | int, ...]) -> str:
    return ".".join(str(part) for part in location)


def _shown(value: Json) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    try:
        text = json.dumps(value, ensure_ascii=False)
    except TypeError:
        text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
