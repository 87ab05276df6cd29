"""One episode's whole state, as one atomic thing: database, files, clock, streams, and our own per-episode memory.

`World` is what tools act on. It lives from a reset to the end of the episode, holds nothing that outlives it, and its
fingerprint has a leaf for every part, so that nothing can leak without a leaf to show it.
"""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from wardian.sandbox.cell import Cell
from wardian.sandbox.clock import WorldClock
from wardian.sandbox.database.base import WorldDatabase
from wardian.sandbox.errors import LeakDetected
from wardian.sandbox.files import FileChanges
from wardian.sandbox.fingerprint import Fingerprint, digest
from wardian.sandbox.streams import Streams


@dataclass(slots=True)
class EpisodeMemory:
    """What our own code remembers during one episode. Every field is JSON-shaped, so that it can be hashed and saved."""

    revoked_scopes: list[str] = field(default_factory=list)
    call_counts: dict[str, int] = field(default_factory=dict)
    """Calls so far by tool."""
    idempotency: dict[str, Any] = field(default_factory=dict)
    """Results by idempotency key."""
    pending: list[Any] = field(default_factory=list)
    """Background events that are due later, in virtual time."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Further state of a world's own tools."""

    def dump(self) -> str:
        """All fields as one line of JSON with sorted keys."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__}, sort_keys=True, ensure_ascii=True)

    def digest(self) -> str:
        """Digest over all fields."""
        return digest(self.dump().encode())


class World:
    """The state of one episode. Make a new one per episode; `close` it after."""

    def __init__(self, *, start: datetime, seed: int, database: WorldDatabase | None = None, cell: Cell | None = None) -> None:
        self._start, self._seed = start, seed
        self.clock = WorldClock(start)
        self.streams = Streams(seed)
        self.database = database
        if database is not None:
            clock = self.clock
            database.time = lambda: clock.now
        self.cell = cell
        self.memory = EpisodeMemory()
        self.files = FileChanges({})
        """Changed files as of the last `refresh_files`."""

    async def refresh_files(self) -> FileChanges:
        """Look again at which files changed; call it after whatever touched the cell."""
        if self.cell is not None:
            self.files = await self.cell.changes()
        return self.files

    def fingerprint(self) -> Fingerprint:
        """The whole state: `database/<table>`, `files`, `clock`, `streams`, `memory`."""
        leaves = {
            "clock": str(self.clock.now_ms),
            "streams": self.streams.digest(),
            "memory": self.memory.digest(),
            "files": self.files.digest,
        }
        found = Fingerprint(leaves)
        if self.database is not None:
            found = found.joined(self.database.fingerprint().under("database"))
        return found

    def verify_start(self, expected_database: Fingerprint | None) -> Fingerprint:
        """Prove that this is an untouched start state; gives its fingerprint.

        Raises:
            LeakDetected: something of an earlier episode is in it; names what.
        """
        # From what the world was made with, never from what its parts say now: those are what is in doubt.
        expected = World(start=self._start, seed=self._seed).fingerprint()
        if expected_database is not None:
            expected = expected.joined(expected_database.under("database"))
        found = self.fingerprint()
        if found.root != expected.root:
            raise LeakDetected("world", found.differences(expected))
        return found

    def resume(self, now_ms: int, positions: Mapping[str, tuple[int, float | None]], memory: Mapping[str, Any], files: FileChanges) -> None:
        """Go on at a later moment: what `memory` holds is copied. Database and cell come with the world."""
        self.clock.resume(now_ms)
        self.streams.resume(positions)
        self.memory = EpisodeMemory(**copy.deepcopy(dict(memory)))
        self.files = files

    def close(self) -> None:
        """Let go of the database. The cell belongs to its pool."""
        if self.database is not None:
            self.database.close()
