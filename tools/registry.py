"""Tools as documentation, generated from their contracts, so that it cannot drift from them."""

from collections.abc import Iterable
from typing import Any

from wardian.tools.contract import Tool
from wardian.tools.faults import HARSH, FaultPlan, possible
from wardian.tools.schemas import arguments_schema, types_of


def describe(tools: Iterable[Tool[Any]]) -> str:
    """A Markdown table of all tools, and under it one of each tool's arguments."""
    listed = list(tools)
    rows = [_row(tool) for tool in listed]
    head = (
        "| tool | does | works on | changes | scopes | refuses with | faults | latency |\n| --- | --- | --- | --- | --- | --- | --- | --- |"
    )
    return "\n".join([head, *rows, "", *(_arguments(tool) for tool in listed)])


def _row(tool: Tool[Any]) -> str:
    plan = FaultPlan(HARSH, revocable_scopes=tool.scopes, can_wait=True, has_replica=True)
    cells = [
        f"`{tool.name}` v{tool.version}",
        _cell(tool.description),
        tool.source.value,
        "yes" if tool.mutates else "no",
        ", ".join(tool.scopes) or "none",
        ", ".join(status.value for status in tool.errors) or "none",
        ", ".join(sorted(fault.value for fault in possible(tool, plan))),
        f"{tool.latency.low_ms}-{tool.latency.high_ms} ms",
    ]
    return f"| {' | '.join(cells)} |"


def _arguments(tool: Tool[Any]) -> str:
    schema = arguments_schema(tool.arguments)
    if not schema["properties"]:
        return f"### `{tool.name}`\n\nNo arguments.\n"
    required = schema.get("required", [])
    rows = []
    for name, inner in schema["properties"].items():
        types = " or ".join(sorted(types_of(inner))) or "any"
        rows.append(f"| `{name}` | {types} | {'yes' if name in required else 'no'} | {_cell(inner.get('description', ''))} |")
    return "\n".join([f"### `{tool.name}`\n", "| argument | type | required | meaning |\n| --- | --- | --- | --- |", *rows, ""])


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
