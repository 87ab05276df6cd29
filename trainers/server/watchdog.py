"""Ends a server that cannot end by itself, since a tool blocks its thread, and the event loop never comes to the end or waits for it."""

import logging
import os
import signal
import threading
from dataclasses import dataclass
from types import FrameType

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Watchdog:
    """Ends the process `drain_s + end_s` seconds after the first signal, and `end_s` after a second one, if it still runs then."""

    drain_s: float
    end_s: float
    _heard: int = 0

    def watch(self) -> None:
        """Begin to listen, beside the event loop, which must listen already. In the main thread."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._heard += 1
        if self._heard <= 2:
            seconds = self.end_s if self._heard == 2 else self.drain_s + self.end_s
            timer = threading.Timer(seconds, self._end, (number,))
            timer.daemon = True
            timer.start()

    def _end(self, number: int) -> None:
        _log.critical(
            "a tool or another call blocks its thread and keeps the server from its end: it ends now, %g s after its time."
            " What was played is in the trajectories; `wardian reap` removes cells that are left",
            self.end_s,
        )
        os._exit(128 + number)
