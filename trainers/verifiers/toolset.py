"""The tool server, one process for all rollouts: lists the tools of a rollout's episode by our own schemas, and makes the calls."""

import asyncio
from typing import Any, cast
from weakref import WeakValueDictionary

import verifiers.v1 as vf
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import CallToolResult, TextContent, Tool

from wardian.trainers.client import Client, ServerError
from wardian.trainers.client.link import Server
from wardian.trainers.verifiers.lease import Lease
from wardian.trainers.verifiers.state import WardianState

OVER = "The episode is over; this call was not made."


class WardianToolsetConfig(vf.SharedToolsetConfig):
    server: str = ""
    """Where `wardian serve` listens. (`url` is that of a tool server that verifiers is not to start.)"""


class WardianToolset(vf.Toolset[WardianToolsetConfig, WardianState]):
    TOOL_PREFIX = None  # the model sees the world's own names

    def __init__(self, config: WardianToolsetConfig) -> None:
        super().__init__(config)
        self._client: Client | None = None
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def register(self, mcp: MCPServer) -> None:
        """Answer for the protocol's two methods: tools that are known only when a rollout asks cannot be registered one by one."""
        server = cast(Any, mcp)
        server.list_tools = self._with_state(self.list_tools)
        server.call_tool = self.call_tool

    async def list_tools(self) -> list[Tool]:
        """The tools of the rollout's episode."""
        functions = [tool["function"] for tool in self.state.tools]
        return [Tool(name=one["name"], description=one["description"], input_schema=one["parameters"]) for one in functions]

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context | None = None) -> CallToolResult:
        """Make one call. Those of one rollout are made one after another, whatever the harness does."""
        session = cast(WardianState, await self._pull_state()).session
        async with self._locks.setdefault(session, asyncio.Lock()):
            return cast(CallToolResult, await self._with_state(self._call)(name, arguments))

    async def _call(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        """Never raises what comes from the server: the harness would make the call again."""
        course = self.state.course
        if course.over:
            return _said(OVER, ok=False)
        lease = Lease(self._connected(), self.state.session)
        try:
            turn = await lease.step({"type": "tool_calls", "calls": [{"tool": name, "arguments": arguments}]})
        except ServerError as error:
            course.fail("lost", str(error))
            return _said(OVER, ok=False)
        course.take(turn)
        return _said(turn.text or OVER, ok=turn.failure_kind is None and turn.results[0]["status"] == "ok")

    def _connected(self) -> Client:
        if self._client is None:
            self._client = Client(Server(self.config.server, self.state.token))
            self._exit_stack.push_async_callback(self._client.close)
        return self._client


def _said(text: str, *, ok: bool) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=not ok)


if __name__ == "__main__":
    WardianToolset.run()
