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
from wardian.tools import outcomes, pages
from wardian.tools.attempt import Attempt
from wardian.tools.contract import Arguments, Json, Refusal, Source, Status, Tool, ToolContext
from wardian.tools.encoding import capped, encode
from wardian.tools.errors import ToolBroken, ToolError
from wardian.tools.faults import Fault, FaultPlan
from wardian.tools.outcomes import Outcome
from wardian.tools.replicas import Replicas

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
        return self.replicas.holding(world.database, step)

    async def _run(self, attempt: Attempt, tool: Tool[Any], arguments: Arguments) -> Json:
        if tool.source not in (Source.PRIMARY, Source.REPLICA):
            return await _handle(attempt, tool, arguments, None)
        database = attempt.world.database
        if database is None:
            raise ToolBroken(tool.name, attempt.args, "it works on a database, and this world has none")
        if not tool.mutates:
            return await self._read(attempt, tool, arguments, database)
        with self.holding(attempt.world, attempt.step), database.transaction() as session:
            return await _handle(attempt, tool, arguments, session)

    async def _read(self, attempt: Attempt, tool: Tool[Any], arguments: Arguments, database: WorldDatabase) -> Json:
        if attempt.drawn.fault is Fault.STALE:
            copy = self.replicas.older(database, attempt.step, attempt.drawn.amount)
            if copy is not None:
                attempt.fault, attempt.stale_step = Fault.STALE, copy.step
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
