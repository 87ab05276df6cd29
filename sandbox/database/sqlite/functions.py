"""Date functions that only know the times they are given: no `now`, no host time zone."""

import sqlite3
from collections.abc import Callable

from wardian.sandbox.database.rows import Stored

_DATE_FUNCTIONS = {"date": 0, "time": 0, "datetime": 0, "julianday": 0, "unixepoch": 0, "strftime": 1}
"""Each with the position of its time argument."""
_HOST_WORDS = frozenset({"now", "localtime", "utc"})
_NOW_WORDS = frozenset({"now", "subsec", "subsecond"})
"""In place of a time, each asks for that of the host (the last two since SQLite 3.42)."""
NO_NOW = "the date functions need a time to work on: 'now', 'localtime' and 'utc' would ask the host, not this world"


class DateFunctions:
    """SQLite's own date functions behind a check of their arguments, run on a connection beside the world's."""

    def __init__(self) -> None:
        self._beside: sqlite3.Connection | None = None
        self.refused = False
        """Set when an argument was refused; empty it before a statement."""

    def install(self, connection: sqlite3.Connection) -> None:
        """Put them in place of those of `connection`."""
        for name, position in _DATE_FUNCTIONS.items():
            connection.create_function(name, -1, self._checked(name, position), deterministic=True)

    def _checked(self, name: str, position: int) -> Callable[..., Stored]:
        def call(*arguments: Stored) -> Stored:
            words = [_word(argument) for argument in arguments[position:]]
            if not words or words[0] in _NOW_WORDS or not _HOST_WORDS.isdisjoint(words):
                self.refused = True
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


def _word(argument: Stored) -> str:
    """What SQLite reads of an argument: a blob as text, everything up to the first NUL, in any case."""
    text = argument.decode("utf-8", "replace") if isinstance(argument, bytes) else argument if isinstance(argument, str) else ""
    return text.split("\x00", 1)[0].strip().lower()
