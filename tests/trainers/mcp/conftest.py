"""One form for both clients of the Model Context Protocol, so that the same tests run with mcp 2.3 and mcp 1.30."""

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import pytest

from ..serving import FAULTY, WARDIAN

HERE = Path(__file__).parent
MODERN = version("mcp").startswith("2.")
MODES = ("auto", "legacy") if MODERN else ("legacy",)
"""The sessionless protocol, and the one with a handshake."""


class ProtocolError(Exception):
    """What arrived as an error of the protocol."""

    def __init__(self, code: int, message: str, data: Any) -> None:
        super().__init__(message)
        self.code, self.data = code, data


@dataclass(frozen=True)
class Called:
    texts: list[str]
    structured: Any
    is_error: bool


class Connected:
    """A client that is connected."""

    def __init__(self, client: Any, instructions: str | None, problem: type[Exception]) -> None:
        self._client, self._problem, self.instructions = client, problem, instructions

    async def tools(self) -> dict[str, dict[str, Any]]:
        found = (await self._client.list_tools()).tools
        return {one.name: {"description": one.description, "schema": _either(one, "input_schema", "inputSchema")} for one in found}

    async def call(self, name: str, **arguments: Any) -> Called:
        try:
            result = await self._client.call_tool(name, arguments)
        except self._problem as error:
            raise ProtocolError(error.error.code, error.error.message, error.error.data) from error  # type: ignore[attr-defined]
        texts = [one.text for one in result.content]
        return Called(texts, _either(result, "structured_content", "structuredContent"), _either(result, "is_error", "isError"))

    async def calls(self, *calls: tuple[str, dict[str, Any]]) -> list[Called]:
        """All at once; the answers in the order of the calls."""
        found: dict[int, Called] = {}

        async def one(number: int) -> None:
            found[number] = await self.call(calls[number][0], **calls[number][1])

        async with anyio.create_task_group() as group:
            for number in range(len(calls)):
                group.start_soon(one, number)
                await anyio.sleep(0.05)  # sent in this order
        return [found[number] for number in range(len(calls))]

    async def prompt(self, name: str) -> str:
        return str((await self._client.get_prompt(name)).messages[0].content.text)

    async def resource(self, uri: Any) -> str:
        return str((await self._client.read_resource(uri)).contents[0].text)


def _either(record: Any, modern: str, older: str) -> Any:
    return getattr(record, modern) if hasattr(record, modern) else getattr(record, older)


@asynccontextmanager
async def connected_modern(mode: str, *, command: Sequence[str] = (), url: str = "", token: str = "") -> AsyncIterator[Connected]:
    import httpx2
    from mcp import Client, StdioServerParameters
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared.exceptions import MCPError

    if command:
        parameters = StdioServerParameters(command=command[0], args=list(command[1:]), env=dict(os.environ))
        async with Client(parameters, mode=mode) as client:
            yield Connected(client, client.instructions, MCPError)
        return
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield Connected(client, client.instructions, MCPError)


@asynccontextmanager
async def connected_older(mode: str, *, command: Sequence[str] = (), url: str = "", token: str = "") -> AsyncIterator[Connected]:
    import httpx  # type: ignore[import-not-found] # mcp 2 has another
    from mcp import ClientSession, McpError, StdioServerParameters  # type: ignore[attr-defined] # of mcp 1
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client

    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http:
        if command:
            line: Any = stdio_client(StdioServerParameters(command=command[0], args=list(command[1:]), env=dict(os.environ)))
        else:
            line = streamable_http_client(url, http_client=http)
        async with line as streams, ClientSession(streams[0], streams[1]) as session:
            started = await session.initialize()
            yield Connected(session, started.instructions, McpError)


Connect = Callable[..., AbstractAsyncContextManager[Connected]]


@pytest.fixture
def connect() -> Connect:
    return connected_modern if MODERN else connected_older


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def newest() -> str:
    return MODES[0]


@pytest.fixture(autouse=True)
def worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test world can be loaded, here and by what is started."""
    monkeypatch.syspath_prepend(HERE.parent)
    monkeypatch.setenv("PYTHONPATH", str(HERE.parent))


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """One episode whose word is to be echoed once."""
    return [WARDIAN, "mcp", FAULTY, "echoes/easy/seed-0", "--out", str(tmp_path / "out"), "--checkpoint", "agent-1"]
