"""Seeded draws, and the bounds that hold them.

A call of a known tool takes exactly `DRAWS` numbers from its own stream `faults/<tool>`, whatever the profile, the arguments and the
outcome are. So one tool's calls never shift another's, and the fault-free twin (profile `none`) meets equal streams.
"""

from dataclasses import dataclass
from random import Random
from typing import Any

from wardian.sandbox.world import World
from wardian.tools.contract import Json, Tool
from wardian.tools.faults.kinds import Fault
from wardian.tools.faults.plan import FaultPlan, possible

DRAWS = 3
"""Numbers that each call takes from its fault stream: which fault, how much of it, which scope."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """What fate holds for one call."""

    fault: Fault | None = None
    amount: float = 0.0
    """From 0 to below 1: how old a stale read is, how long a limit or a lag lasts, how much of a page is left."""
    scope: str = ""
    """The scope that goes away, for `revoked` and `missing`."""

    def span_ms(self, low_ms: int, high_ms: int) -> int:
        """Whole milliseconds from `low_ms` to `high_ms`, by the amount."""
        return low_ms + int(self.amount * (high_ms - low_ms + 1))


def draw(world: World, tool: Tool[Any], plan: FaultPlan) -> Drawn:
    """Take this call's numbers and say which fault is due, if the contract and the bounds allow it.

    Nothing counts as landed until `landed` says so.
    """
    stream: Random = world.streams[f"faults/{tool.name}"]
    which, amount, scope = (stream.random() for _ in range(DRAWS))
    calls = world.memory.call_counts.get(tool.name, 0)
    due = plan.due_at(tool.name, calls)
    fault = due or plan.profile.draw(which, tool.name)
    if fault is None or fault not in possible(tool, plan, wanted=due):
        return Drawn()
    state = _state(world)
    if state["total"] >= plan.profile.max_total or state["streak"].get(tool.name, 0) >= plan.profile.max_consecutive:
        return Drawn()
    if fault not in (Fault.REVOKED, Fault.MISSING):
        return Drawn(fault, amount)
    if fault is Fault.MISSING and calls > 0:
        return Drawn()
    left = [name for name in tool.scopes if name in plan.revocable_scopes and name not in state["revoked"]]
    return Drawn(fault, amount, left[int(scope * len(left))]) if left else Drawn()


def landed(world: World, tool: str, fault: Fault | None) -> None:
    """Count how a call of `tool` went for the bounds; `None` is a call that no fault hit."""
    if fault is None and "faults" not in world.memory.notes:
        return
    state = _state(world)
    if fault is None:
        state["streak"].pop(tool, None)
    else:
        state["total"] += 1
        state["streak"][tool] = state["streak"].get(tool, 0) + 1


def revoked(world: World, scope: str) -> None:
    """Keep in mind that `scope` was taken away: no scope goes twice, so that one which was granted again stays."""
    _state(world)["revoked"].append(scope)


def shut(world: World, tool: str, for_ms: int) -> None:
    """Let `tool` take no calls for so long from now."""
    _state(world)["shut_until_ms"][tool] = world.clock.now_ms + for_ms


def lag(world: World, root: str, for_ms: int) -> None:
    """Let replicas show the state with that root for so long from now."""
    open_now = [entry for entry in _state(world)["lag"] if entry["until_ms"] > world.clock.now_ms]
    _state(world)["lag"] = [*open_now, {"root": root, "until_ms": world.clock.now_ms + for_ms}]


def lagging(world: World) -> tuple[str, ...]:
    """Roots of the states at which replicas stand still now, the oldest first; empty when they keep up."""
    entries = world.memory.notes.get("faults", {}).get("lag", ())
    return tuple(entry["root"] for entry in entries if entry["until_ms"] > world.clock.now_ms)


def shut_ms(world: World, tool: str) -> int:
    """How long `tool` takes no calls from now on; 0 when it does."""
    until_ms: int = world.memory.notes.get("faults", {}).get("shut_until_ms", {}).get(tool, 0)
    return max(0, until_ms - world.clock.now_ms)


def _state(world: World) -> dict[str, Json]:
    found: dict[str, Json] = world.memory.notes.setdefault(
        "faults", {"total": 0, "streak": {}, "shut_until_ms": {}, "lag": [], "revoked": []}
    )
    return found
