"""Signals that ask a server to end, from the first one to the end of the process.

Handlers are Python's own and not the event loop's, which are taken away with it: a signal that came while cells are removed would kill. A
process that cannot end by itself, since a tool blocks its thread, and the event loop with it, is ended here.
"""

import asyncio
import logging
import os
import signal
import threading
from dataclasses import dataclass, field
from types import FrameType

import anyio

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Watchdog:
    """Ends the process `drain_s + end_s` seconds after the first signal, and `end_s` after a second one, if it still runs then."""

    drain_s: float
    end_s: float
    first: anyio.Event = field(default_factory=anyio.Event)
    second: anyio.Event = field(default_factory=anyio.Event)
    number: int = 0
    """Of the first signal; 0 before there was one."""
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _heard: int = 0

    def watch(self) -> None:
        """Begin to listen, for good. In the main thread."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._heard += 1
        if self._heard > 2:
            return
        self.number = self.number or number
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe((self.first if self._heard == 1 else self.second).set)
        timer = threading.Timer(self.end_s if self._heard == 2 else self.drain_s + self.end_s, self._end)
        timer.daemon = True
        timer.start()

    def _end(self) -> None:
        _log.critical(
            "a tool or another call blocks its thread and keeps the server from its end: it ends now, %g s after its time."
            " What was played is in the trajectories; `wardian reap` removes cells that are left",
            self.end_s,
        )
        os._exit(128 + self.number)


def ended() -> None:
    """Nothing is left to end but the interpreter, which a signal would kill in place of an exit."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
