"""What goes into a step and what comes out of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from wardian.envs.events import WorldEvent
from wardian.envs.verifier import Verdict
from wardian.sandbox.database.base import RowChange
from wardian.sandbox.files import FileChange
from wardian.sandbox.fingerprint import Fingerprint
from wardian.tools.contract import CallEvent, Json, ToolCall


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """One call or several, run in the listed order, each with a result of its own."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """A free-form turn. By a family's rule it may end the episode."""

    text: str


@dataclass(frozen=True, slots=True)
class Malformed:
    """Model output that holds no usable action. The raw text is kept."""

    raw: str
    reason: str


Action: TypeAlias = ToolCalls | Message | Malformed


def call(tool: str, **args: Json) -> ToolCalls:
    """Make the action of a single tool call."""
    return ToolCalls((ToolCall(tool, args),))


@dataclass(frozen=True, slots=True)
class Observation:
    """What the agent gets. `rendered` is the whole of it; `results` is the same as data."""

    rendered: str
    tokens: int
    """Token count of `rendered` by the environment's tokenizer (the default estimates)."""
    results: tuple[Mapping[str, Json], ...] = ()
    """For each call of the action, in order: `status` and `result` or `error` (and `details`). A message or malformed output
    has one entry. At reset there is one whose `result` holds `instruction`, `policy` and `world_time`."""
    incoming: tuple[Mapping[str, Json], ...] = ()
    """What reached the agent without a call of its own, in order: `from`, `at` (world time) and `text`."""


@dataclass(frozen=True, slots=True)
class StepInfo:
    """For the trajectory, never for the agent."""

    step: int
    """Number of the step, from 1; `CallEvent.step` is the same number."""
    clock_ms: int
    """World time after the step, in milliseconds since the Unix epoch."""
    events: tuple[CallEvent, ...] = ()
    """What the trusted event log got in this step."""
    background: tuple[WorldEvent, ...] = ()
    """What the world did by itself in this step."""
    fingerprint: Fingerprint | None = None
    """The whole state after the step; `None` when it could not be taken (the step failed)."""
    database: tuple[RowChange, ...] = ()
    """Rows that this step changed, whoever changed them."""
    files: Mapping[str, FileChange | None] = field(default_factory=dict)
    """Paths that this step changed, each as it differs from the start; `None`: it is again as at the start."""
    verdict: Verdict | None = None
    """Set at the end of an episode that was verified."""
    end_cause: str = ""
    """Empty while the episode runs; see `wardian.envs.ending`."""
    inexact: tuple[str, ...] = ()
    """Why results of this step may differ when run again."""
    recomputed: bool = False
    """The fingerprint was compared with one made from every row."""


@dataclass(frozen=True, slots=True)
class Step:
    observation: Observation
    reward: float | None
    """Sum of the components; `None` exactly when the episode failed through us."""
    reward_components: Mapping[str, float]
    """By name; empty when failed."""
    terminated: bool
    truncated: bool
    info: StepInfo
    failed: str | None = None
    """Cause, when *we* failed; the episode is over, masked, and no reward."""

    @property
    def done(self) -> bool:
        return self.terminated or self.truncated or self.failed is not None
