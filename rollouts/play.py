"""One attempt at one episode: reset, act until it is over, and a line for each of it. Never raises for what breaks in it."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import anyio

from wardian.envs.action import Observation, Step
from wardian.envs.ending import EndCause, boundary
from wardian.envs.environment import ToolEnvironment
from wardian.envs.errors import HeldOut, TaskError
from wardian.envs.verifier import Verdict
from wardian.rollouts.actions import sound
from wardian.rollouts.errors import PolicyEnds, PolicyGone, PolicyUnavailable
from wardian.rollouts.plan import Planned
from wardian.rollouts.policies.base import Player, TaskView
from wardian.rollouts.policies.sampled import Sampled, as_sampled
from wardian.rollouts.recording import AttemptRecorder, how_ended
from wardian.rollouts.records import EpisodeEnd, EpisodeStart, Outcome, StepRecord

_log = logging.getLogger(__name__)

POLICY_ERROR = "policy_error"
"""End cause: the policy's own code raised. Masked, and not retried."""
TASK_ERROR = "task_error"
"""End cause: there is no such task, or the world refused it. Masked, and not retried."""
CANCELLED: Literal["cancelled"] = "cancelled"

Write = Callable[[EpisodeStart | StepRecord | EpisodeEnd], None]


class PolicyRaised(Exception):
    """Carries what a player raised past the environment's own errors."""


@dataclass(slots=True)
class Attempt:
    """Plays one attempt. `play` once."""

    env: ToolEnvironment
    planned: Planned
    recorder: AttemptRecorder
    write: Write
    last_chance: bool
    """No further attempt follows."""
    began: float = field(default_factory=time.perf_counter)

    async def play(self) -> EpisodeEnd:
        """Play it; gives the line that ended it, which was written.

        Raises:
            OSError: a line could not be written.
            PolicyEnds: the policy can act in no other episode either; the line was written.
            HeldOut: its task may not be played here; nothing was written.
        """
        try:
            first = await self._reset()
            if isinstance(first, EpisodeEnd):
                return first
            return self._end(*how_ended(await self._steps(first)))
        except PolicyRaised as raised:
            return await self._failed_by(raised.__cause__)
        except anyio.get_cancelled_exc_class():
            self._end("cancelled", CANCELLED)
            raise

    async def _reset(self) -> Observation | EpisodeEnd:
        try:
            first = await self.env.reset(str(self.planned.task_id), self.planned.seed)
        except HeldOut:
            raise
        except TaskError as error:
            return self._end("failed", TASK_ERROR, str(error))
        except Exception as error:  # noqa: BLE001 - the edge of an episode: one that cannot begin must not end its siblings
            ending = boundary(error)
            return self._end("failed", ending.cause, ending.detail)
        info = self.env.reset_info
        self.write(self.recorder.start(first, info))
        return first

    async def _steps(self, first: Observation) -> Step:
        player = self._begin(first)
        seen = first
        while True:
            sampled = await self._acted(player, seen)
            began = time.perf_counter()
            step = await self.env.step(sampled.action)
            self.write(self.recorder.step(sampled.action, step, (time.perf_counter() - began) * 1000, sampled))
            if step.done:
                return step
            seen = step.observation

    async def _acted(self, player: Player, seen: Observation) -> Sampled:
        try:
            checkpoint = self.planned.policy.checkpoint
            sampled = as_sampled(await player.act(seen))
            return replace(sampled, action=sound(sampled.action), checkpoint=sampled.checkpoint or checkpoint)
        except Exception as error:
            raise PolicyRaised from error

    def _begin(self, first: Observation) -> Player:
        view = TaskView(self.planned.task_id, self.env.tool_schemas, self.planned.policy_seed)
        try:
            return self.planned.policy.begin(first, view)
        except Exception as error:
            raise PolicyRaised from error

    async def _failed_by(self, error: BaseException | None) -> EpisodeEnd:
        """End what the policy could not go on with. Raises `PolicyEnds` as it is, for whoever plays the other episodes."""
        await self.env.close()
        if not isinstance(error, PolicyUnavailable):
            _log.error("policy %s raised in %s", self.planned.policy.name, self.planned.episode_id, exc_info=error)
            return self._end("failed", POLICY_ERROR, f"{type(error).__name__}: {error}")
        if isinstance(error, PolicyGone):
            self._end(CANCELLED, CANCELLED, str(error))
            raise error
        _log.warning("policy %s cannot act in %s: %s", self.planned.policy.name, self.planned.episode_id, error)
        end = self._end("failed", error.cause, str(error))
        if isinstance(error, PolicyEnds):
            raise error
        return end

    def _end(self, outcome: Outcome, cause: str, detail: str = "", verdict: Verdict | None = None) -> EpisodeEnd:
        record = self.recorder.end(
            outcome,
            cause=str(cause),
            detail=detail,
            verdict=verdict,
            retried=outcome == "failed" and may_retry(cause) and not self.last_chance,
            wall_ms=(time.perf_counter() - self.began) * 1000,
        )
        self.write(record)
        return record


def may_retry(cause: str) -> bool:
    """Whether another attempt could go otherwise: only where the infrastructure failed."""
    return cause == EndCause.INFRASTRUCTURE
