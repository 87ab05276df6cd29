"""Moments of recorded episodes, reached by running them again: what `wardian diff` compares and `wardian shell` enters."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from wardian.envs.definition import WorldDefinition
from wardian.envs.diff import Moment, StateDiff, between, look_at
from wardian.envs.environment import ToolEnvironment
from wardian.envs.task import TaskId
from wardian.envs.variants import task_of
from wardian.rollouts.errors import LogBroken, NotReproduced, UsageProblem
from wardian.rollouts.replay import Replay, select
from wardian.rollouts.rerun import Replayed, Rerun
from wardian.rollouts.trajectory import AttemptLog, TrajectoryLog


@dataclass(frozen=True, slots=True)
class Stop:
    """A moment of an episode that was asked for."""

    attempt: AttemptLog
    """With its steps."""
    step: int
    """0 is right after the reset."""

    @property
    def label(self) -> str:
        """Episode and step, in words."""
        count = len(self.attempt.steps)
        where = " (start)" if self.step == 0 else " (end)" if self.step == count else ""
        return f"{self.attempt.episode_id} step {self.step} of {count}{where}"


def stop_at(log: TrajectoryLog, episode: str, step: int | None, option: str) -> Stop:
    """The moment after `step` of `episode`, by id, end of id or number; `None` is the end. `option` is what the user called the step.

    Raises:
        LogBroken: there is no such episode, or it cannot be run again.
        UsageProblem: it has fewer steps.
    """
    chosen = select(log, episode)
    if not chosen.episodes:
        why = [*chosen.skipped, *(broken.problem for broken in chosen.broken)]
        raise LogBroken(f"episode {episode}: cannot be run again: {', '.join(why)}")
    attempt = log.attempts(chosen.episodes[0].episode_id)[-1]
    count = len(attempt.steps)
    if step is not None and not 0 <= step <= count:
        raise UsageProblem(f"{option}: {attempt.episode_id} has {count} steps; give 0 (its start) to {count} (its end), got {step}")
    return Stop(attempt, count if step is None else step)


@asynccontextmanager
async def standing_at(replay: Replay, stop: Stop) -> AsyncIterator[tuple[ToolEnvironment, Replayed]]:
    """The world as it was at a moment, until the block ends.

    Raises:
        NotReproduced: it cannot be reached.
        LogForeign: the log was made by other versions.
    """
    async with _begun(replay, stop.attempt) as again:
        yield again.env, await _advance(again, stop.step)


async def difference(replay: Replay, before: Stop, after: Stop) -> StateDiff:
    """What lies between two moments, of one episode or of two of one world, in either order.

    Raises:
        NotReproduced: one cannot be reached.
        LogForeign: the log was made by other versions.
        TaskError: rows of the two cannot be compared.
    """
    if before.attempt.episode_id != after.attempt.episode_id:
        paths = set[str]().union(*(_own_files(replay.ground.world, stop) | _touched(stop, 0) for stop in (before, after)))
        return between(*[moment for stop in (before, after) for moment in await _moments(replay, [stop], paths)])
    first, last = sorted((before, after), key=lambda stop: stop.step)
    found = await _moments(replay, [first, last], _touched(last, first.step))
    return between(*(found if first is before else reversed(found)))


async def _moments(replay: Replay, stops: list[Stop], paths: Iterable[str]) -> list[Moment]:
    """Moments of one episode, in their order, each with a look at `paths`."""
    found = []
    async with _begun(replay, stops[0].attempt) as again:
        for stop in stops:
            await _advance(again, stop.step)
            found.append(Moment(stop.label, await again.env.snapshot(), await look_at(again.env.live.cell, paths)))
    return found


@asynccontextmanager
async def _begun(replay: Replay, attempt: AttemptLog) -> AsyncIterator[Rerun]:
    replay.refuse_foreign([attempt])
    async with replay.rerun(attempt, hold_ended=True) as again:
        _check(await again.begin())
        yield again


async def _advance(again: Rerun, step: int) -> Replayed:
    return _check(await again.advance(step))


def _check(replayed: Replayed) -> Replayed:
    if not replayed.identical:
        raise NotReproduced(f"not reproduced, so that moment cannot be reached: {replayed}")
    return replayed


def _touched(stop: Stop, after: int) -> set[str]:
    """Paths that the steps from `after` to the stop changed."""
    return {path for step in stop.attempt.steps[after : stop.step] for path in step.files}


def _own_files(world: WorldDefinition, stop: Stop) -> set[str]:
    """Paths of the files that the episode's task brings along."""
    assert stop.attempt.start is not None, "only started attempts are selected"
    task = TaskId.parse(stop.attempt.start.task_id)
    return set(task_of(world, task).files.entries)
