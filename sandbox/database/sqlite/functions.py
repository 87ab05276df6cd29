"""SQLite's own functions that would ask the host: those of dates know only the times that they are given, and there is no chance.

The authorizer is not asked about a column's default, which calls whatever function of that name the connection has.
"""

import sqlite3
from collections.abc import Callable
from datetime import datetime

from wardian.sandbox.database.rows import Stored

_DATE_FUNCTIONS = {"date": 0, "time": 0, "datetime": 0, "julianday": 0, "unixepoch": 0, "strftime": 1}
"""Each with the position of its time argument."""
_HOST_WORDS = frozenset({"now", "localtime", "utc"})
CURRENT = {"current_timestamp": "datetime", "current_date": "date", "current_time": "time"}
"""What these words of SQL are short for, of the time that it is."""
_NOW_WORDS = frozenset({"now", "subsec", "subsecond"})
"""In place of a time, each asks for that of the host (the last two since SQLite 3.42)."""
NO_NOW = "the date functions need a time to work on: 'now', 'localtime' and 'utc' would ask the host, not this world"


NO_CHANCE = "{} is not available; it has no fixed result"
_CHANCE = {"random": 0, "randomblob": 1}
"""Each with how many arguments it takes."""


class HostFunctions:
    """The date functions behind a check of their arguments, run on a connection beside the world's; and those of chance refused."""

    def __init__(self, now: Callable[[], datetime | None] = lambda: None) -> None:
        """`now` gives the world's time, which takes the place of the host's; without one, asking for it is refused."""
        self._now = now
        self._beside: sqlite3.Connection | None = None
        self.refused = ""
        """Why a call was refused last; empty it before a statement."""

    def install(self, connection: sqlite3.Connection) -> None:
        """Put them in place of those of `connection`."""
        for name, position in _DATE_FUNCTIONS.items():
            connection.create_function(name, -1, self._checked(name, position), deterministic=True)
        for name in CURRENT:
            function = self._checked(CURRENT[name], 0)
            connection.create_function(name, 0, function)
        for name, count in _CHANCE.items():
            connection.create_function(name, count, self._refusing(NO_CHANCE.format(name)))

    def _refusing(self, why: str) -> Callable[..., Stored]:
        def call(*arguments: Stored) -> Stored:
            self.refused = why
            raise ValueError(why)

        return call

    def _checked(self, name: str, position: int) -> Callable[..., Stored]:
        def call(*arguments: Stored) -> Stored:
            words = [_word(argument) for argument in arguments[position:]]
            asks = not words or words[0] in _NOW_WORDS or not _HOST_WORDS.isdisjoint(words)
            if asks and (now := self._now()) is not None:
                arguments = _in_the_world(arguments, position, now)
            elif asks:
                self.refused = NO_NOW
                raise ValueError(NO_NOW)
            if self._beside is None:
                self._beside = sqlite3.connect(":memory:", check_same_thread=False)
            marks = ",".join("?" * len(arguments))
            value: Stored = self._beside.execute(f"SELECT {name}({marks})", arguments).fetchone()[0]
            return value

        return call

    def close(self) -> None:
        """Idempotent."""
        if self._beside is not None:
            self._beside.close()
            self._beside = None


def _in_the_world(arguments: tuple[Stored, ...], position: int, now: datetime) -> tuple[Stored, ...]:
    """Arguments with the world's time for the host's. Its zone is UTC, so that turning it into local time changes nothing."""
    before, asked = arguments[:position], list(arguments[position:])
    if not asked or _word(asked[0]) in _NOW_WORDS:
        asked[:1] = [f"{now:%Y-%m-%d %H:%M:%S}.{now.microsecond // 1000:03}", *(asked[:1] if asked and _word(asked[0]) != "now" else [])]
    return (*before, *(one for one in asked if _word(one) not in _HOST_WORDS))


def _word(argument: Stored) -> str:
    """What SQLite reads of an argument: a blob as text, everything up to the first NUL, in any case."""
    text = argument.decode("utf-8", "replace") if isinstance(argument, bytes) else argument if isinstance(argument, str) else ""
    return text.split("\x00", 1)[0].strip().lower()
