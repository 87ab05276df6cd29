"""The host's end of the frame protocol: requests to a supervisor over the container's attached stdin and stdout.

A frame is `!IIB` (length of the body, request id, kind) and its body. The engine wraps what comes back in headers of its
own (`BxxxI`: stream, length), which are taken off here. Many requests may be under way at once; each ends with one END frame,
after any DATA frames. Runs on asyncio, under any anyio program with that backend: a transport's callbacks need no task that
would have to be owned by somebody, so a connection can be opened in one task and closed in another.
"""

import asyncio
import json
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

HEADER = struct.Struct("!IIB")
ENGINE_HEADER = struct.Struct("!BxxxI")
REQUEST, DATA, END = 1, 2, 3
CHUNK = 128 * 1024
READY = 0
"""Request id of the supervisor's first, unasked frame."""


class ConnectionLost(Exception):
    """The stream to the supervisor was cut; whatever was under way has an unknown state."""


@dataclass(frozen=True, slots=True)
class Reply:
    result: dict[str, Any]
    data: bytes


class Connection(asyncio.Protocol):
    """One attached supervisor."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._next_id = 1
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._parts: dict[int, list[bytes]] = {}
        self._raw = bytearray()
        self._frames = bytearray()
        self._stderr = bytearray()
        self._lost: str | None = None

    @classmethod
    async def open(cls, sock: socket.socket) -> "Connection":
        """Take over a connected, attached socket."""
        connection = cls()
        connection.expect(READY)
        loop = asyncio.get_running_loop()
        sock.setblocking(False)
        if sock.family == socket.AF_UNIX:
            await loop.create_unix_connection(lambda: connection, sock=sock)
        else:
            await loop.create_connection(lambda: connection, sock=sock)
        return connection

    @property
    def stderr(self) -> str:
        """The last 4 KiB that the supervisor wrote to its stderr: why it died, if it said so."""
        return self._stderr.decode("utf-8", "replace")

    @property
    def lost(self) -> bool:
        return self._lost is not None

    def expect(self, request_id: int) -> "asyncio.Future[Reply]":
        """The future of a reply."""
        future = self._waiting.get(request_id)
        if future is None:
            future = self._waiting[request_id] = asyncio.get_running_loop().create_future()
        return future

    async def request(self, operation: str, blobs: Sequence[bytes] = (), **fields: Any) -> Reply:
        """Send one request and wait for its end. Cancelling asks the chamber to end what was started.

        Raises:
            ConnectionLost: the stream was cut before the reply was whole.
        """
        if self._lost is not None or self._transport is None:
            raise ConnectionLost(self._lost or "not connected")
        request_id = self._take_id()
        future = self.expect(request_id)
        for index, blob in enumerate(blobs):
            view = memoryview(blob)
            for start in range(0, max(len(view), 1), CHUNK):
                self._send(request_id, DATA, bytes([index]) + view[start : start + CHUNK])
        self._send(request_id, REQUEST, json.dumps({"op": operation, **fields}).encode())
        try:
            return await future
        except asyncio.CancelledError:
            if operation == "exec" and not self.lost:
                self._send(self._take_id(), REQUEST, json.dumps({"op": "cancel", "target": request_id}).encode())
            raise
        finally:
            self._waiting.pop(request_id, None)
            self._parts.pop(request_id, None)

    def close(self) -> None:
        """Close the stream, which ends the supervisor. Idempotent."""
        if self._transport is not None:
            self._transport.abort()

    def _take_id(self) -> int:
        request_id = self._next_id
        self._next_id = self._next_id % 0xFFFFFFF0 + 1
        return request_id

    def _send(self, request_id: int, kind: int, body: bytes) -> None:
        assert self._transport is not None
        self._transport.write(HEADER.pack(len(body), request_id, kind) + body)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._raw += data
        at = 0
        while len(self._raw) - at >= ENGINE_HEADER.size:
            stream, size = ENGINE_HEADER.unpack_from(self._raw, at)
            if len(self._raw) - at - ENGINE_HEADER.size < size:
                break
            at += ENGINE_HEADER.size
            part = self._raw[at : at + size]
            at += size
            if stream == 1:
                self._frames += part
            else:
                self._stderr = (self._stderr + part)[-4096:]
        del self._raw[:at]
        self._take_frames()

    def _take_frames(self) -> None:
        at = 0
        while len(self._frames) - at >= HEADER.size:
            size, request_id, kind = HEADER.unpack_from(self._frames, at)
            if len(self._frames) - at - HEADER.size < size:
                break
            body = bytes(self._frames[at + HEADER.size : at + HEADER.size + size])
            at += HEADER.size + size
            future = self._waiting.get(request_id)
            if future is None:
                continue  # its caller was cancelled
            if kind == DATA:
                self._parts.setdefault(request_id, []).append(body)
            elif not future.done():
                future.set_result(Reply(json.loads(body), b"".join(self._parts.pop(request_id, []))))
        del self._frames[:at]

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = f"connection lost, state unknown{f': {exc}' if exc else ''}"
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionLost(self._lost))
                future.exception()  # marked as seen: a caller that was cancelled never looks
