"""From what a model wrote to a tool's arguments, or to one named reason why not. Never a guess, and never an exception.

`loading` reads the JSON. Then *exact decoding*, recorded in the log: where the schema allows no string, at any depth, a string that is
the JSON text of an array or object, or the canonical JSON text of an integer, number or boolean, of the type wanted is decoded once
(`"[1]"`, `"17"`, `"false"`; not `"017"`, `"False"`, or `"1.0"` for an integer). Where the schema allows a string it stays one, whatever
it looks like. Arguments that are as a whole one string holding a JSON object are decoded once as well. `null` or no text at all stands
for `{}` only for a tool without parameters.

Last the pydantic model, in strict JSON mode. Not Python mode: only in JSON mode does strict mean what a JSON sender can satisfy (an
array for a tuple, text for a date or an enum member), while a string is still no integer and a number no string.
"""

import json
import math
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from wardian.tools.contract import Arguments, Json
from wardian.tools.loading import MAX_CHARS, SHOWN_CHARS, Kind, Loaded, Rejected, check, json_type, load, load_strict, shown_path, too_large
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
    """Check `values`, which passed `loading.check`, against `model`."""
    schema = cached_schema(model)
    fit = _Fit()
    taken = fit.fitted(values, schema, ())
    text = json.dumps(taken, ensure_ascii=False)
    if len(text) > MAX_CHARS:
        return too_large(len(text))
    try:
        arguments = model.model_validate_json(text)
    except ValidationError as problem:
        return _first(problem, schema["properties"])
    lost = _lost_digits(taken, arguments)
    if lost is not None:
        where = shown_path(lost)
        return Rejected(Kind.OUT_OF_RANGE, f"{where}: this integer cannot be held exactly as a number with a fraction.", where)
    return fit.foreign or Parsed(arguments, taken, _joined(repaired, f"decoded({' '.join(fit.decoded)})" if fit.decoded else ""))


def _joined(*names: str) -> str:
    return ",".join(name for name in names if name)


@dataclass(slots=True)
class _Fit:
    """A walk over values beside their schema."""

    decoded: list[str] = field(default_factory=list)
    """Places of the strings that were decoded."""
    foreign: Rejected | None = None
    """The first value of a type that its schema does not have. Pydantic finds all of them but these: to it `true` and `1.0` are the 1 of
    an enumeration."""

    def fitted(self, value: Json, schema: Json, place: tuple[object, ...]) -> Json:
        """Give `value` with the strings in it decoded that the schema asks to be."""
        types = _types(schema)
        if isinstance(value, str):
            inner = _decoded(value, types)
            if inner is not value:
                self.decoded.append(shown_path(place))
            return inner
        if isinstance(value, dict):
            known = _branch(schema, "object")
            properties, others = known.get("properties", {}), known.get("additionalProperties", {})
            return {key: self.fitted(inner, properties.get(key, others), (*place, key)) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            items = _branch(schema, "array").get("items", {})
            return [self.fitted(inner, items, (*place, index)) for index, inner in enumerate(value)]
        if types and not types & _scalar_types(value) and self.foreign is None:
            self.foreign = _wrong_type(shown_path(place), " or ".join(sorted(types)), value)
        return value


def _types(schema: Json) -> frozenset[str]:
    """JSON types that a value of `schema` may have; empty when it does not say."""
    if not isinstance(schema, dict):
        return frozenset()
    return types_of(schema) or frozenset().union(*(_scalar_types(value) for value in schema.get("enum", ())))


def _wrong_type(where: str, wanted: str, value: Json) -> Rejected:
    return Rejected(Kind.WRONG_TYPE, f"{where}: must be {wanted}, got {json_type(value)} {_shown(value)}.", where)


def _branch(schema: Json, kind: str) -> dict[str, Json]:
    """What `schema` says of values of that type; nothing where it says no such thing, or more than one."""
    if not isinstance(schema, dict):
        return {}
    branches = [branch for branch in (schema, *schema.get("anyOf", ()), *schema.get("oneOf", ())) if branch.get("type") == kind]
    return branches[0] if len(branches) == 1 else {}


def _decoded(value: str, types: frozenset[str]) -> Json:
    """Decode a string once where no string is wanted and the text has exactly one reading; else give `value` itself."""
    if not types or "string" in types:
        return value
    found = load_strict(value)
    if isinstance(found, Rejected):
        return value
    inner = found.value
    if isinstance(inner, dict | list):
        return inner if ("object" if isinstance(inner, dict) else "array") in types else value
    wanted = _scalar_types(inner) & types - {"null", "string"}
    return inner if wanted and json.dumps(inner) == value else value


def _scalar_types(value: Json) -> frozenset[str]:
    if value is None:
        return frozenset({"null"})
    if isinstance(value, bool):
        return frozenset({"boolean"})
    if isinstance(value, int):
        return frozenset({"integer", "number"})
    return frozenset({"number"}) if isinstance(value, float) else frozenset({"string"})


def _lost_digits(taken: dict[str, Json], arguments: Arguments) -> tuple[object, ...] | None:
    """The place of an integer that became another number on its way into a field of type float; `None` when all are as they were."""
    if not _has_wide_integer(taken):
        return None
    waiting: list[tuple[tuple[object, ...], Json, Json]] = [((), taken, arguments.model_dump(by_alias=True))]
    while waiting:
        place, sent, held = waiting.pop()
        if isinstance(sent, dict) and isinstance(held, dict):
            waiting += [((*place, key), inner, held.get(key)) for key, inner in sent.items()]
        elif isinstance(sent, list) and isinstance(held, list | tuple):
            waiting += [((*place, index), inner, kept) for index, (inner, kept) in enumerate(zip(sent, held, strict=False))]
        elif isinstance(held, float) and isinstance(sent, int) and int(held) != sent:
            return place
    return None


def _has_wide_integer(value: Json) -> bool:
    """Whether an integer stands in it that a float may not hold."""
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict | list):
            waiting += node.values() if isinstance(node, dict) else node
        elif isinstance(node, int) and abs(node) > 1 << 53:
            return True
    return False


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
    where = shown_path(error["loc"])
    more = f" ({count - 1} more problems follow once this one is fixed.)" if count > 1 else ""
    return Rejected(kind, f"{where or 'arguments'}: {reason}.{more}", where)


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


def _shown(value: Json) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    try:
        text = json.dumps(value, ensure_ascii=False)
    except TypeError:
        text = repr(value)
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 3] + "..."
