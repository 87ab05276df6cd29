"""The one way in which an agent's call reaches a world.

Parse, limits, permission, fault before, one transaction, fault after, latency, event: in this order, for every tool. What an agent can
cause comes back as data. What raises is ours: `SandboxError` (infrastructure) or `ToolBroken` (a tool's author).
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from wardian.sandbox.world import World
from wardian.tools import faults, keys, late, outcomes, pages, rates
from wardian.tools.attempt import Attempt
from wardian.tools.contract import Arguments, CallEvent, Json, Source, Status, Tool, ToolCall, ToolResult
from wardian.tools.encoding import RESULT_CAP_CHARS, encode
from wardian.tools.errors import ToolMisdeclared
from wardian.tools.faults import Drawn, Fault, FaultPlan
from wardian.tools.late import LateCall
from wardian.tools.loading import Kind, Rejected
from wardian.tools.outcomes import Outcome
from wardian.tools.parsing import parse
from wardian.tools.replicas import HeldCopy, Replicas
from wardian.tools.running import Runner
from wardian.tools.schemas import openai_schema

UNKNOWN = "?"
"""Under this name calls of tools that do not exist are counted."""
TOO_EARLY = "too_early"
"""Problem of a call to a tool that had said when it takes calls again."""
OVER_RATE = "over_rate"
"""Problem of a call beyond the tool's declared rate."""


