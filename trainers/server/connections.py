"""Connections that bring no request in time, or a head without end, are closed.

uvicorn has a bound for those that are idle between two requests, and for no others.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEAD_BYTES = 64 << 10
"""Of a request line and its headers."""
TOO_SLOW, TOO_LONG = "408 Request Timeout", "431 Request Header Fields Too Large"


def timed(request_s: float) -> type[asyncio.Protocol]:
    """uvicorn's protocol, for connections on which the head of each request must be there within `request_s` seconds."""

    class Timed(AutoHTTPProtocol):  # type: ignore[misc, valid-type] # which one it is depends on what is installed
        _until: asyncio.TimerHandle | None = None
        _head_bytes = 0

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            upgraded = self.transport.get_protocol() is not self
            if upgraded or self._answering or self.transport.is_closing():
                self._wait_no_more()
                return
            if self._until is None:
                self._wait()
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self._refuse(TOO_LONG)

        def connection_lost(self, exc: Exception | None) -> None:
            self._wait_no_more()
            super().connection_lost(exc)

        @property
        def _answering(self) -> bool:
            cycle: Any = self.cycle
            return cycle is not None and not cycle.response_complete

        def _wait(self) -> None:
            self._until = self.loop.call_later(request_s, self._refuse, TOO_SLOW)

        def _wait_no_more(self) -> None:
            self._head_bytes = 0
            if self._until is not None:
                self._until.cancel()
                self._until = None

        def _refuse(self, status: str) -> None:
            if not self.transport.is_closing():
                self.transport.write(f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".encode())
                self.transport.close()

    return Timed
