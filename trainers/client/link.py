"""Requests to a server, and one socket for each lease that is made again when it breaks."""

import asyncio
import json
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httpx2
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI
from websockets.frames import CloseCode
from websockets.protocol import State

from wardian.trainers.client.errors import Refused, ServerError, SessionLost, Unreachable, error_of

TAKEN_OVER = 4409
MESSAGE_BYTES = 256 << 20
RECONNECTS = 5
BACK_OFF_S = 0.2
CLOSE_S = 20.0
ANSWER_S = 90.0
"""A server answers every call within its own bound, which is below that."""


@dataclass(slots=True)
class Server:
    """Where a server is, and requests to it. In one event loop."""

    url: str
    token: str | None = field(default=None, repr=False)
    _http: httpx2.AsyncClient | None = None
    _dropped: list[ClientConnection] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not _is_address(self.url):
            raise ValueError(f"url: {self.url!r} is no address of a server; write http://HOST:PORT")
        self.url = self.url.rstrip("/")

    @property
    def headers(self) -> dict[str, str]:
        """Of every request."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Make a request; gives the answer's JSON.

        Raises:
            Unreachable: nobody answers.
            ServerError: as the server says.
        """
        if self._http is None:
            self._http = httpx2.AsyncClient(base_url=self.url, headers=self.headers, timeout=ANSWER_S, trust_env=False)
        try:
            answer = await self._http.request(method, path, json=body)
        except httpx2.HTTPError as error:
            raise Unreachable(f"{self.url}: {type(error).__name__}: {error}; is `wardian serve` running there?") from error
        try:
            found = answer.json()
        except ValueError as error:
            raise ServerError(f"{self.url}{path}: status {answer.status_code}, and no JSON") from error
        if answer.is_success:
            return found
        raise error_of(found if isinstance(found, dict) else {"message": str(found)})

    def drop(self, socket: ClientConnection) -> None:
        """Break a connection off."""
        socket.transport.abort()
        self._dropped = [one for one in self._dropped if one.state is not State.CLOSED]
        self._dropped.append(socket)

    async def close(self) -> None:
        """Idempotent."""
        for socket in self._dropped:
            await socket.wait_closed()
        if self._http is not None:
            await self._http.aclose()
            self._http = None


@dataclass(slots=True)
class Link:
    """The socket of one lease. A call whose reply was lost with the connection is made again with its id, and done once."""

    server: Server
    name: str
    world: str | None
    policy_version: str
    made: bool = False
    """Whether the lease is there already: then it is looked for, and not made anew."""
    tried: bool = False
    """Whether the lease was asked for: then it may be there, with a socket that nobody has any more."""
    closed: bool = False
    _socket: ClientConnection | None = None
    _calls: int = 0
    _mark: str = field(default_factory=lambda: secrets.token_hex(4))
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def open(self) -> None:
        """Connect.

        Raises:
            Unreachable: nobody answers.
        """
        asked = {"session_id": self.name}
        if self.made:
            asked["takeover"] = "1"
        else:
            asked |= {"create": "1", "policy_version": self.policy_version}
            if self.tried:
                asked["takeover"] = "1"
        path = f"/{quote(self.world, safe='')}/ws" if self.world else "/ws"
        url = f"ws{self.server.url.removeprefix('http')}{path}?{urlencode(asked)}"
        self.tried = True
        try:
            self._socket = await connect(
                url, additional_headers=self.server.headers, max_size=MESSAGE_BYTES, compression=None, proxy=None, open_timeout=30
            )
        except (OSError, TimeoutError, InvalidHandshake, InvalidURI, ConnectionClosed) as error:
            raise Unreachable(f"{self.server.url}: {type(error).__name__}: {error}; is `wardian serve` running there?") from error

    async def call(self, kind: str, data: Any = None) -> dict[str, Any]:
        """Send one frame and give its reply, in the caller's order.

        Raises:
            SessionLost: the lease is gone, or another client took it over.
            Unreachable: the connection broke, and could not be made again.
            ServerError: as the server says.
        """
        async with self._lock:
            self._calls += 1
            number = f"{self._mark}-{self._calls}"
            frame = json.dumps({"type": kind, "data": data or {}, "id": number})
            for attempt in range(RECONNECTS + 1):
                try:
                    return await self._exchanged(frame, number)
                except ConnectionClosed as error:
                    self._drop()
                    if error.rcvd is not None and error.rcvd.code == TAKEN_OVER:
                        raise SessionLost(f"{self.name}: {error.rcvd.reason}") from error
                    if error.rcvd is not None and error.rcvd.code == CloseCode.MESSAGE_TOO_BIG:
                        raise Refused(f"{kind}: {len(frame)} characters are more than the server takes at once") from error
                    if attempt == RECONNECTS:
                        raise Unreachable(f"{self.server.url}: the connection broke {attempt + 1} times: {error}") from error
                except Unreachable:
                    if attempt == RECONNECTS:
                        raise
                await asyncio.sleep(BACK_OFF_S * attempt)
            raise AssertionError("the last attempt raises or returns")

    async def _exchanged(self, frame: str, number: str) -> dict[str, Any]:
        if self.closed:
            raise SessionLost(f"{self.name}: this lease was closed")
        if self._socket is None:
            async with self._opening:
                await self.open()
        socket = self._socket
        assert socket is not None
        try:
            with suppress(ConnectionClosed):  # why it was closed may stand in a frame that came before
                await socket.send(frame)
            async with asyncio.timeout(ANSWER_S):
                while True:
                    reply = json.loads(await socket.recv())
                    if reply.get("id") == number:
                        break
                    if "id" not in reply:  # said of the socket itself: there is no such lease, or no room for one
                        self.tried = self.made
                        raise error_of(reply["data"])
        except TimeoutError as error:
            self._drop()
            raise Unreachable(f"{self.server.url}: no answer within {ANSWER_S:g} s") from error
        except asyncio.CancelledError:
            self._drop()  # its reply must not be taken for that of the next call
            raise
        self.made = True
        if reply["type"] == "error":
            raise error_of(reply["data"])
        found: dict[str, Any] = reply["data"]
        return found

    def _drop(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            self.server.drop(socket)

    async def close(self) -> None:
        """End the lease and the socket. Idempotent; a server that is gone is fine."""
        if self.closed:
            await self._ended.wait()
            return
        self.closed = True
        async with self._opening:
            socket, self._socket = self._socket, None
        try:
            told = socket is not None and await _ended_over(socket)
            if not told and (self.made or self.tried):
                await self.server.ask("DELETE", f"/sessions/{self.name}")
        except (ServerError, OSError, TimeoutError):
            pass  # the lease lapses by itself
        finally:
            if socket is not None:
                self.server.drop(socket)
            self._ended.set()


async def _ended_over(socket: ClientConnection) -> bool:
    """Ask for the end of a lease over its socket; whether the server heard it. It closes the socket once the lease is ended."""
    with suppress(ConnectionClosed):
        await socket.send(json.dumps({"type": "close"}))
    async with asyncio.timeout(CLOSE_S):
        await socket.wait_closed()
    return socket.close_code in (CloseCode.NORMAL_CLOSURE, TAKEN_OVER)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
