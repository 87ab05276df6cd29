"""Faults as part of the world: frozen profiles, seeded draws, and bounds that keep every task solvable.

A call of a known tool takes exactly `DRAWS` numbers from its own stream `faults/<tool>`, whatever the profile, the arguments and the
outcome are. So one tool's calls never shift another's, and the fault-free twin (profile `none`) meets equal streams.

A drawn fault lands only where the tool's contract allows it and the bounds do: at most `max_consecutive` in a row per tool and
`max_total` per episode. A retry therefore works in the end. The one fault that does not go away is a scope that is revoked, and
only scopes that the task's family declared revocable are: there escalating is the right solution.
"""

from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from wardian.sandbox.world import World
from wardian.tools.contract import Json, Source, Tool

DRAWS = 3
"""Numbers that each call takes from its fault stream: which fault, how stale, which scope."""


Rate: TypeAlias = Annotated[float, Field(ge=0, le=1)]


class Fault(StrEnum):
    UNAVAILABLE = "unavailable"
    """Nothing ran; the agent sees `unavailable`."""
    RATE_LIMITED = "rate_limited"
    """Nothing ran; the agent sees `rate_limited`."""
    TIMEOUT_BEFORE = "timeout_before"
    """Nothing ran; the agent sees `timeout`."""
    TIMEOUT_AFTER = "timeout_after"
    """The effect is committed; the agent sees `timeout`."""
    STALE = "stale"
    """A read from an older copy of the database."""
    EMPTY = "empty"
    """A read that comes back as the tool's empty page."""
    SLOW = "slow"
    """Latency times `slow_multiplier`; over the tool's timeout the agent sees `timeout`, and the effect stays."""
    REVOKED = "revoked"
    """A scope that the tool needs is taken away for the rest of the episode, right before this call."""
    MISSING = "missing"
    """As `revoked`, but found at the first call of a tool that needs the scope: it was never there."""


class FaultProfile(BaseModel):
    """Chances per call, and the bounds."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str = Field(min_length=1)
    unavailable: Rate = 0.0
    rate_limited: Rate = 0.0
    timeout_before: Rate = 0.0
    timeout_after: Rate = 0.0
    stale: Rate = 0.0
    empty: Rate = 0.0
    slow: Rate = 0.0
    revoked: Rate = 0.0
    missing: Rate = 0.0
    """Chance, beside the others, at the first call of each tool that needs a revocable scope."""
    latency_multiplier: float = Field(default=1.0, gt=0, le=100)
    """Every latency of the episode is multiplied by it."""
    slow_multiplier: float = Field(default=10.0, ge=1, le=1000)
    max_consecutive: int = Field(default=2, ge=1, le=5)
    """Faults in a row per tool; the call after them is never hit."""
    max_total: int = Field(default=12, ge=0)
    """Faults per episode."""
    max_lag_steps: int = Field(default=4, ge=1)
    """A stale read never shows a copy older than that many steps."""

    @model_validator(mode="after")
    def _rates_leave_room(self) -> "FaultProfile":
        total = sum(self.rate(fault) for fault in Fault)
        if total > 1:
            raise ValueError(f"rates: they are chances of one draw, so their sum must be at most 1, got {total:g}")
        return self

    def rate(self, fault: Fault) -> float:
        """The chance of `fault` per call."""
        return float(getattr(self, fault.value))

    def draw(self, number: float) -> Fault | None:
        """Which fault the number in [0, 1) stands for; faults have fixed places, in the order of `Fault`."""
        edge = 0.0
        for fault in Fault:
            edge += self.rate(fault)
            if number < edge:
                return fault
        return None


NONE = FaultProfile(name="none")
MILD = FaultProfile(name="mild", unavailable=0.01, timeout_before=0.005, timeout_after=0.005, stale=0.01, slow=0.01, max_total=4)
REALISTIC = FaultProfile(
    name="realistic",
    unavailable=0.03,
    rate_limited=0.01,
    timeout_before=0.02,
    timeout_after=0.02,
    stale=0.04,
    empty=0.01,
    slow=0.02,
    revoked=0.005,
    missing=0.01,
    latency_multiplier=1.5,
)
HARSH = FaultProfile(
    name="harsh",
    unavailable=0.09,
    rate_limited=0.03,
    timeout_before=0.06,
    timeout_after=0.06,
    stale=0.12,
    empty=0.03,
    slow=0.06,
    revoked=0.015,
    missing=0.03,
    latency_multiplier=3.0,
    max_total=30,
)
PROFILES = {profile.name: profile for profile in (NONE, MILD, REALISTIC, HARSH)}


@dataclass(frozen=True, slots=True)
class DueFault:
    """A fault that a task demands: certain where any profile but one without faults is in force."""

    tool: str
    call: int
    """Which call of that tool in the episode is hit, from 0."""
    fault: Fault


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """What may happen in one episode."""

    profile: FaultProfile = NONE
    revocable_scopes: tuple[str, ...] = ()
    """Scopes that the task's family says may go away, since escalating then solves the task."""
    spared: tuple[str, ...] = ()
    """Tools that no fault may hit, such as the one to escalate with."""
    due: tuple[DueFault, ...] = ()
    """Faults of the task's own, instead of what the stream would have drawn for those calls."""

    def due_at(self, tool: str, call: int) -> Fault | None:
        """The task's own fault for one call, if faults are in force at all."""
        if not any(self.profile.rate(fault) for fault in Fault):
            return None
        return next((due.fault for due in self.due if (due.tool, due.call) == (tool, call)), None)


