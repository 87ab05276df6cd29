"""Date functions that only know the times they are given: no `now`, no host time zone."""

import sqlite3
from collections.abc import Callable

from wardian.sandbox.database.rows import Stored

_DATE_FUNCTIONS = {"date": 0, "time": 0, "datetime": 0, "julianday": 0, "unixepoch": 0, "strftime": 1}
"""Each with the position of its time argument."""
_HOST_WORDS = frozenset({"now", "localtime", "utc"})
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
            if len(arguments) <= position or any(
                isinstance(word, str) and word.strip().lower() in _HOST_WORDS for word in arguments[position:]
            ):
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
