"""Virtual time: it starts where the task says, and advances only when told to. Nothing waits for real."""

from datetime import UTC, datetime, timedelta


class WorldClock:
    """The time of one world, in whole milliseconds since the Unix epoch (UTC)."""

    def __init__(self, start: datetime) -> None:
        """Start at `start`, which must carry a time zone.

        Raises:
            ValueError: `start` is naive.
        """
        if start.utcoffset() is None:
            raise ValueError("start: a world clock needs an aware datetime; add tzinfo=UTC")
        self.now_ms = round(start.timestamp() * 1000)
        self.start_ms = self.now_ms

    @property
    def now(self) -> datetime:
        """The world's time, aware, UTC."""
        return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=self.now_ms)

    @property
    def elapsed_ms(self) -> int:
        """Virtual milliseconds since the start."""
        return self.now_ms - self.start_ms

    def resume(self, now_ms: int) -> None:
        """Go on at a time that this clock, or one of the same start, has shown.

        Raises:
            ValueError: it lies before the start.
        """
        if now_ms < self.start_ms:
            raise ValueError(f"now_ms: {now_ms} lies before the start, {self.start_ms}")
        self.now_ms = now_ms

    def advance(self, by_ms: int) -> None:
        """Move on by `by_ms` milliseconds.

        Raises:
            ValueError: `by_ms` is negative.
        """
        if isinstance(by_ms, bool) or not isinstance(by_ms, int) or by_ms < 0:
            raise ValueError(f"by_ms: world time moves on by whole milliseconds, never backwards; got {by_ms!r}")
        self.now_ms += by_ms
