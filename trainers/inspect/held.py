"""What many samples share, held open by a task of its own.

Inspect opens and closes from different tasks, and what has a task group, as a pool of cells has, must be left by the task that entered it.
Nothing outlives the event loop: where it ends, its last act is to cancel the task, which closes what it holds.
"""

import asyncio
from collections.abc import Callable, Hashable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


def running_loop() -> asyncio.AbstractEventLoop:
    """The loop that runs here.

    Raises:
        RuntimeError: there is none of asyncio, which cells need; as under trio.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError("Wardian's cells need asyncio: leave INSPECT_ASYNC_BACKEND unset, or set it to asyncio") from None


class Held(Generic[T]):
    """One context, opened when this is made."""

    def __init__(self, context: AbstractAsyncContextManager[T, bool | None]) -> None:
        """Begin to open it.

        Raises:
            RuntimeError: no asyncio loop runs here.
        """
        loop = running_loop()
        self._opened: asyncio.Future[T] = loop.create_future()
        self._closing = asyncio.Event()
        self._task = loop.create_task(self._hold(context), name="wardian-held")

    async def opened(self) -> T:
        """Wait for it; raises what opening raised. Safe to cancel."""
        return await asyncio.shield(self._opened)

    async def close(self) -> None:
        """Leave it; idempotent."""
        self._closing.set()
        await asyncio.wait([self._task])

    async def _hold(self, context: AbstractAsyncContextManager[T, bool | None]) -> None:
        try:
            async with context as value:
                self._opened.set_result(value)
                await self._closing.wait()
        except Exception as error:
            if self._opened.done():
                raise
            self._opened.set_exception(error)


@dataclass(slots=True)
class _Entry(Generic[T]):
    held: Held[T]
    users: int = 0


class Shared(Generic[T]):
    """Contexts by key, for each event loop apart; one is opened for its first user and closed after its last."""

    def __init__(self) -> None:
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Hashable, _Entry[T]]] = WeakKeyDictionary()

    async def take(self, key: Hashable, make: Callable[[], AbstractAsyncContextManager[T, bool | None]]) -> T:
        """Become a user; gives what is held. `give_back` once for each call that did not raise.

        Raises:
            RuntimeError: no asyncio loop runs here.
            Exception: what opening it raised.
        """
        entries = self._entries()
        entry = entries.get(key)
        if entry is None:
            entry = entries[key] = _Entry(Held(make()))
        entry.users += 1
        try:
            return await entry.held.opened()
        except BaseException:
            await self._leave(entries, key, entry)
            raise

    async def get(self, key: Hashable) -> T:
        """What is held for users that there are.

        Raises:
            LookupError: there are none.
        """
        entry = self._entries().get(key)
        if entry is None:
            raise LookupError(f"nothing is held for {key}")
        return await entry.held.opened()

    async def give_back(self, key: Hashable) -> None:
        """Be a user no more; the last one closes it."""
        entries = self._entries()
        if (entry := entries.get(key)) is not None:
            await self._leave(entries, key, entry)

    async def close_all(self) -> None:
        """Close everything of this event loop, whoever uses it."""
        entries = self._entries()
        while entries:
            await entries.popitem()[1].held.close()

    async def _leave(self, entries: dict[Hashable, _Entry[T]], key: Hashable, entry: _Entry[T]) -> None:
        entry.users -= 1
        if entry.users <= 0 and entries.get(key) is entry:
            del entries[key]
            await entry.held.close()

    def _entries(self) -> dict[Hashable, _Entry[T]]:
        return self._loops.setdefault(running_loop(), {})
