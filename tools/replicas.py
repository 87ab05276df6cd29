"""The lagging replica: real older copies of the world database, held only as long as a stale read may show them.

A copy is taken before whatever may change the database, and kept only if it did change. Copies are immutable, so forks of an
episode share them; each is closed when its last holder lets go.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from wardian.sandbox.database.base import FrozenDatabase, WorldDatabase


@dataclass(frozen=True, slots=True, eq=False)
class HeldCopy:
    database: FrozenDatabase
    step: int
    """The step at which it was the newest state."""
    root: str
    """Root of its canonical fingerprint."""


class Replicas:
    """Older copies of one episode's database, oldest first."""

    def __init__(self, max_lag_steps: int) -> None:
        self.max_lag_steps = max_lag_steps
        self._copies: list[HeldCopy] = []

    @contextmanager
    def holding(self, database: WorldDatabase, step: int) -> Iterator[None]:
        """Hold the state before the block, if the block changes it."""
        before = database.fingerprint().root
        copy = HeldCopy(database.freeze(), step, before)
        try:
            yield
        finally:
            if database.fingerprint().root == before:
                copy.database.close()
            else:
                self._copies.append(copy)

    def forget(self, step: int, needed: Sequence[str]) -> None:
        """Let go of copies that are too old, unless their root is `needed`."""
        old = [copy for copy in self._copies if copy.step < step - self.max_lag_steps and copy.root not in needed]
        for copy in old:
            self._copies.remove(copy)
            copy.database.close()

    def of(self, root: str) -> HeldCopy | None:
        """A copy of the state with that root."""
        return next((copy for copy in self._copies if copy.root == root), None)

    def older(self, database: WorldDatabase, step: int, lag: float) -> HeldCopy | None:
        """The copy that `lag` in [0, 1) chooses, newest first; `None` when no copy both is in reach and differs from now."""
        now = database.fingerprint().root
        usable = [copy for copy in reversed(self._copies) if copy.root != now and copy.step >= step - self.max_lag_steps]
        return usable[int(lag * len(usable))] if usable else None

    @property
    def held(self) -> tuple[HeldCopy, ...]:
        """All copies, oldest first."""
        return tuple(self._copies)

    def adopt(self, copies: Sequence[HeldCopy]) -> None:
        """Hold `copies`, oldest first, in place of what is held; they are closed by this from here on."""
        self.close()
        self._copies = list(copies)

    def close(self) -> None:
        """Let go of every copy. Idempotent."""
        while self._copies:
            self._copies.pop().database.close()
