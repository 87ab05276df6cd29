"""Runs a tool's handler, in one transaction where it has one, and turns all that an agent can cause into data.

What raises is ours: `SandboxError` (infrastructure) or `ToolBroken` (a tool's author).
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from wardian.sandbox.database.base import WorldDatabase
from wardian.sandbox.errors import DatabaseProblem, FileProblem, SandboxError
from wardian.sandbox.world import World
from wardian.tools import faults, outcomes, pages
from wardian.tools.attempt import Attempt
from wardian.tools.contract import Arguments, Json, Refusal, Source, Status, Tool, ToolContext
from wardian.tools.encoding import capped, encode
from wardian.tools.errors import ToolBroken, ToolError
from wardian.tools.faults import Fault, FaultPlan
from wardian.tools.outcomes import Outcome
from wardian.tools.replicas import HeldCopy, Replicas

WROTE = "it wrote to the database, but declares mutates=False"


@dataclass(slots=True)
class Runner:
    """Runs handlers of one episode."""

    plan: FaultPlan
    replicas: Replicas
    result_cap_chars: int

    async def outcome(self, attempt: Attempt, tool: Tool[Any], arguments: Arguments) -> Outcome:
        """Run the handler once.

        Raises:
            ToolBroken: the tool's own code is at fault; its transaction was rolled back.
            SandboxError: the infrastructure failed.
        """
        try:
            content = capped(await self._run(attempt, tool, arguments), self.result_cap_chars)
        except Refusal as refusal:
            return _refused(attempt, tool, refusal)
        except _Overtaken:
            attempt.fault = Fault.CONFLICT
            return outcomes.overtaken(tool)
        except DatabaseProblem as problem:
            return outcomes.database_problem(problem)
        except FileProblem as problem:
            return outcomes.file_problem(problem)
        except (SandboxError, ToolError):
            raise
        except Exception as error:
            raise ToolBroken(tool.name, attempt.args, f"{type(error).__name__}: {error}") from error
        attempt.committed = True
        return Outcome(Status.OK, content)

    def holding(self, world: World, step: int) -> AbstractContextManager[None]:
        """Around whatever changes the database: stale reads may then show what was before."""
        if world.database is None or not self.plan.may_be_stale():
            return nullcontext()
        self.replicas.forget(step, needed=faults.lagging(world))
        return self.replicas.holding(world.database, step)

    async def _run(self, attempt: Attempt, tool: Tool[Any], arguments: Arguments) -> Json:
        if tool.source not in (Source.PRIMARY, Source.REPLICA):
            return await _handle(attempt, tool, arguments, None)
        database = attempt.world.database
        if database is None:
            raise ToolBroken(tool.name, attempt.args, "it works on a database, and this world has none")
        if not tool.mutates:
            return await self._read(attempt, tool, arguments, database)
        before = database.fingerprint().root
        with self.holding(attempt.world, attempt.step), database.transaction() as session:
            content = await _handle(attempt, tool, arguments, session)
            if attempt.drawn.fault is Fault.CONFLICT:
                raise _Overtaken
        if attempt.drawn.fault is Fault.LAGGING and database.fingerprint().root != before:
            self._lag_behind(attempt, before)
        return content

    def _lag_behind(self, attempt: Attempt, root: str) -> None:
        """Let replicas stand still at the state before the write, for a while from its answer on."""
        attempt.fault = Fault.LAGGING
        profile = self.plan.profile
        for_ms = attempt.latency_ms + attempt.drawn.span_ms(profile.lag_min_ms, profile.lag_max_ms)
        faults.lag(attempt.world, root, for_ms)

    def _older(self, attempt: Attempt, database: WorldDatabase) -> HeldCopy | None:
        """The copy that a replica shows in place of the present: where it stands still now, or a stale one."""
        lagging = faults.lagging(attempt.world)
        self.replicas.forget(attempt.step, needed=lagging)
        if lagging:
            return self.replicas.of(lagging[0])
        if attempt.drawn.fault is not Fault.STALE:
            return None
        copy = self.replicas.older(database, attempt.step, attempt.drawn.amount)
        attempt.fault = Fault.STALE if copy else None
        return copy

    async def _read(self, attempt: Attempt, tool: Tool[Any], arguments: Arguments, database: WorldDatabase) -> Json:
        copy = self._older(attempt, database) if tool.source is Source.REPLICA else None
        if copy is not None:
            attempt.stale_step = copy.step
            with copy.database.session() as session:
                return await _handle(attempt, tool, arguments, session)
        before = database.fingerprint().root
        with database.transaction() as session:
            content = await _handle(attempt, tool, arguments, session)
            if session.new or session.dirty or session.deleted:
                raise ToolBroken(tool.name, attempt.args, WROTE)
        if database.fingerprint().root != before:
            raise ToolBroken(tool.name, attempt.args, WROTE)
        return content


class _Overtaken(Exception):
    """Takes a transaction back that someone else's write came before."""


async def _handle(attempt: Attempt, tool: Tool[Any], arguments: Arguments, session: Session | None) -> Json:
    attempt.context = ToolContext(
        attempt.world, attempt.agent_id, session, at_ms=attempt.at_ms if attempt.landed else None, after=attempt.after
    )
    content = await tool.handler(attempt.context, arguments)
    if tool.paged:
        content = _paged(attempt, tool, arguments, content)
    # Encoded inside the transaction: an answer that is no JSON must leave nothing written.
    return encode(content)


def _paged(attempt: Attempt, tool: Tool[Any], arguments: Arguments, page: Json) -> Json:
    if not isinstance(page, pages.Page):
        raise ToolBroken(tool.name, attempt.args, f"it declares paged=True and gave {type(page).__name__}, no Page")
    if attempt.drawn.fault is Fault.PARTIAL:
        whole, page = page, page.cut(attempt.drawn.amount)
        attempt.fault = Fault.PARTIAL if page is not whole else attempt.fault
    return pages.answer(attempt.world, tool, arguments, page)


def _refused(attempt: Attempt, tool: Tool[Any], refusal: Refusal) -> Outcome:
    if refusal.status not in (*tool.errors, Status.INVALID_ARGUMENTS):
        raise ToolBroken(tool.name, attempt.args, f"refused with {refusal.status.value}, which it does not declare") from refusal
    try:
        return outcomes.refused(refusal)
    except ValueError as error:
        raise ToolBroken(tool.name, attempt.args, str(error)) from refusal
