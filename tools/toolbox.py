"""The one way in which an agent's call reaches a world.

Parse, permission, fault before, one transaction, fault after, latency, event: in this order, for every tool. What an agent can cause
comes back as data. What raises is ours: `SandboxError` (infrastructure) or `ToolBroken` (a tool's author).
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.orm import Session

from wardian.sandbox.database.base import WorldDatabase
from wardian.sandbox.errors import DatabaseProblem, FileProblem, SandboxError
from wardian.sandbox.world import World
from wardian.tools import faults, outcomes
from wardian.tools.contract import Arguments, CallEvent, Json, Refusal, Source, Status, Tool, ToolCall, ToolContext, ToolResult
from wardian.tools.encoding import RESULT_CAP_CHARS, capped, encode, text
from wardian.tools.errors import ToolBroken, ToolError, ToolMisdeclared
from wardian.tools.faults import Drawn, Fault, FaultPlan
from wardian.tools.loading import MAX_CHARS, Kind, Rejected
from wardian.tools.outcomes import Outcome
from wardian.tools.parsing import parse
from wardian.tools.replicas import Replicas
from wardian.tools.schemas import openai_schema

UNKNOWN = "?"
"""Under this name calls of tools that do not exist are counted."""


@dataclass(slots=True)
class _Attempt:
    """One call on its way, and what will stand about it in the log."""

    world: World
    call: ToolCall
    agent_id: str
    step: int
    index: int
    at_ms: int
    drawn: Drawn = field(default_factory=Drawn)
    latency_ms: int = 0
    args: Json = None
    repaired: str = ""
    problem: str = ""
    fault: Fault | None = None
    """The fault that landed, as opposed to the one that was drawn."""
    committed: bool = False
    stale_step: int | None = None
    context: ToolContext | None = None


class Toolbox:
    """The tools of one episode. Make one per episode and close it after; calls run one at a time."""

    def __init__(
        self,
        tools: Iterable[Tool[Any]],
        plan: FaultPlan = FaultPlan(),  # noqa: B008 - frozen
        *,
        scopes_of: Callable[[World, str], frozenset[str]] = lambda world, agent_id: frozenset(),
        result_cap_chars: int = RESULT_CAP_CHARS,
    ) -> None:
        """Take `tools` in their order; `scopes_of` reads from world state what an agent holds (revoked scopes are taken off here).

        Raises:
            ToolMisdeclared: two tools have one name.
        """
        self.tools: dict[str, Tool[Any]] = {}
        for tool in tools:
            if tool.name in self.tools:
                raise ToolMisdeclared(f"tools: two tools are named {tool.name!r}")
            self.tools[tool.name] = tool
        self.plan = plan
        self.result_cap_chars = result_cap_chars
        self._scopes_of = scopes_of
        self._replicas = Replicas(plan.profile.max_lag_steps)

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
        counts = world.memory.call_counts
        attempt = _Attempt(world, call, agent_id, step, index=sum(counts.values()), at_ms=world.clock.now_ms, args=_loggable(call.args))
        tool = self.tools.get(call.tool)
        if tool is None:
            counts[UNKNOWN] = counts.get(UNKNOWN, 0) + 1
            return self._finished(attempt, self._rejected(attempt, outcomes.unknown_tool(call.tool, self.tools)))
        attempt.drawn = faults.draw(world, tool, self.plan)
        latency_ms = self._latency(world, tool, attempt.drawn)
        counts[tool.name] = counts.get(tool.name, 0) + 1
        found = parse(tool.arguments, call.args)
        if isinstance(found, Rejected):
            return self._finished(attempt, self._rejected(attempt, found))
        attempt.latency_ms, attempt.args, attempt.repaired = latency_ms, found.values, found.repaired
        outcome = await self._answer(attempt, tool, found.arguments)
        faults.landed(world, tool.name, attempt.fault)
        return self._finished(attempt, outcome)

    def holding(self, world: World, step: int) -> AbstractContextManager[None]:
        """Around whatever else changes the database, such as background events: stale reads may then show what was before."""
        if world.database is None or self.plan.profile.stale == 0:
            return nullcontext()
        return self._replicas.holding(world.database, step)

    def fork(self) -> "Toolbox":
        """A toolbox in the same state, for a fork or snapshot of the episode; to be closed on its own."""
        other = Toolbox(self.tools.values(), self.plan, scopes_of=self._scopes_of, result_cap_chars=self.result_cap_chars)
        other._replicas = self._replicas.fork()
        return other

    def close(self) -> None:
        """Let go of older database copies. Idempotent."""
        self._replicas.close()

    def _latency(self, world: World, tool: Tool[Any], drawn: Drawn) -> int:
        base_ms = world.streams[f"latency/{tool.name}"].randint(tool.latency.low_ms, tool.latency.high_ms)
        scaled_ms = round(base_ms * self.plan.profile.latency_multiplier)
        if drawn.fault is Fault.SLOW:
            return round(scaled_ms * self.plan.profile.slow_multiplier)
        # A profile may slow every call down, but not so that a call which would be answered never is.
        return min(scaled_ms, max(base_ms, tool.timeout_ms))

    async def _answer(self, attempt: _Attempt, tool: Tool[Any], arguments: Arguments) -> Outcome:
        if missing := self._missing_scopes(attempt, tool):
            return outcomes.denied(tool, missing)
        if before := self._fault_before(attempt, tool):
            return before
        if known := self._known(attempt, tool):
            return self._fault_after(attempt, tool, known)
        outcome = await self._outcome(attempt, tool, arguments)
        return self._fault_after(attempt, tool, outcome)

    def _missing_scopes(self, attempt: _Attempt, tool: Tool[Any]) -> set[str]:
        if not tool.scopes:
            return set()
        revoked = attempt.world.memory.revoked_scopes
        held = self._scopes_of(attempt.world, attempt.agent_id) - set(revoked)
        if attempt.drawn.scope in held:  # else there is nothing to take away
            revoked.append(attempt.drawn.scope)
            held -= {attempt.drawn.scope}
            attempt.fault = attempt.drawn.fault
        return set(tool.scopes) - held

    def _fault_before(self, attempt: _Attempt, tool: Tool[Any]) -> Outcome | None:
        fault = attempt.drawn.fault
        if fault not in (Fault.UNAVAILABLE, Fault.RATE_LIMITED, Fault.TIMEOUT_BEFORE):
            return None
        attempt.fault = fault
        if fault is Fault.TIMEOUT_BEFORE:
            attempt.latency_ms = tool.timeout_ms
            return outcomes.timed_out(tool)
        return outcomes.unavailable(tool) if fault is Fault.UNAVAILABLE else outcomes.rate_limited(tool)

    def _fault_after(self, attempt: _Attempt, tool: Tool[Any], outcome: Outcome) -> Outcome:
        fault = attempt.drawn.fault
        if fault is Fault.SLOW:
            attempt.fault = fault
        if fault is Fault.TIMEOUT_AFTER and attempt.committed:
            attempt.fault = fault
        if attempt.latency_ms > tool.timeout_ms or attempt.fault is Fault.TIMEOUT_AFTER:
            attempt.latency_ms = tool.timeout_ms
            return outcomes.timed_out(tool)
        if fault is Fault.EMPTY and outcome.status is Status.OK and outcome.content != tool.empty_page:
            attempt.fault = fault
            return Outcome(Status.OK, encode(tool.empty_page))
        return outcome

    async def _outcome(self, attempt: _Attempt, tool: Tool[Any], arguments: Arguments) -> Outcome:
        """Run the handler and turn all that an agent can cause into data."""
        try:
            content = capped(await self._run(attempt, tool, arguments), self.result_cap_chars)
        except Refusal as refusal:
            return self._refused(attempt, tool, refusal)
        except DatabaseProblem as problem:
            return outcomes.database_problem(problem)
        except FileProblem as problem:
            return outcomes.file_problem(problem)
        except (SandboxError, ToolError):
            raise
        except Exception as error:
            raise ToolBroken(tool.name, attempt.args, f"{type(error).__name__}: {error}") from error
        attempt.committed = True
        self._remember(attempt, tool, content)
        return Outcome(Status.OK, content)

    def _refused(self, attempt: _Attempt, tool: Tool[Any], refusal: Refusal) -> Outcome:
        if refusal.status not in (*tool.errors, Status.INVALID_ARGUMENTS):
            raise ToolBroken(tool.name, attempt.args, f"refused with {refusal.status.value}, which it does not declare") from refusal
        try:
            return outcomes.refused(refusal)
        except ValueError as error:
            raise ToolBroken(tool.name, attempt.args, str(error)) from refusal

    async def _run(self, attempt: _Attempt, tool: Tool[Any], arguments: Arguments) -> Json:
        if tool.source in (Source.CELL, Source.QUERY):
            return await self._handle(attempt, tool, arguments, None)
        database = attempt.world.database
        if database is None:
            raise ToolBroken(tool.name, attempt.args, "it works on a database, and this world has none")
        if not tool.mutates:
            return await self._read(attempt, tool, arguments, database)
        with self.holding(attempt.world, attempt.step), database.transaction() as session:
            return await self._handle(attempt, tool, arguments, session)

    async def _read(self, attempt: _Attempt, tool: Tool[Any], arguments: Arguments, database: WorldDatabase) -> Json:
        if attempt.drawn.fault is Fault.STALE:
            copy = self._replicas.older(database, attempt.step, attempt.drawn.lag)
            if copy is not None:
                attempt.fault, attempt.stale_step = Fault.STALE, copy.step
                with copy.database.session() as session:
                    return await self._handle(attempt, tool, arguments, session)
        before = database.fingerprint().root
        with database.transaction() as session:
            content = await self._handle(attempt, tool, arguments, session)
            if session.new or session.dirty or session.deleted:
                raise ToolBroken(tool.name, attempt.args, "it wrote to the database, but declares mutates=False")
        if database.fingerprint().root != before:
            raise ToolBroken(tool.name, attempt.args, "it wrote to the database, but declares mutates=False")
        return content

    async def _handle(self, attempt: _Attempt, tool: Tool[Any], arguments: Arguments, session: Session | None) -> Json:
        attempt.context = ToolContext(attempt.world, attempt.agent_id, session)
        # Encoded inside the transaction: an answer that is no JSON must leave nothing written.
        return encode(await tool.handler(attempt.context, arguments))

    def _known(self, attempt: _Attempt, tool: Tool[Any]) -> Outcome | None:
        """The answer that this idempotency key got before, if it did."""
        key = attempt.args.get(tool.idempotency_key)
        stored = attempt.world.memory.idempotency.get(f"{tool.name}/{key}") if tool.idempotency_key and key is not None else None
        if stored is None:
            return None
        if stored["args"] != attempt.args:
            message = f"{tool.idempotency_key}: {key!r} was used before with other arguments. Use a new key for a new request."
            return Outcome(Status.CONFLICT, message=message)
        return Outcome(Status.OK, stored["content"])

    def _remember(self, attempt: _Attempt, tool: Tool[Any], content: Json) -> None:
        key = attempt.args.get(tool.idempotency_key) if tool.idempotency_key else None
        if key is not None:
            attempt.world.memory.idempotency[f"{tool.name}/{key}"] = {"args": attempt.args, "content": content}

    def _rejected(self, attempt: _Attempt, problem: Rejected) -> Outcome:
        attempt.problem = str(problem)
        if problem.kind is Kind.UNKNOWN_TOOL:
            attempt.problem = Kind.UNKNOWN_TOOL.value
        return outcomes.rejected(problem)

    def _finished(self, attempt: _Attempt, outcome: Outcome) -> tuple[ToolResult, CallEvent]:
        context = attempt.context
        latency_ms = attempt.latency_ms + (context.extra_ms if context else 0)
        attempt.world.clock.advance(latency_ms)
        inexact = context.inexact if context else ""
        result = ToolResult(outcome.status, outcome.content, outcome.message, latency_ms, inexact)
        event = CallEvent(
            index=attempt.index,
            step=attempt.step,
            at_ms=attempt.at_ms,
            tool=text(attempt.call.tool[:200]),
            args=attempt.args,
            status=outcome.status,
            committed=attempt.committed,
            fault=attempt.fault.value if attempt.fault else None,
            latency_ms=latency_ms,
            effects=tuple(context.effects) if context and attempt.committed else (),
            repaired=attempt.repaired,
            agent_id=attempt.agent_id,
            problem=attempt.problem,
            inexact=inexact,
            extra_ms=context.extra_ms if context else 0,
            stale_step=attempt.stale_step,
            attachments=context.attachments if context else {},
        )
        return result, event


def _loggable(raw: Json) -> Json:
    """Arguments as they came, in a form that any log takes. Replaced by the accepted ones when they are accepted."""
    if isinstance(raw, str):
        return raw[:MAX_CHARS]
    try:
        return encode(raw)
    except (ValueError, RecursionError):
        return "(not JSON)"
