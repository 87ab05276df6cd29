"""The faults by name, with what each does."""

from enum import StrEnum


class Fault(StrEnum):
    """In the order in which a draw meets them; new ones come last, so that the places of the others stay."""

    UNAVAILABLE = "unavailable"
    """Nothing ran; the agent sees `unavailable`."""
    RATE_LIMITED = "rate_limited"
    """Nothing ran; the agent sees `rate_limited`, and again until the world time that it was told."""
    TIMEOUT_BEFORE = "timeout_before"
    """Nothing ran; the agent sees `timeout`."""
    TIMEOUT_AFTER = "timeout_after"
    """The effect is committed; the agent sees `timeout`."""
    STALE = "stale"
    """A read from an older copy of the database."""
    EMPTY = "empty"
    """A read that comes back as the tool's empty page."""
    SLOW = "slow"
    """Latency times `slow_multiplier`; over the caller's timeout the agent sees `timeout`, and the effect stays or lands later."""
    REVOKED = "revoked"
    """A scope that the tool needs is taken away, right before this call."""
    MISSING = "missing"
    """As `revoked`, but found at the first call of a tool that needs the scope: it was never there."""
    PARTIAL = "partial"
    """A page that is cut short, with the cursor of what is left."""
    DUPLICATE = "duplicate"
    """The call is delivered twice. Without an idempotency key it has its effect twice; the agent sees one answer."""
    CONFLICT = "conflict"
    """Someone else changed what the call was about to write: `conflict`, and nothing is written."""
    LAGGING = "lagging"
    """The write is done, and replicas show the state before it for a while."""