class Toolbox:
    """The tools of one episode. Make one per episode and close it after; calls run one at a time."""

    def __init__(
        self,
        tools: Iterable[Tool[Any]],
        plan: FaultPlan = FaultPlan(),  # noqa: B008 - frozen
        *,
        scopes_of: Callable[[World, str], frozenset[str]] = lambda world, agent_id: frozenset(),
        revoke: Callable[[World, str, str], None] | None = None,
        result_cap_chars: int = RESULT_CAP_CHARS,
    ) -> None:
        """Take `tools` in their order; `scopes_of` reads from world state what an agent holds.

        `revoke` takes a scope of an agent out of world state, at the latest before the next call. `None`: what is revoked is kept in the
        episode's memory, and taken off here.

        Raises:
            ToolMisdeclared: two tools have one name, or one has a rate limit and none lets time pass.
        """
        self.tools = _by_name(tools)
        sources = {tool.source for tool in self.tools.values()}
        self.plan = replace(plan, can_wait=Source.CLOCK in sources, has_replica=Source.REPLICA in sources)
        self.result_cap_chars = result_cap_chars
        self._scopes_of = scopes_of
        self._revoke = revoke
        self._replicas = Replicas(plan.profile.max_lag_steps)
        self._runner = Runner(self.plan, self._replicas, result_cap_chars)
        limited = [tool.name for tool in self.tools.values() if tool.rate_limit]
        if limited and not self.plan.can_wait:
            raise ToolMisdeclared(f"{limited[0]}: rate_limit: the agent cannot let time pass; add the tool `wait` (packs/waiting.py)")

    def schemas(self) -> tuple[dict[str, Json], ...]:
        """All tools in the OpenAI function format, in order."""
        return tuple(openai_schema(tool) for tool in self.tools.values())

    async def call(self, world: World, call: ToolCall, *, agent_id: str, step: int) -> tuple[ToolResult, CallEvent]:
        """Run one call against `world`, advancing its clock and streams.

        Cancelling it rolls the transaction back.

        Raises:
            ToolBroken: the tool's own code is at fault; its transaction was rolled back.
            SandboxError: the infrastructure failed.
        """
        attempt = Attempt.begin(world, call, agent_id, step)
        outcome = await self._outcome(attempt, call)
        world.clock.advance(attempt.total_ms)
        return attempt.result(outcome), attempt.event(outcome)

    def late_ms(self, world: World) -> int | None:
        """World time at which the next call lands whose caller gave up; `None` when there is none."""
        waiting = late.first(world)
        return waiting.due_ms if waiting else None

    async def land(self, world: World, step: int) -> CallEvent:
        """Let that call take effect; gives its line for the log. There must be one.

        Raises:
            ToolBroken, SandboxError: as `call`.
        """
        found = late.take(world)
        tool, call = self.tools[found.tool], ToolCall(found.tool, found.args)
        attempt = Attempt(world, call, found.agent_id, step, found.index, found.due_ms, found.args, landed=True)
        if outcome := keys.known(attempt, tool):
            return attempt.event(outcome)
        parsed = parse(tool.arguments, found.args)
        assert not isinstance(parsed, Rejected), "they were accepted when the call came in"
        outcome = await self._runner.outcome(attempt, tool, parsed.arguments)
        if attempt.committed:
            keys.remember(attempt, tool, outcome.content)
        return attempt.event(outcome)

    def holding(self, world: World, step: int) -> AbstractContextManager[None]:
        """Around whatever else changes the database, such as background events: stale reads may then show what was before."""
        return self._runner.holding(world, step)

    @property
    def older(self) -> tuple[HeldCopy, ...]:
        """Older copies of the database that replicas may show, oldest first. With the world's memory they are all that a toolbox keeps."""
        return self._replicas.held

    def adopt(self, copies: Sequence[HeldCopy]) -> None:
        """Hold `copies` in place of those of this toolbox, to go on where another one was."""
        self._replicas.adopt(copies)

    def close(self) -> None:
        """Let go of older database copies. Idempotent."""
        self._replicas.close()

    async def _outcome(self, attempt: Attempt, call: ToolCall) -> Outcome:
        counts = attempt.world.memory.call_counts
        tool = self.tools.get(call.tool)
        if tool is None:
            counts[UNKNOWN] = counts.get(UNKNOWN, 0) + 1
            return _rejected(attempt, outcomes.unknown_tool(call.tool, self.tools))
        attempt.drawn = faults.draw(attempt.world, tool, self.plan)
        latency_ms = self._latency(attempt.world, tool, attempt.drawn)
        counts[tool.name] = counts.get(tool.name, 0) + 1
        found = parse(tool.arguments, call.args)
        if isinstance(found, Rejected):
            return _rejected(attempt, found)
        attempt.after = pages.after(attempt.world, tool, found.arguments)
        if isinstance(attempt.after, Rejected):
            return _rejected(attempt, attempt.after)
        attempt.latency_ms, attempt.args, attempt.repaired = latency_ms, found.values, found.repaired
        if limited := self._limited(attempt, tool):
            return limited
        outcome = await self._answer(attempt, tool, found.arguments)
        faults.landed(attempt.world, tool.name, attempt.fault)
        return outcome

    def _latency(self, world: World, tool: Tool[Any], drawn: Drawn) -> int:
        base_ms = world.streams[f"latency/{tool.name}"].randint(tool.latency.low_ms, tool.latency.high_ms)
        scaled_ms = round(base_ms * self.plan.profile.latency_multiplier)
        if drawn.fault is Fault.SLOW:
            return round(scaled_ms * self.plan.profile.slow_multiplier)
        # A profile may slow every call down, but not so that a call which would be answered never is.
        return min(scaled_ms, max(base_ms, self.plan.patience_ms(tool)))

    def _limited(self, attempt: Attempt, tool: Tool[Any]) -> Outcome | None:
        """The answer to a call that comes too early. No fault is used up by it, and none is forgotten."""
        world = attempt.world
        for problem, wait_ms in ((TOO_EARLY, faults.shut_ms(world, tool.name)), (OVER_RATE, rates.wait_ms(world, tool))):
            if wait_ms > 0:
                attempt.problem = problem
                return outcomes.rate_limited(tool, max(0, wait_ms - attempt.latency_ms))
        rates.count(world, tool)
        return None

    async def _answer(self, attempt: Attempt, tool: Tool[Any], arguments: Arguments) -> Outcome:
        if missing := self._missing_scopes(attempt, tool):
            return outcomes.denied(tool, missing)
        if before := self._fault_before(attempt, tool):
            return before
        if known := keys.known(attempt, tool):
            return self._fault_after(attempt, tool, known)
        if self.plan.lands_late(tool) and attempt.latency_ms > self._limit_ms(attempt, tool):
            return self._put_off(attempt, tool)
        outcome = await self._runner.outcome(attempt, tool, arguments)
        if attempt.committed:
            keys.remember(attempt, tool, outcome.content)
            if attempt.drawn.fault is Fault.DUPLICATE:
                await self._deliver_again(attempt, tool, arguments)
        return self._fault_after(attempt, tool, outcome)

    def _missing_scopes(self, attempt: Attempt, tool: Tool[Any]) -> set[str]:
        if not tool.scopes:
            return set()
        world, scope = attempt.world, attempt.drawn.scope
        held = self._scopes_of(world, attempt.agent_id) - set(world.memory.revoked_scopes)
        if scope in held:  # else there is nothing to take away
            if self._revoke is None:
                world.memory.revoked_scopes.append(scope)
            else:
                self._revoke(world, attempt.agent_id, scope)
            faults.revoked(world, scope)
            held -= {scope}
            attempt.fault = attempt.drawn.fault
        return set(tool.scopes) - held

    def _fault_before(self, attempt: Attempt, tool: Tool[Any]) -> Outcome | None:
        fault = attempt.drawn.fault
        if fault not in (Fault.UNAVAILABLE, Fault.RATE_LIMITED, Fault.TIMEOUT_BEFORE):
            return None
        attempt.fault = fault
        if fault is Fault.TIMEOUT_BEFORE:
            return self._timed_out(attempt, tool)
        if fault is Fault.UNAVAILABLE:
            return outcomes.unavailable(tool)
        return self._shut(attempt, tool)

    def _shut(self, attempt: Attempt, tool: Tool[Any]) -> Outcome:
        """Take no more calls of `tool` for a while, which counts from the answer on. Without a way to wait it is over at once."""
        if not self.plan.can_wait:
            return outcomes.rate_limited(tool, 0)
        profile = self.plan.profile
        for_ms = attempt.drawn.span_ms(profile.retry_after_min_ms, profile.retry_after_max_ms)
        faults.shut(attempt.world, tool.name, attempt.latency_ms + for_ms)
        return outcomes.rate_limited(tool, for_ms)

    def _limit_ms(self, attempt: Attempt, tool: Tool[Any]) -> int:
        """How long the caller waits for this call."""
        asked_ms = attempt.args.get(tool.timeout_argument) if tool.timeout_argument else None
        limit_ms = self.plan.patience_ms(tool)
        return limit_ms if asked_ms is None else min(limit_ms, asked_ms)

    def _timed_out(self, attempt: Attempt, tool: Tool[Any]) -> Outcome:
        attempt.latency_ms = self._limit_ms(attempt, tool)
        return outcomes.timed_out(tool, attempt.latency_ms)

    def _put_off(self, attempt: Attempt, tool: Tool[Any]) -> Outcome:
        attempt.fault = Fault.SLOW if attempt.drawn.fault is Fault.SLOW else None
        due_ms = attempt.at_ms + attempt.latency_ms
        late.put(attempt.world, LateCall(due_ms, attempt.index, tool.name, attempt.args, attempt.agent_id))
        return self._timed_out(attempt, tool)

    async def _deliver_again(self, attempt: Attempt, tool: Tool[Any], arguments: Arguments) -> None:
        """The same call once more. With a key it is known by now."""
        attempt.fault = Fault.DUPLICATE
        if keys.known(attempt, tool):
            return
        again = replace(attempt, drawn=Drawn(), committed=False, context=None)
        await self._runner.outcome(again, tool, arguments)
        if again.committed and again.context and attempt.context:
            attempt.context.effects += again.context.effects

    def _fault_after(self, attempt: Attempt, tool: Tool[Any], outcome: Outcome) -> Outcome:
        fault = attempt.drawn.fault
        if fault is Fault.SLOW:
            attempt.fault = fault
        if fault is Fault.TIMEOUT_AFTER and attempt.committed:
            attempt.fault = fault
        if attempt.latency_ms > self._limit_ms(attempt, tool) or attempt.fault is Fault.TIMEOUT_AFTER:
            return self._timed_out(attempt, tool)
        if fault is Fault.EMPTY and outcome.status is Status.OK and outcome.content != tool.empty_page:
            attempt.fault = fault
            return Outcome(Status.OK, encode(tool.empty_page))
        return outcome


def _by_name(tools: Iterable[Tool[Any]]) -> dict[str, Tool[Any]]:
    found: dict[str, Tool[Any]] = {}
    for tool in tools:
        if tool.name in found:
            raise ToolMisdeclared(f"tools: two tools are named {tool.name!r}")
        found[tool.name] = tool
    return found


def _rejected(attempt: Attempt, problem: Rejected) -> Outcome:
    attempt.problem = Kind.UNKNOWN_TOOL.value if problem.kind is Kind.UNKNOWN_TOOL else str(problem)
    return outcomes.rejected(problem)
