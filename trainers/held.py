"""An asynchronous context, held open in a thread with an event loop of its own, for callers that have none."""

import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

T = TypeVar("T")
R = TypeVar("R")


class Held(Generic[T]):
    """Opens `context` at once and closes it by `close`. The thread is a daemon: a process that ends without `close` is not kept by it."""

    value: T

    def __init__(self, context: AbstractAsyncContextManager[T, bool | None]) -> None:
        """Open it; what opening raises, this raises."""
        opened: Future[tuple[BlockingPortal, T]] = Future()
        self._process = os.getpid()
        self._thread = threading.Thread(target=anyio.run, args=(_hold, context, opened), name="wardian-held", daemon=True)
        self._thread.start()
        self._portal, self.value = opened.result()

    def call(self, function: Callable[..., Awaitable[R]], *args: Any) -> R:
        """Run a coroutine function in that loop, and wait for what it gives.

        Raises:
            RuntimeError: it was closed, or is that of the process which forked this one.
        """
        if self._process != os.getpid():
            raise RuntimeError("opened before this process was forked, and its thread stayed there; open one here")
        if not self._thread.is_alive():
            raise RuntimeError("closed already; open another one")
        return self._portal.call(function, *args)

    def close(self) -> None:
        """Close the context and end the thread. Idempotent."""
        if self._thread.is_alive():
            self._portal.call(self._portal.stop)
            self._thread.join()


async def _hold(context: AbstractAsyncContextManager[T, bool | None], opened: "Future[tuple[BlockingPortal, T]]") -> None:
    try:
        async with BlockingPortal() as portal, context as value:
            opened.set_result((portal, value))
            await portal.sleep_until_stopped()
    except Exception as error:
        if opened.done():
            raise
        opened.set_exception(error)
