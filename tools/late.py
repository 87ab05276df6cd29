"""Calls that outlived their caller's patience: the caller has been told `timeout`, and the effect lands later in world time.

They wait in the episode's memory, so that they are in every fingerprint and snapshot, and land in the order of time, then of call. Only
tools that take an idempotency key are ever carried out late: with a key, a call that was repeated meanwhile has been done once.
"""

from dataclasses import asdict, dataclass

from wardian.sandbox.world import World
from wardian.tools.contract import Json

NOTE = "late"


@dataclass(frozen=True, slots=True)
class LateCall:
    """A call on its way."""

    due_ms: int
    """World time at which it lands, milliseconds since the Unix epoch."""
    index: int
    """Number of the call in the episode."""
    tool: str
    args: dict[str, Json]
    agent_id: str


def put(world: World, late: LateCall) -> None:
    """Let `late` wait for its time."""
    waiting: list[dict[str, Json]] = world.memory.notes.setdefault(NOTE, [])
    waiting.append(asdict(late))
    waiting.sort(key=lambda entry: (entry["due_ms"], entry["index"]))


def first(world: World) -> LateCall | None:
    """The one that lands next, without taking it."""
    waiting = world.memory.notes.get(NOTE)
    return LateCall(**waiting[0]) if waiting else None


def take(world: World) -> LateCall:
    """Take the one that lands next; there must be one."""
    waiting = world.memory.notes[NOTE]
    late = LateCall(**waiting.pop(0))
    if not waiting:
        del world.memory.notes[NOTE]
    return late
