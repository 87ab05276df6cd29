"""What goes into a step and what comes out of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from wardian.tools.contract import Json, ToolCall


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
    """For each call of the action, in order: `status` and `result` or `error` (and `details`)."""


@dataclass(frozen=True, slots=True)
class Step:
    observation: Observation
    reward: float | None
    """Sum of the components; `None` exactly when the episode failed through us."""
    reward_components: Mapping[str, float]
    terminated: bool
    truncated: bool
    failed: str | None = None
    """Cause, when *we* failed; the episode is over, masked, and no reward."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """For the trajectory, never for the agent: verdict, end cause, events, fingerprint, diffs."""

    @property
    def done(self) -> bool:
        return self.terminated or self.truncated or self.failed is not None
