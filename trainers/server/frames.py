"""WebSocket: one socket, one lease, frames answered in their order.

A socket without a name has a lease of its own, which ends with it. One with `?session_id=NAME` is tied to the lease of that name, and
leaves it open when it goes: with `create=1` the lease is made where there is none, with `takeover=1` an older socket of it is let go of,
as after a lost connection. A frame of type `close` ends the lease, but not over a socket that is tied to it with neither: OpenEnv's tool
client makes a lease over HTTP, sends `close` whenever it disconnects, and counts on finding the lease again.

A frame may have an `id`; its reply has the same one, and a frame that is sent again with its id gets the reply that was made.
"""

import json
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import anyio
from starlette.websockets import WebSocket, WebSocketDisconnect

from wardian.tools.contract import Json
from wardian.trainers.server import rpc
from wardian.trainers.server.calls import REPLIES, carry_out, id_of
from wardian.trainers.server.problems import Code, Problem, problem_of
from wardian.trainers.server.session import Session
from wardian.trainers.server.sessions import Sessions
from wardian.trainers.server.wire import Lease, checked

_log = logging.getLogger(__name__)
TAKEN_OVER = 4409
LEFT_S = 1.0
"""A socket whose lease has ended is told so if it asks within that; then it is closed."""
CLOSE_CHARS = 512
FRAMES_AHEAD = 16
"""So many frames of one socket are read while one is answered."""

Frame = dict[str, Json]
RPC = "mcp"


@dataclass(slots=True)
class Sockets:
    sessions: Sessions
    _tied: dict[Session, "WebSocket"] = field(default_factory=dict)

    async def serve(self, socket: WebSocket, world: str | None = None) -> None:
        """Answer one socket until it goes."""
        await socket.accept()
        named = socket.query_params.get("session_id")
        try:
            session = await self._tie(socket, world, named)
        except Problem as problem:
            self.sessions.shared.counters.refused(problem.code.value)
            await _say(socket, {"type": "error", "data": problem.body()})
            await _close(socket)
            return
        owned = named is None or bool(socket.query_params.get("create") or socket.query_params.get("takeover"))
        asked_to_close = False
        try:
            asked_to_close = await self._converse(socket, session, ends=named is None) and owned
        finally:
            with anyio.CancelScope(shield=True):
                await self._untie(socket, session, ends=named is None or asked_to_close, why="caller" if asked_to_close else "socket")
                await _close(socket)

    async def _tie(self, socket: WebSocket, world: str | None, named: str | None) -> Session:
        asked = socket.query_params
        if named is None:
            lease = Lease(world=world or asked.get("world"), policy_version=asked.get("policy_version", ""))
            session, _ = self.sessions.lease(lease)
        elif asked.get("create"):
            body = {"session_id": named, "world": world or asked.get("world"), "policy_version": asked.get("policy_version", "")}
            session, _ = self.sessions.lease(checked(Lease, body))
        else:
            session = self.sessions.find(named)
        older = self._tied.get(session)
        if older is not None:
            if not asked.get("takeover"):
                raise Problem(Code.SESSION_ERROR, f"session_id: the lease {named} has a socket already; close that one first", status=409)
            # Not waited for: its peer may be gone, and this one is here.
            self.sessions.shared.tasks.start_soon(_close, older, TAKEN_OVER, "another socket of this lease took over")
            session.sockets -= 1
        self._tied[session] = socket
        session.sockets += 1
        session.had_socket = True
        session.touch()
        return session

    def _loosen(self, socket: WebSocket, session: Session) -> bool:
        """Let go of a socket that is gone; whether it was the lease's."""
        if self._tied.get(session) is not socket:
            return False
        del self._tied[session]
        session.sockets -= 1
        session.touch()
        return True

    async def _untie(self, socket: WebSocket, session: Session, *, ends: bool, why: str) -> None:
        if self._loosen(socket, session) and ends:
            await self.sessions.end_lease(session, why)

    async def _converse(self, socket: WebSocket, session: Session, *, ends: bool) -> bool:
        """Answer frames; whether the caller asked to close the lease.

        Where the lease `ends` with its socket, so does a call under way; else it goes on, for the caller may come back for its reply.
        """
        send, texts = anyio.create_memory_object_stream[str](FRAMES_AHEAD)
        asked = False

        async def read() -> None:
            nonlocal asked
            async with send:
                with suppress(WebSocketDisconnect):
                    while not asked:
                        text = await _received(socket)
                        asked = _closes(text)
                        await send.send(text)
                if ends or asked:
                    group.cancel_scope.cancel()
                else:
                    self._loosen(socket, session)

        async def leave() -> None:
            await session.ended.wait()
            await anyio.sleep(LEFT_S)
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group, texts:
            group.start_soon(read)
            group.start_soon(leave)
            async for text in texts:
                if _closes(text) or not await _say(socket, await self._reply(socket, session, text)):
                    break
            group.cancel_scope.cancel()
        return asked

    async def _reply(self, socket: WebSocket, session: Session, text: str) -> Frame:
        """What to answer to one frame."""
        throttle: Callable[[], None] = socket.scope["wardian.throttle"]
        frame: Frame = {}
        try:
            throttle()
            frame = _frame_of(text)
            answered, data = await self._answer(session, frame)
        except Exception as error:  # noqa: BLE001 - the edge of a call: a broken one must not end its socket
            problem = problem_of(error)
            self.sessions.shared.counters.refused(problem.code.value)
            answered, data = "error", problem.body()
        reply: Frame = {"type": answered, "data": data}
        return {**reply, "id": frame["id"]} if "id" in frame else reply

    async def _answer(self, session: Session, frame: Frame) -> tuple[str, Frame]:
        """Type and data of the reply."""
        kind, data = frame.get("type"), frame.get("data")
        if kind == RPC:
            return RPC, await rpc.answer(self.sessions, {} if data is None else data, session)
        if not isinstance(kind, str) or kind not in REPLIES:
            raise Problem(Code.UNKNOWN_TYPE, f"Unknown message type: {kind!r}; there are {', '.join(REPLIES)}, {RPC}, close")
        return REPLIES[kind], await carry_out(self.sessions, session, kind, data, id_of(frame))


