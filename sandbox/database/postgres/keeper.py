"""Keeps spare clones ready, and disconnects and drops used ones, in a thread of its own, so that a reset waits for none of it.

Its work takes processors and locks of the server that a reset needs at the same moment, so it begins when nobody has asked for a clone
or ended one for a while; but it is not put off for long, or those who never rest would find no spare.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from wardian.sandbox.errors import SandboxError

T = TypeVar("T")
RETRY_S = 0.5
REST_S = 0.025
"""How long nobody must have begun or ended anything before work begins; and how long a chore waits at least. A server's process ends some
milliseconds after its connection; a drop that finds it alive sleeps for 100 ms, with every `CREATE DATABASE` of ours behind it."""
PATIENCE_S = 0.1
"""Work begins after this in any case, and then goes on until all of it is done."""
BACKLOG = 8
"""Chores that may wait while spares are made. With more of them, used clones would fill the server faster than they go."""
CLOSE_S = 60.0


class Keeper(Generic[T]):
    """Makes `wanted` spares with `make`, and runs what is handed to `end` and `later`. `start` it, and `close` it."""

    def __init__(self, wanted: int, make: Callable[[], T]) -> None:
        self._wanted, self._make = wanted, make
        self._spares: deque[T] = deque()
        self._ends: deque[Callable[[], None]] = deque()
        self._chores: deque[tuple[float, Callable[[], None]]] = deque()
        """Each with the time from which it may be run."""
        self._changed = threading.Condition()
        self._closing = False
        self._retry_at = self._touched = 0.0
        self._asking = 0
        """Who waits for a clone now."""
        self._due_since: float | None = None
        """Since when there is something to do; `None`: there is nothing."""
        self._working = False
        self._thread = threading.Thread(target=self._work, name="wardian-spares", daemon=True)

    def start(self) -> None:
        """Begin to make spares. Once."""
        self._thread.start()

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Around what a caller does for a clone. Who asks for them faster than they can be dropped does some of it here and now."""
        with self._changed:
            self._asking += 1
            chore = self._chores.popleft()[1] if len(self._chores) > 2 * BACKLOG else None
        try:
            if chore is not None:
                _run(chore)
            yield
        finally:
            with self._changed:
                self._asking -= 1
                self._touched = time.monotonic()
                self._changed.notify()

    def take(self) -> T | None:
        """A spare; `None` when none is ready."""
        with self._changed:
            return self._spares.popleft() if self._spares else None

    @property
    def settled(self) -> bool:
        """Whether all spares are there, and no chore waits or runs."""
        with self._changed:
            return not (self._working or self._ends or self._chores or self._wants())

    def end(self, work: Callable[[], None]) -> None:
        """Run `work`, which gives connections back, soon and before all else: a server's process takes 2 ms to end, and a clone has
        several."""
        with self._changed:
            if not self._closing:
                self._touched = time.monotonic()
                self._ends.append(work)
                self._changed.notify()
                return
        _run(work)

    def hurry(self) -> None:
        """Run here and now what `end` was given: somebody waits for a connection."""
        while True:
            with self._changed:
                if not self._ends:
                    return
                work = self._ends.popleft()
            _run(work)

    def later(self, chore: Callable[[], None]) -> None:
        """Run `chore` soon; what it cannot do is left to `reap`."""
        with self._changed:
            self._chores.append((time.monotonic() + REST_S, chore))
            self._changed.notify()

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
                while (wait_s := self._wait_s(time.monotonic())) != 0:
                    self._changed.wait(wait_s)
                if self._closing and not self._ends and not self._chores:
                    return
                work = self._next(time.monotonic())
                self._working = True
            _run(work)
            with self._changed:
                self._working = False

    def _next(self, now: float) -> Callable[[], None]:
        if self._ends:
            return self._ends.popleft()
        return self._add if self._makes(now) else self._chores.popleft()[1]

    def _wait_s(self, now: float) -> float | None:
        """How long to wait before the next thing is done; `None`: until something changes."""
        if self._closing:
            return 0
        if not self._ends and not self._chores and not self._wants():
            self._due_since = None
            return None
        if self._due_since is None:
            self._due_since = now
        begin = self._due_since + PATIENCE_S
        if not self._asking:
            begin = min(begin, self._touched + REST_S)
        if not self._ends and not self._makes(now):
            begin = max(begin, self._chores[0][0] if self._chores else self._retry_at)
        return max(0, begin - now)

    def _wants(self) -> bool:
        return len(self._spares) < self._wanted and len(self._chores) <= BACKLOG

    def _makes(self, now: float) -> bool:
        """Whether the next thing to do is a spare."""
        return self._wants() and now >= self._retry_at and not self._closing

    def _add(self) -> None:
        try:
            spare = self._make()
        except SandboxError:
            self._retry_at = time.monotonic() + RETRY_S
            return  # whoever asks makes one at once, and hears why not
        with self._changed:
            self._spares.append(spare)


def _run(chore: Callable[[], None]) -> None:
    try:
        chore()
    except SandboxError:
        return  # the server is gone, or `reap` finds what is left
