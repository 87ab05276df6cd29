import json
from datetime import date
from enum import StrEnum
from typing import Any

import jsonschema
from pydantic import BaseModel, ConfigDict, Field

from wardian.tools.contract import Arguments, Tool, ToolContext
from wardian.tools.parsing import Parsed, parse
from wardian.tools.schemas import arguments_schema, mcp_schema, openai_schema


class Colour(StrEnum):
    RED = "red"


class Line(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    title: str
    qty: int = Field(description="Pieces", ge=1)


class Shell(Arguments):
    command: str
    timeout_s: int | None = Field(default=None, ge=1, le=600)


class Nested(Arguments):
    lines: tuple[Line, ...]
    colour: Colour
    due: date | None = None


async def nothing(context: ToolContext, arguments: Arguments) -> None:
    """Do nothing."""


def test_a_schema_is_plain() -> None:
    text = json.dumps(arguments_schema(Nested))
    assert "$ref" not in text
    assert "$defs" not in text
    line = arguments_schema(Nested)["properties"]["lines"]["items"]
    assert line["properties"] == {"title": {"type": "string"}, "qty": {"type": "integer", "description": "Pieces", "minimum": 1}}
    assert line["additionalProperties"] is False


def test_a_schema_takes_what_the_model_takes() -> None:
    raw: dict[str, Any] = {"lines": [{"title": "a", "qty": 2}], "colour": "red", "due": "2026-01-02"}
    jsonschema.Draft202012Validator(arguments_schema(Nested)).validate(raw)
    found = parse(Nested, raw)
    assert isinstance(found, Parsed)
    assert isinstance(found.arguments, Nested)
    assert found.arguments.due == date(2026, 1, 2)


def test_equal_contracts_give_equal_bytes_and_no_shared_objects() -> None:
    first, second = arguments_schema(Nested), arguments_schema(Nested)
    assert json.dumps(first) == json.dumps(second)
    first["properties"].clear()
    assert arguments_schema(Nested) == second


def test_both_tool_formats_carry_the_same_schema() -> None:
    tool = Tool(name="shell", description="Run a command.", arguments=Shell, handler=nothing, mutates=True, idempotent=False)
    openai, mcp = openai_schema(tool), mcp_schema(tool)
    assert openai["function"]["parameters"] == mcp["inputSchema"] == tool.schema()
    assert mcp["annotations"] == {"readOnlyHint": False, "idempotentHint": False}
