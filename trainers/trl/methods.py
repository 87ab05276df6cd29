"""A class whose methods are the tools of a world, made of their JSON Schemas.

TRL reads a tool back from its method: name, type hints, and a docstring in Google's form. What hints cannot say (bounds, defaults, what is
in an object) is said again in words, so that the model is told it either way. Arguments are checked by the server alone.
"""

import inspect
import json
import keyword
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, Literal, Union

RESERVED = ("reset", "get_reward")
"""Methods that TRL calls itself."""
RETURNS = "One line of JSON for each result: a status, and a result or an error."
_TYPES: Mapping[str, type] = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}
_BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} entries",
    "maxItems": "at most {} entries",
    "pattern": "matches the pattern {}",
    "format": "in the format {}",
}

Call = Callable[[Any, str, dict[str, Any]], str]
"""Instance, name of the tool, arguments; gives what the agent reads."""


def class_of(name: str, base: type, tools: Sequence[Mapping[str, Any]], call: Call) -> type:
    """A subclass of `base` with a method for each of `tools` (OpenAI function schemas), each of which asks `call`.

    Raises:
        ValueError: a tool or an argument cannot be the name of a Python method or argument, or is one that TRL keeps for itself.
    """
    methods = [_method(tool["function"], call) for tool in tools]
    return type(name, (base,), {method.__name__: method for method in methods} | {"__doc__": f"Tools of {name}.", "__module__": __name__})


def _method(function: Mapping[str, Any], call: Call) -> FunctionType:
    name = str(function["name"])
    _check(name, f"tool {name!r}")
    parameters = function.get("parameters", {})
    needed = parameters.get("required", ())
    arguments = sorted(parameters.get("properties", {}).items(), key=lambda argument: argument[0] not in needed)
    for argument, _ in arguments:
        _check(argument, f"argument {argument!r} of tool {name!r}")

    def method(self: Any, /, **given: Any) -> str:
        return call(self, name, given)

    hints = {argument: hint_of(schema) for argument, schema in arguments}
    method.__name__ = method.__qualname__ = name
    method.__doc__ = _docstring(function, arguments)
    method.__annotations__ = {**hints, "return": str}
    method.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # read by inspect.signature
        [inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)]
        + [
            inspect.Parameter(
                argument,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if argument in needed else schema.get("default"),
                annotation=hints[argument],
            )
            for argument, schema in arguments
        ],
        return_annotation=str,
    )
    assert isinstance(method, FunctionType)
    return method


def _check(name: str, what: str) -> None:
    if name in RESERVED or name.startswith("_") or not name.isidentifier() or keyword.iskeyword(name) or name == "self":
        raise ValueError(
            f"{what}: cannot be one of a method that TRL takes for a tool ({', '.join(RESERVED)} and names with a leading underscore are "
            "its own, and it has to be a Python name); rename it, or use WardianSpec.rollout_func, which takes any schema"
        )


def hint_of(schema: Mapping[str, Any]) -> Any:
    """The type hint that comes nearest to a schema."""
    if "enum" in schema or "const" in schema:
        return Literal[tuple(schema.get("enum") or [schema["const"]])]
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return Union[tuple(hint_of(option) for option in options)]  # noqa: UP007 - the options are made at run time
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return Union[tuple(hint_of({**schema, "type": kind}) for kind in kinds)]  # noqa: UP007
    if kinds == "null":
        return None
    if kinds == "array" and schema.get("items"):
        return list[hint_of(schema["items"])]  # type: ignore[misc]  # made at run time
    return _TYPES.get(str(kinds), Any)


def _docstring(function: Mapping[str, Any], arguments: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    lines = [_line(function.get("description") or str(function["name"]))]
    if arguments:
        lines += ["", "Args:", *(f"    {argument}: {described(schema)}" for argument, schema in arguments)]
    return "\n".join([*lines, "", "Returns:", f"    {RETURNS}", ""])


def described(schema: Mapping[str, Any]) -> str:
    """All that a schema says, in one line of words."""
    text = _line(str(schema.get("description", "")))
    said = [part for part in (text.rstrip("."), detail(schema)) if part]
    default = [f"Default: {json.dumps(schema['default'], ensure_ascii=False)}"] if "default" in schema else []
    return f"{'. '.join([*said, *default]) or 'Any value'}."


def detail(schema: Mapping[str, Any]) -> str:
    """Kind and bounds of a value, with what is in it."""
    if "enum" in schema or "const" in schema:
        return f"One of {', '.join(json.dumps(value, ensure_ascii=False) for value in schema.get('enum') or [schema['const']])}"
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(detail(option) for option in options)
    kind = str(schema.get("type", ""))
    bounds = ", ".join(words.format(schema[name]) for name, words in _BOUNDS.items() if name in schema)
    parts = [kind, bounds]
    if kind == "array" and schema.get("items"):
        parts.append(f"each: {detail(schema['items'])}")
    if schema.get("properties"):
        needed = schema.get("required", ())
        inner = (f"{name}{'' if name in needed else ' (optional)'}: {described(one)[:-1]}" for name, one in schema["properties"].items())
        parts.append(f"with {{{'; '.join(inner)}}}")
    return ", ".join(part for part in parts if part)


def _line(text: str) -> str:
    return " ".join(text.split())
