"""A task: one instance of a family, a pure function of (family, difficulty, seed)."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from enum import StrEnum

from wardian.envs.approvals import Approval
from wardian.envs.errors import TaskError
from wardian.envs.events import PlannedEvent
from wardian.sandbox.files import FileLayer
from wardian.sandbox.fingerprint import digest
from wardian.tools.contract import Json
from wardian.tools.faults import DueFault

VARIATION = re.compile(r"[a-z_]+(\.[a-z0-9_]+)*(\+[a-z_]+(\.[a-z0-9_]+)*)*")
"""Operators with their arguments, such as `distractor.1+fault.lend_item.0.timeout_after`."""


class Difficulty(StrEnum):
    EASY = "easy"
    MEDIUM = "medium"
    HARD = "hard"


@dataclass(frozen=True, slots=True)
class TaskId:
    """Reads `billing-dispute/hard/seed-771`, and a variant of that task `billing-dispute/hard/seed-771+distractor.1`."""

    family: str
    difficulty: Difficulty
    seed: int
    variation: str = ""
    """Operators that were applied to the task, joined by `+`; see `wardian.envs.variants`."""

    def __str__(self) -> str:
        return f"{self.family}/{self.difficulty.value}/seed-{self.seed}{f'+{self.variation}' if self.variation else ''}"

    @classmethod
    def parse(cls, text: str) -> "TaskId":
        """Read an id.

        Raises:
            TaskError: `text` is not of the form `family/difficulty/seed-N`.
        """
        named, plus, variation = text.partition("+")
        parts = named.split("/")
        known = [d.value for d in Difficulty]
        if (
            len(parts) != 3
            or parts[1] not in known
            or not parts[2].startswith("seed-")
            or not parts[2][5:].isascii()
            or not parts[2][5:].isdigit()
            or bool(plus) != bool(VARIATION.fullmatch(variation))
        ):
            raise TaskError(f"task_id: {text!r} is not of the form family/{'|'.join(known)}/seed-N")
        return cls(parts[0], Difficulty(parts[1]), int(parts[2][5:]), variation)


@dataclass(frozen=True, slots=True)
class Budgets:
    steps: int = 30
    tokens: int = 60_000
    """Of the prompt (tool schemas and first observation) and of all later observations. What the agent writes is not counted."""
    virtual_s: int = 4 * 3600
    invalid_streak: int = 6
    """That many malformed or invalid calls in a row end the episode as truncated."""


@dataclass(frozen=True, slots=True)
class Task:
    id: TaskId
    instruction: str
    """What the agent reads first, beside policy text and tool schemas."""
    start: datetime
    """World time at the first step; aware, UTC."""
    parameters: Mapping[str, Json]
    """What the generator drew: the truth behind the task. Never shown to an agent."""
    rows: Mapping[str, tuple[Mapping[str, object], ...]] = field(default_factory=dict)
    """Rows to add to the template's clone, by table, in this order of tables; values as the table's types take them."""
    setup: tuple[str, ...] = ()
    """INSERT, UPDATE and DELETE statements of SQL, run after the rows are in; the agent finds what they made."""
    files: FileLayer = field(default_factory=lambda: FileLayer({}))
    """Files of this task, written into the workspace at the start."""
    tools: tuple[str, ...] = ()
    """Names of the tools that the agent gets; empty means all of the world's."""
    agent_id: str = "agent"
    budgets: Budgets = field(default_factory=Budgets)
    revocable_scopes: tuple[str, ...] = ()
    """Scopes that a fault may revoke midway in this task."""
    due_faults: tuple[DueFault, ...] = ()
    """Faults that this task is about: certain under any profile that has faults."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What the customer knows, by name; the only values that they ever tell."""
    approvals: tuple[Approval, ...] = ()
    """Scopes that are granted in this task when the agent asks for them."""
    events: tuple[PlannedEvent, ...] = ()
    """What happens in the background, at times that each episode draws."""
    split: str = "train"

    @property
    def hash(self) -> str:
        """Content address of the whole task."""
        return self._digest("files", "budgets")

    @property
    def content(self) -> str:
        """The same without the id: tasks of equal content are duplicates."""
        return self._digest("files", "budgets", "id")

    @property
    def canary(self) -> str:
        """A text that stands with everything that is written of this task, and in nothing that an agent is given; see `canary_of`."""
        return canary_of(self.hash)

    def _digest(self, *apart: str) -> str:
        body = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in apart}
        body |= {"files": self.files.key, "budgets": asdict(self.budgets)}
        return digest(json.dumps(body, sort_keys=True, default=str).encode("utf-8", "surrogatepass"))


CANARY = "WARDIAN-CANARY-8d1f6c1e-52b4-4a0b-9a5e-6f0a5b7c2e94"
"""Whoever gathers texts to train on leaves out each that holds this."""


def canary_of(task_hash: str) -> str:
    """The canary of the task with this hash. A model that completes it has seen logs of the task; the first part is the same in all."""
    return f"{CANARY}:{task_hash[:16]}"
