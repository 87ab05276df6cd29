"""Episodes over streamable HTTP: one address for each, `/episodes/{session_id}/mcp`, which a bearer token opens.

No session of the protocol is kept. Which episode is meant follows from the address and the token of each request alone, so that a
client may connect as often as it likes, and clients of the sessionless protocol and of those before it find the same episode.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import anyio
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from wardian.tools.contract import Json
from wardian.trainers.mcp.handle import Answer, EpisodeHandle
from wardian.trainers.mcp.server import episode_server

PATH = "/episodes/{session_id}/mcp"
Lookup: TypeAlias = Callable[[str, str], Awaitable[EpisodeHandle | None]]
"""The episode of a session id and a token; `None` when the two open none. Both come from the request as they are."""


def episode_app(lookup: Lookup) -> "EpisodeApp":
    """An ASGI application for the address of an episode, to be mounted as `Route(PATH, episode_app(lookup))`."""
    return EpisodeApp(lookup)


class EpisodeApp:
    """Finds the episode of a request and lets it answer. It has nothing to start and nothing to end."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if request.method != "POST":  # no stream beside the answers, and no session to end
            await JSONResponse({"detail": "POST only"}, 405, {"Allow": "POST"})(scope, receive, send)
            return
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        handle = await self._lookup(scope["path_params"]["session_id"], token) if kind.lower() == "bearer" else None
        if handle is None:
            text = "the bearer token of this episode is needed, and the episode must not have lapsed"
            await JSONResponse({"detail": text}, 401, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
            return
        manager = StreamableHTTPSessionManager(episode_server(_Finishing(handle)), stateless=True)
        async with manager.run():
            await manager.handle_request(scope, receive, send)


class _Finishing:
    """The same episode, whose calls end although their request was given up; they have a bound of their own."""

    def __init__(self, handle: EpisodeHandle) -> None:
        self._handle = handle
        self.schemas, self.instructions = handle.schemas, handle.instructions

    async def call(self, name: str, arguments: Mapping[str, Json]) -> Answer:
        return await _to_its_end(self._handle.call(name, arguments))

    async def refuse(self, raw: str, reason: str) -> Answer:
        return await _to_its_end(self._handle.refuse(raw, reason))

    async def say(self, text: str) -> Answer:
        return await _to_its_end(self._handle.say(text))


async def _to_its_end(asked: Awaitable[Answer]) -> Answer:
    with anyio.CancelScope(shield=True):
        answer = await asked
    return answer  # noqa: RET504 - to a type checker, the scope may end without one
