"""Who may ask, how much at once, and how often: one layer around the whole application.

A trainer's token opens everything. Without one everybody who reaches the server is a trainer, which `running` allows on the loopback alone;
there a request must name the loopback as its host and come from no web page, so that a page in a browser on this machine is no trainer.
The tools of an episode, `/episodes/NAME/mcp`, ask for that episode's own token, and open to nothing else.
"""

import hmac
import json
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from math import inf
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import anyio
from limits import RateLimitItemPerSecond
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter
from starlette.responses import JSONResponse

from wardian.trainers.server.counters import Counters
from wardian.trainers.server.options import Limits
from wardian.trainers.server.problems import Code, Problem, answered

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = frozenset({"/health", "/metadata", "/schema", "/openapi.json"})
"""They tell nothing of tasks; load balancers and validators ask for them without a token."""
RPC = "/mcp"
"""Answers in its own form that a token is missing."""
EPISODES = re.compile(r"/episodes/[^/]+/mcp")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
REFUSED = 4401
"""Close code of a socket that was not authorized."""


class Throttle:
    """So many requests of one caller a second."""

    def __init__(self, rate: int) -> None:
        self._limit = RateLimitItemPerSecond(rate)
        self._window = FixedWindowRateLimiter(MemoryStorage())

    def check(self, caller: str) -> None:
        """Count a request.

        Raises:
            Problem: it is one too many.
        """
        if not self._window.hit(self._limit, caller):
            raise Problem(Code.RATE_LIMITED, f"more than {self._limit.amount} requests a second; ask again", retry_after_s=1.0)


class Access:
    """The layer. `app` is what it stands around."""

    def __init__(self, app: App, limits: Limits, token: str | None, counters: Counters, worlds: Iterable[str]) -> None:
        self._app = app
        prefixes = ("", *(f"/{world}" for world in worlds))
        self._open = frozenset(f"{prefix}{path}" for prefix in prefixes for path in OPEN)
        self._rpc = frozenset(f"{prefix}{RPC}" for prefix in prefixes)
        self._token = token
        self._most = limits.message_bytes
        self._request_s = limits.request_s
        self._throttle = Throttle(limits.rate)
        self._counters = counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            self._admit(scope, headers)
            if scope["type"] == "http":
                await self._measured(scope, receive, send, headers)
            else:
                scope["wardian.throttle"] = lambda: self._throttle.check(_caller(scope))
                await self._app(scope, receive, send)
        except Problem as problem:
            self._counters.refused(problem.code.value)
            await _refuse(scope, receive, send, problem, as_rpc=scope["path"] in self._rpc)

    def _admit(self, scope: Scope, headers: dict[bytes, str]) -> None:
        self._throttle.check(_caller(scope))
        path = scope["path"]
        if self._token is None:
            _must_be_local(headers)
        if path in self._open or EPISODES.fullmatch(path) or self._token is None:
            return
        if not hmac.compare_digest(bearer(headers).encode(), self._token.encode()):
            how = "Authorization: Bearer TOKEN, or wardian.connect(url, token)"
            raise Problem(Code.NOT_AUTHORIZED, f"send the trainer's token, the first line of the server's --token-file: {how}")

    async def _measured(self, scope: Scope, receive: Receive, send: Send, headers: dict[bytes, str]) -> None:
        """Let the application answer, unless the body turns out too large: then it reads no further, and what it answers is not sent."""
        stated = headers.get(b"content-length", "0")
        if not stated.isdigit() or int(stated) > self._most:
            raise self._too_large()
        got, whole, late, until = 0, False, False, anyio.current_time() + self._request_s

        async def measured() -> MutableMapping[str, Any]:
            nonlocal got, whole, late
            message: MutableMapping[str, Any] = {"type": "http.disconnect"}
            with anyio.CancelScope(deadline=inf if whole else until) as scope:
                message = await receive()
            late = scope.cancelled_caught
            got += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            return message if got <= self._most else {"type": "http.disconnect"}

        async def sent(message: MutableMapping[str, Any]) -> None:
            if got <= self._most and not late:
                await send(message)

        await self._app(scope, measured, sent)
        if got > self._most:
            raise self._too_large()
        if late:
            raise Problem(Code.VALIDATION_ERROR, f"the body was not there within {self._request_s:g} s", status=408)

    def _too_large(self) -> Problem:
        return Problem(Code.VALIDATION_ERROR, f"the request is larger than {self._most} bytes", status=413)


def bearer(headers: MutableMapping[bytes, str]) -> str:
    """The token of a request; empty where it has none."""
    kind, _, token = headers.get(b"authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def _must_be_local(headers: dict[bytes, str]) -> None:
    host = _host_of(f"//{headers.get(b'host', '')}")
    if host not in LOOPBACK:
        raise Problem(Code.NOT_AUTHORIZED, f"host: {host!r} is not the loopback, and this server has no token", status=403)
    origin = headers.get(b"origin")
    if origin is not None and _host_of(origin) not in LOOPBACK:
        raise Problem(Code.NOT_AUTHORIZED, f"origin: pages of {origin!r} may not ask this server", status=403)


def _host_of(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def _caller(scope: Scope) -> str:
    return str((scope.get("client") or ("",))[0])


async def _refuse(scope: Scope, receive: Receive, send: Send, problem: Problem, *, as_rpc: bool) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": json.dumps({"type": "error", "data": problem.body()})})
        await send({"type": "websocket.close", "code": REFUSED, "reason": problem.message[:120]})
        return
    reply = JSONResponse(rpc_error(problem)) if as_rpc else answered(problem)
    await reply(scope, receive, send)


def rpc_error(problem: Problem) -> dict[str, Any]:
    """As JSON-RPC has it."""
    return {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": problem.message, "data": problem.body()}}
