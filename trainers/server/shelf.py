"""Snapshots that are kept for callers, who get their keys and never what is in them: a snapshot holds the truth behind its task."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from wardian.envs.saving import key_of
from wardian.envs.snapshot import Snapshot
from wardian.trainers.episode_log import Line
from wardian.trainers.server.problems import Code, Problem


@dataclass(frozen=True, slots=True)
class Kept:
    """A snapshot, and what belongs to its episode beside the environment's own state."""

    snapshot: Snapshot
    world: str
    components: dict[str, float]
    """Sums of reward components so far."""
    lines: Sequence[Line]
    """Of the trajectory so far."""


@dataclass(slots=True)
class Shelf:
    """Keeps so many, of so many bytes; those that were not used for longest go first."""

    most: int
    most_bytes: int
    _kept: OrderedDict[str, Kept] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size_bytes(self) -> int:
        """Of all that is kept."""
        return self._bytes

    def keep(self, kept: Kept) -> str:
        """Keep a snapshot; gives its key.

        Raises:
            Problem: it alone is more than may be kept.
        """
        size = kept.snapshot.held_bytes
        if size > self.most_bytes:
            raise Problem(Code.VALIDATION_ERROR, f"snapshot: it holds {size} bytes, and this server keeps {self.most_bytes}")
        key = key_of(kept.snapshot)
        self._drop(key)
        while self._kept and (len(self._kept) >= self.most or self._bytes + size > self.most_bytes):
            self._drop(next(iter(self._kept)))
        self._kept[key] = kept
        self._bytes += size
        return key

    def find(self, key: str, world: str) -> Kept:
        """The snapshot with that key.

        Raises:
            Problem: it is not kept, or of another world.
        """
        kept = self._kept.get(key)
        if kept is None:
            raise Problem(Code.VALIDATION_ERROR, f"snapshot: no {key!r} is kept here; the oldest of {self.most} go first", status=404)
        if kept.world != world:
            raise Problem(Code.VALIDATION_ERROR, f"snapshot: {key} is of the world {kept.world}, and this lease of {world}")
        self._kept.move_to_end(key)
        return kept

    def _drop(self, key: str) -> None:
        if (gone := self._kept.pop(key, None)) is not None:
            self._bytes -= gone.snapshot.held_bytes
