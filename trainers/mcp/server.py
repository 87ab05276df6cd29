"""Tools, task and policy of one episode, as the Model Context Protocol has them.

What a tool answers is text, exactly as an observation is rendered, and the same as structured content. A call that did not succeed
is an error that the model can read (`isError`). What *we* broke is an error of the protocol: the episode is over, and not scored.

Two tools are ours: one that sends a message, since that is how an agent says that it is done, and one that reads the task, for
programs that show an agent nothing but tools. The first counts as a step of the episode, the second does not.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListToolsResult,
    Prompt,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    TextContent,
    TextResourceContents,
    Tool,
)

from wardian import __version__
from wardian.tools.contract import Json, Status
from wardian.trainers.mcp.handle import Answer, EpisodeBusy, EpisodeFailed, EpisodeHandle, EpisodeOver

SAY, READ = "send_message", "read_task"
TASK_URI = "wardian://episode/task"
FAILED = -32000
"""Code of the error of a failed episode, of the range that is left to servers."""
UNKNOWN_RESOURCE = -32002
_SAY_SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"], "additionalProperties": False}
_READ_SCHEMA: dict[str, Json] = {"type": "object", "properties": {}, "additionalProperties": False}


def own_names(schemas: Sequence[Mapping[str, Json]]) -> tuple[str, str]:
    """The names of the two tools that are ours, which no tool of the world has."""
    taken = {schema["function"]["name"] for schema in schemas}
    return _free(SAY, taken), _free(READ, taken)


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def instructions_of(handle: EpisodeHandle) -> str:
    """What an agent is told: task, policy, and how it ends."""
    say, _ = own_names(handle.schemas)
    return (
        f"{handle.instructions.rstrip()}\n\n# How you act\n\nWork with the tools of this server. Whatever you have to say, to a customer "
        f"or to whoever gave you the task, goes through `{say}`; nobody reads anything else. Call `{say}` when you are done: work that "
        "nobody was told of may not count. After the answer that says that the episode is over, stop.\n"
    )


def tools_of(handle: EpisodeHandle) -> list[Tool]:
    """The episode's tools, with their schemas as they are, and our two."""
    say, read = own_names(handle.schemas)
    functions = [schema["function"] for schema in handle.schemas]
    return [
        *(Tool(name=one["name"], description=one["description"], input_schema=one["parameters"]) for one in functions),
        Tool(name=say, description=_SAYING, input_schema=_SAY_SCHEMA),
        Tool(name=read, description="Read again what you were asked to do, and by which policy.", input_schema=_READ_SCHEMA),
    ]


_SAYING = (
    "Send a message in plain words to the customer, if there is one, or else to whoever gave you the task. What they answer comes back "
    "with it. A message that asks nothing may end your work for good, so send your last one when you are done."
)


def episode_server(handle: EpisodeHandle) -> Server[Any]:
    """A server of that one episode, for any transport."""
    episode = _Episode(handle)
    return Server(
        "wardian",
        version=__version__,
        instructions=instructions_of(handle),
        on_list_tools=episode.list_tools,
        on_call_tool=episode.call_tool,
        on_list_prompts=episode.list_prompts,
        on_get_prompt=episode.get_prompt,
        on_list_resources=episode.list_resources,
        on_read_resource=episode.read_resource,
    )


class _Episode:
    """Answers requests by a handle."""

    def __init__(self, handle: EpisodeHandle) -> None:
        self.handle = handle
        self.say, self.read = own_names(handle.schemas)

    async def list_tools(self, context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=tools_of(self.handle))

    async def call_tool(self, context: Any, params: CallToolRequestParams) -> CallToolResult:
        arguments = params.arguments or {}
        if params.name == self.read:
            return CallToolResult(content=[TextContent(type="text", text=instructions_of(self.handle))])
        try:
            if params.name != self.say:
                return _result(await self.handle.call(params.name, arguments))
            if set(arguments) != {"text"} or not isinstance(arguments["text"], str):
                return _result(await self.handle.refuse(json.dumps(arguments), f"{self.say} takes one argument, `text`. Nothing was sent."))
            return _result(await self.handle.say(arguments["text"]))
        except EpisodeOver as over:
            return _refused(f"{over_text(over.cause)} This call did nothing. Stop.")
        except EpisodeBusy as busy:
            return _refused(f"Nothing was done: {busy}. Try again.")
        except EpisodeFailed as failed:
            raise MCPError(
                FAILED, failed_text(failed.kind), {"episode_over": True, "scored": False, "failure_kind": failed.kind}
            ) from failed

    async def list_prompts(self, context: Any, params: Any) -> ListPromptsResult:
        return ListPromptsResult(prompts=[Prompt(name="task", description="What there is to do, and by which policy.")])

    async def get_prompt(self, context: Any, params: GetPromptRequestParams) -> GetPromptResult:
        if params.name != "task":
            raise MCPError(-32602, f"there is no prompt {params.name!r}; there is `task`")
        content = TextContent(type="text", text=instructions_of(self.handle))
        return GetPromptResult(messages=[PromptMessage(role="user", content=content)])

    async def list_resources(self, context: Any, params: Any) -> ListResourcesResult:
        return ListResourcesResult(resources=[Resource(name="task", uri=TASK_URI, mime_type="text/markdown")])

    async def read_resource(self, context: Any, params: ReadResourceRequestParams) -> ReadResourceResult:
        if str(params.uri) != TASK_URI:
            raise MCPError(UNKNOWN_RESOURCE, f"there is no resource {params.uri}; there is {TASK_URI}")
        contents = TextResourceContents(uri=TASK_URI, mime_type="text/markdown", text=instructions_of(self.handle))
        return ReadResourceResult(contents=[contents])


def over_text(cause: str) -> str:
    """What an agent reads when its episode has ended."""
    return f"The episode is over ({cause})."


def failed_text(kind: str) -> str:
    """What an agent program reads when we broke its episode."""
    return f"the episode is over and not scored, through no fault of the agent's ({kind}); stop"


def _result(answer: Answer) -> CallToolResult:
    structured = {**answer.result, **({"incoming": [dict(word) for word in answer.incoming]} if answer.incoming else {})}
    content = [TextContent(type="text", text=answer.text)]
    if answer.end_cause:
        structured |= {"episode_over": True, "end_cause": answer.end_cause}
        content.append(TextContent(type="text", text=f"{over_text(answer.end_cause)} Stop."))
    failed = answer.result.get("status") != Status.OK.value
    return CallToolResult(content=[*content], structured_content=structured, is_error=failed)


def _refused(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)
