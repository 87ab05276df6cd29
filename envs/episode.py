"""One running episode: what it works on, what happened in it, and what it has spent.

It knows nothing of leases, verdicts or rewards; `wardian.envs.environment` begins, ends and judges it, `wardian.envs.acting` moves it on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from wardian.envs.action import Observation, StepInfo
from wardian.envs.changes import Ledger
from wardian.envs.conversation import Conversation
from wardian.envs.ending import EndCause, Ending, EndKind
from wardian.envs.errors import StateMismatch
from wardian.envs.events import EventHandler, WorldEvent
from wardian.envs.family import Family
from wardian.envs.settings import MalformedPolicy
from wardian.envs.snapshot import Spent
from wardian.envs.task import Task
from wardian.envs.turn import Turn
from wardian.envs.verifier import Verdict
from wardian.sandbox.changes import files_between
from wardian.sandbox.database.base import RowChange
from wardian.sandbox.errors import CellDied
from wardian.sandbox.files import FileChange
from wardian.sandbox.fingerprint import Fingerprint
from wardian.sandbox.world import World
from wardian.tools.events import EventLog
from wardian.tools.toolbox import Toolbox


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
    handlers: Mapping[str, EventHandler] = field(default_factory=dict)
    """Of background events, by kind."""
    conversation: Conversation | None = None
    """With the customer, where the family has one."""
    start_rows: tuple[RowChange, ...] = ()
    """The task's own rows, as changes against the template."""
    start_files: Mapping[str, FileChange] = field(default_factory=dict)
    """The task's own files, as changes against the cell's start."""
    log: EventLog = field(default_factory=EventLog)
    """Calls in their order."""
    background: list[WorldEvent] = field(default_factory=list)
    """What the world did by itself, in order."""
    ledger: Ledger = field(default_factory=Ledger)
    step: int = 0
    ended: bool = False
    spent: Spent = field(default_factory=Spent)
    answer: str = ""
    """The agent's last message."""
    seen: Observation = field(default_factory=lambda: Observation("", 0))
    """What the agent saw last."""
    start_fingerprint: Fingerprint = field(default_factory=lambda: Fingerprint({}))
    """Of the whole state right after the reset."""
    schema_tokens: int = 0
    used_cell: bool = False
    lost: str = ""
    """How the agent killed its cell; empty while it lives."""
    last_files: Mapping[str, FileChange] = field(default_factory=dict)

    def count(self, *, invalid: bool) -> None:
        """Count one call, message or malformed output against the budgets."""
        self.spent = replace(
            self.spent,
            steps=self.spent.steps + 1,
            virtual_ms=self.world.clock.elapsed_ms,
            invalid_streak=self.spent.invalid_streak + 1 if invalid else 0,
        )

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

    def effects_since(self, first_event: int) -> list[str]:
        """Kinds of the effects that calls had, from the event of that number on."""
        return [effect["kind"] for event in self.log[first_event:] if event.committed for effect in event.effects]

    def record_changes(self) -> None:
        """Put what the agent's calls changed into the ledger."""
        if self.world.database is not None:
            self.ledger.add(self.world.database.take_changes())

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
        self.record_changes()
        return StepInfo(
            step=self.step,
            clock_ms=self.world.clock.now_ms,
            events=self.log[turn.first_event :],
            background=tuple(turn.background),
            fingerprint=self.world.fingerprint(),
            database=self.ledger.take_step(),
            files=files_between(before, self.last_files),
            verdict=verdict,
            end_cause=ending.cause if ending else "",
            inexact=(*turn.inexact, *([self.lost] if self.lost else [])),
            recomputed=turn.recomputed,
        )

    def failed_info(self, turn: Turn, ending: Ending) -> StepInfo:
        """The same for a step that failed: nothing is read that may be broken."""
        events = self.log[turn.first_event :]
        return StepInfo(
            self.step,
            self.world.clock.now_ms,
            events,
            background=tuple(turn.background),
            end_cause=ending.cause,
            inexact=tuple(turn.inexact),
        )
