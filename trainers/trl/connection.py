"""A client that is opened where it is first needed, and pickles as its address."""

import threading
from typing import Any

import wardian
from wardian.trainers.client import BlockingClient


class Connection:
    """Address and token of a server. Its client is opened by the first use in each process, and closed at that process's end."""

    def __init__(self, url: str, token: str | None = None) -> None:
        """Nothing is sent yet.

        Raises:
            ValueError: `url` is no address of a server.
        """
        wardian.connect(url, token)
        self.url = url
        self._token = token
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._client: BlockingClient | None = None

    def client(self) -> BlockingClient:
        """The client; safe to use from several threads."""
        with self._lock:
            if self._client is None:
                self._client = wardian.connect(self.url, self._token).open()
            return self._client

    def close(self) -> None:
        """End the client, and with it all of its leases. Idempotent; a later use opens another."""
        with self._lock:
            if self._client is not None:
                self._client.close()
            self._client = None

    def __getstate__(self) -> dict[str, Any]:
        return {"url": self.url, "token": self._token}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.url, self._token = state["url"], state["token"]
        self._begin()
