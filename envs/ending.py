"""How episodes end, in words that are the same from the cell to the loss.

Terminated: the task ended. Truncated: a budget ended it. Failed: *we* did, and there is no reward. `boundary` is the one
place that decides which of them an exception is.
"""

from dataclasses import dataclass
from enum import StrEnum

from wardian.envs.errors import StateMismatch, TaskError, VerifierBroken
from wardian.sandbox.errors import CellDied, DeathCause, SandboxError


class EndKind(StrEnum):
    TERMINATED = "terminated"
    TRUNCATED = "truncated"
    FAILED = "failed"


class EndCause(StrEnum):
    """End causes of the environment; a family adds the kinds in its `ends_on_effects`."""

    MESSAGE = "message"
    MALFORMED = "malformed"
    """Under the policy `terminate`."""
    CELL_DIED = "cell_died"
    """By the agent's own doing."""
    STEPS = "steps"
    TOKENS = "tokens"
    VIRTUAL_TIME = "virtual_time"
    INVALID_STREAK = "invalid_streak"
    STOPPED = "stopped"
    """By a budget of whoever plays the episode, such as a trainer's number of turns."""
    INFRASTRUCTURE = "infrastructure"
    VERIFIER = "verifier"
    STATE_MISMATCH = "state_mismatch"
    """The fingerprint kept step by step is not that of the rows."""
    ENVIRONMENT = "environment"
    """A fault in a world or in this package."""


@dataclass(frozen=True, slots=True)
class Ending:
    kind: EndKind
    cause: str
    detail: str = ""
    """For people and logs."""


def boundary(error: Exception) -> Ending:
    """Say whose doing an exception is that escaped from an episode (or from its reset)."""
    detail = f"{type(error).__name__}: {error}"
    match error:
        case CellDied(cause=DeathCause.POLICY):
            return Ending(EndKind.TERMINATED, EndCause.CELL_DIED, detail)
        case SandboxError():
            return Ending(EndKind.FAILED, EndCause.INFRASTRUCTURE, detail)
        case VerifierBroken(__cause__=TaskError() as cause):  # the author's, who is told the place
            return Ending(EndKind.FAILED, EndCause.VERIFIER, str(cause))
        case VerifierBroken():
            return Ending(EndKind.FAILED, EndCause.VERIFIER, detail)
        case StateMismatch():
            return Ending(EndKind.FAILED, EndCause.STATE_MISMATCH, detail)
        case _:
            return Ending(EndKind.FAILED, EndCause.ENVIRONMENT, detail)
