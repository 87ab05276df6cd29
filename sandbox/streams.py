"""Named random streams: one seed and a name give one sequence, so a new consumer never shifts another.

Each stream is `random.Random` (Mersenne Twister) seeded with the BLAKE3 digest of the seed and the name. Its integers and
floats are the same on every platform and every Python from 3.11 on.

A stream counts the 32-bit words that were drawn from it. Seed, name and count are its whole position, so that a fingerprint
after each step costs a few integers and not a hash over 2.5 kB of generator state per stream.
"""

from collections.abc import Mapping
from random import Random

from blake3 import blake3

from wardian.sandbox.errors import SnapshotRefused

MOST_WORDS = 1 << 28
"""That are drawn again to bring streams to their positions: a second or two."""
_BLOCK = 1 << 16


class Stream(Random):
    """A generator that knows how far it has come."""

    words = 0
    """32-bit words drawn so far."""
    gauss_next: float | None

    def random(self) -> float:
        """The next float from 0 to below 1."""
        self.words += 2
        return super().random()

    def getrandbits(self, k: int) -> int:
        """The next integer of `k` bits."""
        self.words += (k + 31) // 32
        return super().getrandbits(k)

    @property
    def position(self) -> tuple[int, float | None]:
        """Words drawn, and the second value that `gauss` keeps for its next call."""
        return self.words, self.gauss_next

    def resume(self, words: int, gauss_next: float | None) -> None:
        """Bring a new generator to a position."""
        while self.words < words:
            self.getrandbits(32 * min(words - self.words, _BLOCK))
        self.gauss_next = gauss_next


def stream(seed: int, name: str) -> Stream:
    """Make the stream `name` of `seed`. Two calls give two equal, independent objects."""
    return Stream(int.from_bytes(blake3(f"{seed}\x00{name}".encode()).digest(), "big"))


class Streams:
    """The streams of one episode, made on first use and part of its fingerprint."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._streams: dict[str, Stream] = {}

    def __getitem__(self, name: str) -> Stream:
        """Give the stream `name`; the same object each time."""
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = stream(self.seed, name)
        return found

    def positions(self) -> dict[str, tuple[int, float | None]]:
        """How far each used stream has come, by name. With the seed it is their whole state."""
        return {name: self._streams[name].position for name in sorted(self._streams)}

    def resume(self, positions: Mapping[str, tuple[int, float | None]]) -> None:
        """Bring every stream to where `positions` says that it was, in place of where it is.

        Raises:
            SnapshotRefused: they are further than any episode comes; nothing was drawn.
        """
        drawn = [words for words, _ in positions.values()]
        if min(drawn, default=0) < 0 or sum(drawn) > MOST_WORDS:
            raise SnapshotRefused(f"streams: {sum(drawn)} words were drawn from them, and 0 to {MOST_WORDS} can be drawn again")
        self._streams = {name: stream(self.seed, name) for name in positions}
        for name, (words, gauss_next) in positions.items():
            self._streams[name].resume(words, gauss_next)

    def digest(self) -> str:
        """Digest of the seed and of every used stream's position, as hex."""
        return blake3(repr((self.seed, self.positions())).encode()).hexdigest(length=16)
