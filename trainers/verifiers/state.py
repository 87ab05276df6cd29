"""What the hooks of a rollout and the tool server know of its episode. verifiers carries it between their processes, in memory."""

from typing import Any

import verifiers.v1 as vf
from pydantic import BaseModel, Field

from wardian.trainers.client import Turn


class Unscored(Exception):
    """The episode has no reward. A hook that raises it makes a rollout that is not ok, and none with the reward 0."""


class Course(BaseModel):
    """An episode as far as it has come."""

    steps: int = 0
    over: bool = False
    reward: float | None = 0.0
    """The return so far; `None` when the episode failed."""
    components: dict[str, float] = Field(default_factory=dict)
    """Sums so far."""
    errors: dict[str, int] = Field(default_factory=dict)
    """Calls that did not succeed, by status; output that held no call is one of them."""
    succeeded: bool | None = None
    """Known at the end of an episode that was judged."""
    truncated: bool = False
    end_cause: str = ""
    failure_kind: str | None = None
    message: str = ""
    """Why it failed."""

    def take(self, turn: Turn) -> None:
        """Take in what a step gave."""
        self.steps, self.over, self.reward = turn.step, turn.done, turn.total_reward
        self.truncated, self.succeeded = turn.truncated, turn.succeeded
        self.end_cause, self.failure_kind, self.message = turn.end_cause or "", turn.failure_kind, turn.message or ""
        for name, value in turn.reward_components.items():
            self.components[name] = self.components.get(name, 0.0) + value
        for status in (str(result["status"]) for result in turn.results if result["status"] != "ok"):
            self.errors[status] = self.errors.get(status, 0) + 1

    def fail(self, kind: str, message: str) -> None:
        """It cannot be gone on with, and is not scored."""
        self.over, self.reward, self.failure_kind, self.message = True, None, kind, message

    def score(self) -> float:
        """The return of an episode that is over.

        Raises:
            Unscored: it failed, or is not over.
        """
        if self.failure_kind is not None:
            raise Unscored(f"{self.failure_kind}: {self.message.removeprefix(f'{self.failure_kind}: ')}")
        if not self.over or self.reward is None:
            raise Unscored("unfinished: the episode did not end with the rollout, so nothing judged it")
        return self.reward


class WardianState(vf.State):
    session: str = ""
    """Name of the lease; empty when there is none, or no more."""
    ttl_s: float = 300.0
    """After so long without use the lease lapses."""
    token: str | None = Field(None, repr=False)
    """Of the server, where it wants one. Handed to the tool server here, so that no program of the model has it in its environment."""
    opening: str = ""
    """What the agent reads first."""
    tools: list[dict[str, Any]] = Field(default_factory=list)
    """Of the episode, in the OpenAI format."""
    course: Course = Field(default_factory=Course)
