"""JSON Schema out of the contract, in the shapes that trainers and tool servers take.

Schemas are plain: no titles, `$ref` resolved in place, `additionalProperties: false` on every object that pydantic closes,
and keys in a fixed order, so that equal contracts give equal bytes.
"""

from functools import cache
from typing import Any

from pydantic import BaseModel

from wardian.tools.contract import Json, Tool

_KEY_ORDER = ("type", "description", "properties", "required", "additionalProperties")


@cache
def cached_schema(model: type[BaseModel]) -> dict[str, Json]:
    """The schema of a model as one shared object, to look at and not to change."""
    schema = model.model_json_schema()
    plain: dict[str, Json] = _plain(schema, schema.get("$defs", {}), ())
    plain.pop("description", None)  # the model's docstring: for developers, the tool has a description of its own
    plain.setdefault("properties", {})
    return plain


def arguments_schema(model: type[BaseModel]) -> dict[str, Json]:
    """JSON Schema of a tool's arguments, fresh at each call."""
    return _copied(cached_schema(model))  # type: ignore[no-any-return]


def openai_schema(tool: Tool[Any]) -> dict[str, Json]:
    """The `tools` entry of a chat-completions request."""
    function = {"name": tool.name, "description": tool.description, "parameters": arguments_schema(tool.arguments)}
    return {"type": "function", "function": function}


def mcp_schema(tool: Tool[Any]) -> dict[str, Json]:
    """The entry of a Model Context Protocol `tools/list` answer."""
    hints = {"readOnlyHint": not tool.mutates, "idempotentHint": tool.idempotent or bool(tool.idempotency_key)}
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": arguments_schema(tool.arguments),
        "annotations": hints,
    }


def types_of(schema: Json) -> frozenset[str]:
    """JSON types that a value of `schema` may have; empty when it does not say."""
    found: set[str] = set()
    declared = schema.get("type", ())
    found.update((declared,) if isinstance(declared, str) else declared)
    for branch in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        found |= types_of(branch)
    return frozenset(found)


def _plain(node: Json, defs: dict[str, Json], inside: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_plain(item, defs, inside) for item in node]
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref", "")
    if reference.startswith("#/$defs/"):
        name = reference.removeprefix("#/$defs/")
        if name in inside:
            return {"type": "object"}  # a recursive type: open from here on, its model still checks it
        return _plain({**defs[name], **{k: v for k, v in node.items() if k != "$ref"}}, defs, (*inside, name))
    kept = {key: value for key, value in node.items() if key not in ("$defs", "title")}
    if kept.get("type") == "object" and kept.get("additionalProperties") is True:
        del kept["additionalProperties"]  # says nothing
    if kept.get("default", ...) is None:
        del kept["default"]  # stands for "not given"; shown, it would be a value that the type may refuse
    ordered = [key for key in _KEY_ORDER if key in kept] + sorted(key for key in kept if key not in _KEY_ORDER)
    plain = {}
    for key in ordered:
        value = kept[key]
        if key == "properties":  # names, not keywords: a parameter may be called `title`
            plain[key] = {name: _plain(inner, defs, inside) for name, inner in value.items()}
        elif key in ("default", "const", "enum", "examples"):
            plain[key] = value
        else:
            plain[key] = _plain(value, defs, inside)
    return _merged_types(plain)


def _merged_types(node: dict[str, Json]) -> dict[str, Json]:
    """Write `anyOf: [{type: string}, {type: null}]` as `type: [string, null]`, which models read more easily."""
    branches = node.get("anyOf")
    if not branches or any(set(branch) != {"type"} or not isinstance(branch["type"], str) for branch in branches):
        return node
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    return {"type": [branch["type"] for branch in branches], **rest}


def _copied(node: Json) -> Json:
    if isinstance(node, dict):
        return {key: _copied(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_copied(value) for value in node]
    return node
