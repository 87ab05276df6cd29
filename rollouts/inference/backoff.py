"""How long to wait before a request is made again."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random

FIRST_S, LONGEST_S = 0.5, 30.0
LONGEST_ASKED_S = 120.0
"""No server's Retry-After is waited for longer than this."""


def wait_s(tries: int, asked_s: float | None, rng: Random) -> float:
    """Wait after `tries` requests that failed: twice as long each time, half of it by chance, and never less than was asked.

    What is asked gets a second of chance on top, so that those that were sent away together do not come back together.
    """
    ceiling = min(LONGEST_S, FIRST_S * 2.0 ** min(tries - 1, 16))
    waited = ceiling * (0.5 + 0.5 * rng.random())
    if asked_s is None:
        return waited
    return max(waited, min(asked_s, LONGEST_ASKED_S) + rng.random())


def retry_after_s(header: str | None, now: datetime | None = None) -> float | None:
    """Read a Retry-After header: seconds, or a date; `None` when there is none that can be read."""
    if header is None:
        return None
    if header.strip().isascii() and header.strip().isdigit():
        return float(header)
    try:
        moment = parsedate_to_datetime(header)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())
