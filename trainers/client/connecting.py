"""`connect`: where a client begins."""

import atexit
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType

from wardian.trainers.client.blocking import BlockingClient
from wardian.trainers.client.client import Client
from wardian.trainers.client.link import Server
from wardian.trainers.held import Held


@dataclass(slots=True)
class Connecting:
    """A server that is connected to by `with`, `async with`, or `open`."""

    url: str
    token: str | None = field(default=None, repr=False)
    _client: Client | None = None
    _blocking: BlockingClient | None = None

    def open(self) -> BlockingClient:
        """Connect without a block; `close` it, which the end of the process does too."""
        client = BlockingClient(Held(_client(self.url, self.token)))
        atexit.register(client.close)
        return client

    def __enter__(self) -> BlockingClient:
        self._blocking = BlockingClient(Held(_client(self.url, self.token)))
        return self._blocking

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._blocking is not None:
            self._blocking.close()

    async def __aenter__(self) -> Client:
        self._client = Client(Server(self.url, self.token))
        return self._client

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._client is not None:
            await self._client.close()


def connect(url: str, token: str | None = None) -> Connecting:
    """A client of the server at `url`: `with` gives a `BlockingClient`, `async with` a `Client`. `token` is the trainers'.

    Nothing is sent before the first call.

    Raises:
        ValueError: `url` is no address of a server.
    """
    Server(url, token)
    return Connecting(url, token)


@asynccontextmanager
async def _client(url: str, token: str | None) -> AsyncIterator[Client]:
    client = Client(Server(url, token))
    try:
        yield client
    finally:
        await client.close()
