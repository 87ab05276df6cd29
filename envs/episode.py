"""One running episode: what it works on, what it has spent, and how one action is carried out.

It knows nothing of leases, verdicts or rewards; `wardian.envs.environment` begins, ends and judges it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from wardian.envs.action import Action, Malformed, Message, StepInfo, ToolCalls
from wardian.envs.changes import files_between
from wardian.envs.ending import EndCause, Ending, EndKind
from wardian.envs.errors import StateMismatch
from wardian.envs.family import Family
from wardian.envs.observation import Result, delivered, refused
from wardian.envs.settings import MalformedPolicy
from wardian.envs.snapshot import Snapshot, Spent
from wardian.envs.task import Task
from wardian.envs.verifier import Verdict
from wardian.sandbox.database.base import RowChange
from wardian.sandbox.errors import CellDied
from wardian.sandbox.files import FileChange
from wardian.sandbox.world import World
from wardian.tools.contract import CallEvent, Status, ToolCall
from wardian.tools.events import EventLog
from wardian.tools.loading import MAX_CHARS
from wardian.tools.toolbox import UNKNOWN, Toolbox

INVALID = frozenset({Status.MALFORMED_CALL, Status.UNKNOWN_TOOL, Status.INVALID_ARGUMENTS})
"""Statuses of a call that never reached a tool."""


@dataclass(slots=True)
class Turn:
    """What one action has done so far; whole even when an exception ended it midway."""

    results: list[Result] = field(default_factory=list)
    first_event: int = 0
    counted: int = 0
    """Calls, messages or malformed outputs: what the budget of steps and the step cost count."""
    invalid: int = 0
    inexact: list[str] = field(default_factory=list)
    recomputed: bool = False


@dataclass(slots=True)
class Episode:
    task: Task
    family: Family
    seed: int
    epoch: int
    world: World
    toolbox: Toolbox
    malformed: MalformedPolicy
    cell_tools: frozenset[str]
    """Names of the tools that work in the cell."""
    start_rows: tuple[RowChange, ...] = ()
    """The task's own rows, as changes against the template."""
    start_files: Mapping[str, FileChange] = field(default_factory=dict)
    """The task's own files, as changes against the cell's start."""
    log: EventLog = field(default_factory=EventLog)
    step: int = 0
    spent: Spent = field(default_factory=Spent)
    used_cell: bool = False
    lost: str = ""
    """How the agent killed its cell; empty while it lives."""
    last_files: Mapping[str, FileChange] = field(default_factory=dict)

    async def act(self, action: Action, turn: Turn) -> Ending | None:
        """Carry out `action` and write into `turn` what came of it; gives an ending when it ended the episode."""
        match action:
            case ToolCalls(calls) if calls:
                ending = await self._run(calls, turn)
                if any(call.tool in self.cell_tools for call in calls):
                    await self.world.refresh_files()
                return ending
            case ToolCalls():
                return self._refuse(Malformed("", "There is no tool call in this action; send at least one."), turn)
            case Message():
                turn.results.append(delivered())
                self._count(turn, invalid=False)
                return Ending(EndKind.TERMINATED, EndCause.MESSAGE) if self.family.ends_on_message() else None
            case Malformed():
                return self._refuse(action, turn)

    async def _run(self, calls: tuple[ToolCall, ...], turn: Turn) -> Ending | None:
        """Run the calls in order; those after an ending are not run."""
        for call in calls:
            self.used_cell = self.used_cell or call.tool in self.cell_tools
            result, event = await self.toolbox.call(self.world, call, agent_id=self.task.agent_id, step=self.step)
            self.log.append(event)
            turn.results.append(result.visible())
            if result.inexact:
                turn.inexact.append(f"{call.tool}: {result.inexact}")
            self._count(turn, invalid=result.status in INVALID)
            ending = self._ended_by_calls(turn) or self.over_budget()
            if ending is not None:
                return ending
        return None

    def _refuse(self, action: Malformed, turn: Turn) -> Ending | None:
        turn.results.append(refused(action.reason))
        counts = self.world.memory.call_counts
        event = CallEvent(
            index=sum(counts.values()),
            step=self.step,
            at_ms=self.world.clock.now_ms,
            tool="",
            args=action.raw[:MAX_CHARS],
            status=Status.MALFORMED_CALL,
            committed=False,
            fault=None,
            latency_ms=0,
            agent_id=self.task.agent_id,
            problem=action.reason,
        )
        counts[UNKNOWN] = counts.get(UNKNOWN, 0) + 1
        self.log.append(event)
        self._count(turn, invalid=True)
        return self._ended_by_calls(turn)

    def _count(self, turn: Turn, *, invalid: bool) -> None:
        turn.counted += 1
        turn.invalid += invalid
        self.spent = replace(
            self.spent,
            steps=self.spent.steps + 1,
            virtual_ms=self.world.clock.elapsed_ms,
            invalid_streak=self.spent.invalid_streak + 1 if invalid else 0,
        )

    def _ended_by_calls(self, turn: Turn) -> Ending | None:
        if turn.invalid and self.malformed is MalformedPolicy.TERMINATE:
            return Ending(EndKind.TERMINATED, EndCause.MALFORMED)
        for event in self.log[turn.first_event :]:
            for effect in event.effects if event.committed else ():
                if effect["kind"] in self.family.ends_on_effects:
                    return Ending(EndKind.TERMINATED, effect["kind"])
        return None

    def over_budget(self) -> Ending | None:
        """The ending when a budget is used up."""
        budgets, spent = self.task.budgets, self.spent
        used_up = {
            EndCause.INVALID_STREAK: spent.invalid_streak >= budgets.invalid_streak,
            EndCause.STEPS: spent.steps >= budgets.steps,
            EndCause.TOKENS: spent.tokens >= budgets.tokens,
            EndCause.VIRTUAL_TIME: spent.virtual_ms >= budgets.virtual_s * 1000,
        }
        return next((Ending(EndKind.TRUNCATED, cause) for cause, over in used_up.items() if over), None)

    def lose_cell(self, death: CellDied) -> None:
        """Go on without the cell, which the agent killed; what was last seen of its files stands."""
        self.world.cell = None
        self.lost = str(death)

    def spend_tokens(self, tokens: int) -> None:
        """Count tokens of an observation."""
        self.spent = replace(self.spent, tokens=self.spent.tokens + tokens)

    def recompute(self) -> None:
        """Compare the fingerprint that was kept step by step with one made from every row.

        Raises:
            StateMismatch: they differ; names the tables.
        """
        database = self.world.database
        if database is None:
            return
        wrong = database.fingerprint().differences(database.recompute())
        if wrong:
            raise StateMismatch(f"step {self.step} of {self.task.id}: " + "; ".join(wrong[:5]))

    def info(self, turn: Turn, ending: Ending | None = None, verdict: Verdict | None = None) -> StepInfo:
        """What the trajectory keeps of this step; takes the step's changes, so call it once."""
        before, self.last_files = self.last_files, self.world.files.changes
        return StepInfo(
            step=self.step,
            clock_ms=self.world.clock.now_ms,
            events=self.log[turn.first_event :],
            fingerprint=self.world.fingerprint(),
            database=self.world.database.take_changes() if self.world.database else (),
            files=files_between(before, self.last_files),
            verdict=verdict,
            end_cause=ending.cause if ending else "",
            inexact=(*turn.inexact, *([self.lost] if self.lost else [])),
            recomputed=turn.recomputed,
        )

    def failed_info(self, turn: Turn, ending: Ending) -> StepInfo:
        """The same for a step that failed: nothing is read that may be broken."""
        events = self.log[turn.first_event :]
        return StepInfo(self.step, self.world.clock.now_ms, events, end_cause=ending.cause, inexact=tuple(turn.inexact))

    def snapshot(self) -> Snapshot:
        """The whole state at this tool-call boundary."""
        database = self.world.database
        return Snapshot(
            task_id=str(self.task.id),
            seed=self.seed,
            step=self.step,
            epoch=self.epoch,
            fingerprint=self.world.fingerprint(),
            template_key=database.template_key if database else "",
            rows=database.changes_since_start() if database else (),
            files=dict(self.world.files.changes),
            clock_ms=self.world.clock.now_ms,
            streams=self.world.streams.positions(),
            memory=json.loads(self.world.memory.dump()),
            spent=self.spent,
        )
