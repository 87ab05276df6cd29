"""A world's tools as Inspect's: our JSON Schema is what the model gets."""

import json
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any

from inspect_ai.tool import Tool, ToolDef, ToolInfo, ToolParams, ToolSource

from wardian.tools.contract import Json

Run = Callable[[str, dict[str, Json]], Awaitable[str]]
"""Runs the tool of a name with arguments; gives what the agent reads."""

UNSHORTENED = 0
"""As `max_output`: what the environment renders is what the model reads, however long."""

CURRENT: ContextVar[tuple[ToolDef, ...]] = ContextVar("wardian_tools")
"""Of the sample that runs here."""


def info_of(schema: dict[str, Json]) -> ToolInfo:
    """What a model is told of a tool, from its schema in the OpenAI format: the same.

    What Inspect's form of JSON Schema cannot hold is told in the description.
    """
    function = schema["function"]
    parameters = ToolParams.model_validate(function["parameters"])
    description = function["description"]
    if parameters.model_dump(exclude_none=True) != {"required": [], "properties": {}, **function["parameters"]}:
        description += f"\n\nIts arguments are exactly those of this JSON Schema: {json.dumps(function['parameters'])}"
    return ToolInfo(name=function["name"], description=description, parameters=parameters)


def tool_of(schema: dict[str, Json], run: Run) -> ToolDef:
    """One tool for agents that Inspect hands tools to. It takes none with an undescribed argument: such a one is described by its name."""
    info = info_of(schema)
    for name, parameter in info.parameters.properties.items():
        parameter.description = parameter.description or name.replace("_", " ")

    return _tool(info, run)


def unchecked(name: str, run: Run) -> ToolDef:
    """Stands in for the tool of a call, so that the environment, and not Inspect, judges whether there is such a one, and its arguments."""
    return _tool(ToolInfo(name=name, description=name, parameters=ToolParams(additionalProperties=True)), run)


def _tool(info: ToolInfo, run: Run) -> ToolDef:
    async def execute(**kwargs: Any) -> str:
        return await run(info.name, kwargs)

    return ToolDef(execute, info.name, info.description, info.parameters, parallel=False, max_output=UNSHORTENED)


class EpisodeTools(ToolSource):
    """The tools of the sample that runs, for an agent of one's own: `react(tools=[EpisodeTools()])`."""

    async def tools(self) -> list[Tool]:
        """Give them.

        Raises:
            LookupError: no sample of a Wardian task runs here.
        """
        try:
            return as_tools(CURRENT.get())
        except LookupError:
            raise LookupError("EpisodeTools: no sample of wardian_task runs here; use it as a solver of that task") from None


def as_tools(tools: Sequence[ToolDef]) -> list[Tool]:
    """What Inspect's functions take."""
    return [one.as_tool() for one in tools]