@dataclass(frozen=True, slots=True)
class Drawn:
    """What fate holds for one call."""

    fault: Fault | None = None
    lag: float = 0.0
    """Chooses among the older copies, from 0 (newest) to below 1 (oldest)."""
    scope: str = ""
    """The scope that goes away, for `revoked` and `missing`."""


def possible(tool: Tool[Any], plan: FaultPlan, wanted: Fault | None = None) -> frozenset[Fault]:
    """Faults that can hit `tool` under `plan`, from its contract; `wanted` needs no rate of the profile."""
    if tool.name in plan.spared:
        return frozenset()
    found = {Fault.UNAVAILABLE, Fault.RATE_LIMITED, Fault.TIMEOUT_BEFORE, Fault.SLOW}
    if tool.mutates:
        found.add(Fault.TIMEOUT_AFTER)
    if tool.source is Source.REPLICA:
        found.add(Fault.STALE)
    if tool.empty_page is not None:
        found.add(Fault.EMPTY)
    if set(tool.scopes) & set(plan.revocable_scopes):
        found |= {Fault.REVOKED, Fault.MISSING}
    return frozenset(name for name in found if plan.profile.rate(name) > 0 or name is wanted)


def draw(world: World, tool: Tool[Any], plan: FaultPlan) -> Drawn:
    """Take this call's numbers and say which fault is due, if the contract and the bounds allow it.

    Nothing counts as landed until `landed` says so.
    """
    stream: Random = world.streams[f"faults/{tool.name}"]
    which, lag, scope = (stream.random() for _ in range(DRAWS))
    calls = world.memory.call_counts.get(tool.name, 0)
    due = plan.due_at(tool.name, calls)
    fault = due or plan.profile.draw(which)
    if fault is None or fault not in possible(tool, plan, wanted=due):
        return Drawn()
    state = _state(world)
    if state["total"] >= plan.profile.max_total or state["streak"].get(tool.name, 0) >= plan.profile.max_consecutive:
        return Drawn()
    if fault not in (Fault.REVOKED, Fault.MISSING):
        return Drawn(fault, lag)
    if fault is Fault.MISSING and calls > 0:
        return Drawn()
    left = [name for name in tool.scopes if name in plan.revocable_scopes and name not in world.memory.revoked_scopes]
    return Drawn(fault, lag, left[int(scope * len(left))]) if left else Drawn()


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


def _state(world: World) -> dict[str, Json]:
    found: dict[str, Json] = world.memory.notes.setdefault("faults", {"total": 0, "streak": {}})
    return found
