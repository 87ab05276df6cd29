"""Keeps spare clones ready and drops used ones, in a thread of its own, so that a reset waits for neither."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from wardian.sandbox.errors import SandboxError

T = TypeVar("T")
RETRY_S = 0.5
BACKLOG = 8
"""Chores that may wait while spares are made. With more of them, used clones would fill the server faster than they go."""
CLOSE_S = 60.0


class Keeper(Generic[T]):
    """Makes `wanted` spares with `make`, and runs what is handed to `later`. `start` it, and `close` it."""

    def __init__(self, wanted: int, make: Callable[[], T]) -> None:
        self._wanted, self._make = wanted, make
        self._spares: deque[T] = deque()
        self._chores: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._failing = False
        self._thread = threading.Thread(target=self._work, name="wardian-spares", daemon=True)

    def start(self) -> None:
        """Begin to make spares. Once."""
        self._thread.start()

    def take(self) -> T | None:
        """A spare; `None` when none is ready."""
        with self._changed:
            self._changed.notify()
            return self._spares.popleft() if self._spares else None

    @property
    def ready(self) -> int:
        """How many spares there are now."""
        return len(self._spares)

    def later(self, chore: Callable[[], None]) -> None:
        """Run `chore` soon; what it cannot do is left to `reap`."""
        with self._changed:
            self._chores.append(chore)
            self._changed.notify()

    def relieve(self) -> None:
        """Run one chore here and now if too many wait: who asks for clones faster than they can be dropped does some of it."""
        with self._changed:
            chore = self._chores.popleft() if len(self._chores) > 2 * BACKLOG else None
        if chore is not None:
            _run(chore)

    def close(self) -> list[T]:
        """End the thread after its chores, and give the spares that are left."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(CLOSE_S)
        return list(self._spares)

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._due():
                    self._changed.wait(RETRY_S if self._failing else None)
                    self._failing = False
                if self._closing and not self._chores:
                    return
                chore = None if self._makes() else self._chores.popleft()
            if chore is None:
                self._add()
            else:
                _run(chore)

    def _due(self) -> bool:
        return bool(self._closing or self._chores or self._makes())

    def _makes(self) -> bool:
        """Whether the next thing to do is a spare."""
        return len(self._spares) < self._wanted and len(self._chores) <= BACKLOG and not self._failing and not self._closing

    def _add(self) -> None:
        try:
            spare = self._make()
        except SandboxError:
            self._failing = True  # whoever asks makes one at once, and hears why not
            return
        with self._changed:
            self._spares.append(spare)


def _run(chore: Callable[[], None]) -> None:
    try:
        chore()
    except SandboxError:
        return  # the server is gone, or `reap` finds what is left
