"""Failures out of a run's log: which episodes failed by the policy's doing, and where each broke."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from wardian.envs.definition import WorldDefinition
from wardian.envs.errors import TaskError
from wardian.envs.splits import Split
from wardian.envs.task import TaskId
from wardian.envs.variants import Broke, trainable
from wardian.rollouts.curriculum.pool import Failure
from wardian.rollouts.records import EpisodeEnd, EpisodeStart, StepRecord
from wardian.rollouts.trajectory import AttemptLog, TrajectoryLog
from wardian.tools.faults import FaultProfile


@dataclass(frozen=True, slots=True)
class Failed:
    """One failure, and the attempt that it was read from."""

    failure: Failure
    broke: Broke
    attempt: AttemptLog


@dataclass(slots=True)
class Harvest:
    """Reads a log once; the counts are right when it is over."""

    log: TrajectoryLog
    world: WorldDefinition
    held_out: int = 0
    """Failures that are not for training."""
    gone: int = 0
    """Failures of tasks that the world no longer makes."""
    again: int = 0
    """Failures of a task that failed before in the same log, from the same seed under the same faults."""

    def __iter__(self) -> Iterator[Failed]:
        """Failures of final, judged attempts. What is of another split than `train`, by the log or by the world, is never among them."""
        seen = set[str]()
        for name in self.log.episodes:
            attempts = self.log.attempts(name)
            start, end = (attempts[-1].start, attempts[-1].end) if attempts else (None, None)
            if start is None or end is None or not end.mask or end.succeeded is not False:
                continue
            if start.split != Split.TRAIN or end.split != Split.TRAIN:
                self.held_out += 1
                continue
            try:
                task = trainable(self.world, TaskId.parse(start.task_id))
            except TaskError:
                self.gone += 1
                continue
            if task.hash != start.task_hash:
                self.gone += 1
                continue
            found = failed(attempts[-1], start, end)
            if found.failure.key in seen:
                self.again += 1
                continue
            seen.add(found.failure.key)
            yield found


def failed(attempt: AttemptLog, start: EpisodeStart, end: EpisodeEnd) -> Failed:
    """What the log of one failed attempt says."""
    step = broken_step(attempt.steps)
    failure = Failure(
        task_id=TaskId.parse(start.task_id),
        task_hash=start.task_hash,
        seed=start.seed,
        faults=FaultProfile.model_validate(start.faults),
        episode_id=start.episode_id,
        policy=start.policy,
        end_cause=end.end_cause,
        step=step.step if step else 0,
    )
    checks = () if end.verdict is None else tuple(check.name for check in end.verdict.checks if not check.passed)
    return Failed(failure, replace(_broke(attempt.steps, step), failed_checks=checks), attempt)


def broken_step(steps: list[StepRecord]) -> StepRecord | None:
    """The last step in which the agent changed something, else its last call; `None` without any.

    That is a guess from the log alone: `wardian.rollouts.curriculum.fatal` plays to find out.
    """
    changing = [step for step in steps if changes(step)]
    calling = [step for step in steps if step.events]
    return next(iter([*changing[-1:], *calling[-1:]]), None)


def changes(step: StepRecord) -> bool:
    """Whether the agent changed rows or files, or did what the verifier counts."""
    return any(event.committed and event.effects for event in step.events) or bool(step.files) or bool(step.database and step.events)


def _broke(steps: list[StepRecord], at: StepRecord | None) -> Broke:
    if at is None or not at.events:
        return Broke()
    event = next((one for one in at.events if one.committed), at.events[0])
    before = [one.tool for step in steps for one in step.events if one.index < event.index and not one.landed]
    return Broke(event.tool, before.count(event.tool), event.args if isinstance(event.args, dict) else {})
