"""Named random streams: one seed and a name give one sequence, so a new consumer never shifts another.

Each stream is `random.Random` (Mersenne Twister) seeded with the BLAKE3 digest of the seed and the name. Its integers and
floats are the same on every platform and every Python from 3.11 on.
"""

from random import Random

from blake3 import blake3


def stream(seed: int, name: str) -> Random:
    """Make the stream `name` of `seed`. Two calls give two equal, independent objects."""
    return Random(int.from_bytes(blake3(f"{seed}\x00{name}".encode()).digest(), "big"))


class Streams:
    """The streams of one episode, made on first use and part of its fingerprint."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._streams: dict[str, Random] = {}

    def __getitem__(self, name: str) -> Random:
        """Give the stream `name`; the same object each time."""
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = stream(self.seed, name)
        return found

    def digest(self) -> str:
        """Digest of the seed and of every used stream's position, as hex."""
        hasher = blake3(str(self.seed).encode())
        for name in sorted(self._streams):
            hasher.update(repr((name, self._streams[name].getstate())).encode())
        return hasher.hexdigest(length=16)