def _closes(text: str) -> bool:
    """Whether a frame closes its lease; nothing waits for the answer to one before it."""
    if len(text) > CLOSE_CHARS or '"close"' not in text:
        return False
    try:
        return bool(_frame_of(text).get("type") == "close")
    except Problem:
        return False


def _frame_of(text: str) -> Frame:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Problem(Code.INVALID_JSON, f"Invalid JSON: {error}") from error
    if not isinstance(found, dict):
        raise Problem(Code.INVALID_JSON, f"Invalid JSON: a frame is an object, and this is {type(found).__name__}")
    if unknown := set(found) - {"type", "data", "id"}:
        raise Problem(Code.VALIDATION_ERROR, f"Invalid message: no field {sorted(unknown)[0]!r}; a frame has type, data and id")
    id_of(found)
    return found


async def _received(socket: WebSocket) -> str:
    message = await socket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1000))
    text = message.get("text")
    return text if text is not None else (message.get("bytes") or b"").decode("utf-8", "replace")


async def _say(socket: WebSocket, reply: dict[str, Json]) -> bool:
    """Send it; whether there is still somebody."""
    try:
        text = json.dumps(reply, allow_nan=False)
    except ValueError as error:  # a reward or a result of a world's own code
        text = json.dumps({"type": "error", "data": problem_of(error).body(), **({"id": reply["id"]} if "id" in reply else {})})
    try:
        await socket.send_text(text)
    except (RuntimeError, OSError, WebSocketDisconnect):
        return False
    return True


async def _close(socket: WebSocket, code: int = 1000, reason: str = "") -> None:
    try:
        await socket.close(code, reason)
    except (RuntimeError, OSError, WebSocketDisconnect):
        _log.debug("a socket was closed already: %s", sys.exc_info()[1])
