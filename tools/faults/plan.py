"""What may happen in one episode: a profile, and what the task and its tools say about it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from wardian.tools.contract import Source, Tool
from wardian.tools.faults.kinds import Fault
from wardian.tools.faults.profile import NONE, FaultProfile


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
    can_wait: bool = False
    """The agent has a tool that lets world time pass; set by the toolbox. Without one, what only time heals does not happen."""

    has_replica: bool = False
    """A tool reads a replica; set by the toolbox."""

    def patience_ms(self, tool: Tool[Any]) -> int:
        """How long the agent's side waits for any call of `tool`; long enough for one that is not slow."""
        given_ms = self.profile.caller_timeout_ms
        return tool.timeout_ms if given_ms is None else min(tool.timeout_ms, max(given_ms, tool.latency.high_ms))

    def lands_late(self, tool: Tool[Any]) -> bool:
        """Whether a call that outlasts its caller has its effect later; not where it could not be repeated safely or waited for."""
        return bool(tool.idempotency_key) and tool.source is Source.PRIMARY and self.can_wait

    def due_at(self, tool: str, call: int) -> Fault | None:
        """The task's own fault for one call, if faults are in force at all."""
        if not self.profile.ever():
            return None
        return next((due.fault for due in self.due if (due.tool, due.call) == (tool, call)), None)

    def may_be_stale(self) -> bool:
        """Whether older copies of the database may be asked for."""
        kinds = (Fault.STALE, Fault.LAGGING)
        return self.profile.ever(*kinds) or any(due.fault in kinds for due in self.due)


def possible(tool: Tool[Any], plan: FaultPlan, wanted: Fault | None = None) -> frozenset[Fault]:
    """Faults that can hit `tool` under `plan`, from its contract; `wanted` needs no rate of the profile."""
    if tool.name in plan.spared or tool.source is Source.CLOCK:
        return frozenset()
    found = {Fault.UNAVAILABLE, Fault.RATE_LIMITED, Fault.TIMEOUT_BEFORE, Fault.SLOW}
    if tool.mutates:
        found.add(Fault.TIMEOUT_AFTER)
    if tool.mutates and tool.source is Source.PRIMARY:
        found |= _of_writes(tool, plan)
    if tool.source is Source.REPLICA:
        found.add(Fault.STALE)
    if tool.empty_page is not None:
        found.add(Fault.EMPTY)
    if tool.paged:
        found.add(Fault.PARTIAL)
    if set(tool.scopes) & set(plan.revocable_scopes):
        found |= {Fault.REVOKED, Fault.MISSING}
    return frozenset(name for name in found if plan.profile.rate(name, tool.name) > 0 or name is wanted)


def powerless(tool: Tool[Any], tools: Iterable[Tool[Any]]) -> frozenset[Fault]:
    """Faults that can never hit `tool`, which is one of `tools`: not by any profile, and whatever scopes a task declares revocable."""
    sources = {one.source for one in tools}
    plan = FaultPlan(revocable_scopes=tool.scopes, can_wait=Source.CLOCK in sources, has_replica=Source.REPLICA in sources)
    return frozenset(fault for fault in Fault if fault not in possible(tool, plan, wanted=fault))


def _of_writes(tool: Tool[Any], plan: FaultPlan) -> set[Fault]:
    found = set()
    if tool.idempotency_key and not tool.idempotent:
        found.add(Fault.DUPLICATE)
    if tool.version_argument or not tool.idempotent:
        found.add(Fault.CONFLICT)
    if plan.has_replica and plan.can_wait:
        found.add(Fault.LAGGING)
    return found
