"""Where an episode was lost, found by playing: its log is run again, and from each moment before a change the reference solution goes on.

The last moment from which it still solves the task is where a policy had all in its hands; the step after it is the fatal one.
"""

from dataclasses import replace
from pathlib import Path

from wardian.envs.action import Observation
from wardian.envs.environment import ToolEnvironment
from wardian.envs.errors import TaskError
from wardian.envs.playing import play_on, play_reference
from wardian.envs.saving import key_of, load, save
from wardian.envs.settings import MalformedPolicy, Settings
from wardian.envs.snapshot import Snapshot
from wardian.envs.splits import Split
from wardian.envs.task import TaskId
from wardian.envs.variants import suggestions, trainable
from wardian.rollouts.curriculum.harvest import Failed, changes
from wardian.rollouts.curriculum.pool import Failure, variant_of
from wardian.rollouts.ground import Ground
from wardian.rollouts.replay import Replay
from wardian.rollouts.trajectory import TrajectoryLog
from wardian.tools.faults import FaultProfile


async def with_snapshot(ground: Ground, log: TrajectoryLog, found: Failed, folder: Path) -> Failure:
    """The failure with its fatal step, and the snapshot before it in a folder of its own below `folder`.

    As it was where the log does not run again as it was recorded, where no moment can be saved from, or where that is the start.

    Raises:
        SandboxError: the infrastructure failed.
        SnapshotRefused: what stands in its place is no snapshot.
        OSError: the snapshot cannot be written.
    """
    start = found.attempt.start
    assert start is not None, "only started attempts are harvested"
    first = Observation(start.observation.rendered, start.observation.tokens)
    async with _environment(ground, found.failure.faults, start.malformed) as env:
        for step, snapshot in reversed(await _moments(ground, log, found)):
            await env.restore(snapshot)
            if await _solved(env, first):
                where = folder / f"{found.failure.episode_id}-{step}"
                # One that stands there already was taken at the same moment of the same episode.
                key = key_of(load(where)) if where.exists() else save(snapshot, where)
                return replace(found.failure, step=step, snapshot=str(where.absolute()), snapshot_key=key)
    return found.failure


async def variants(ground: Ground, found: Failed, most: int) -> list[Failure]:
    """Up to `most` variants of a failure's task, each of which the reference solution was seen to solve under the same faults.

    Raises:
        SandboxError: the infrastructure failed.
    """
    made: list[Failure] = []
    task = trainable(ground.world, found.failure.task_id)
    async with _environment(ground, found.failure.faults, MalformedPolicy.RECOVER.value) as env:
        for task_id in suggestions(ground.world, task, found.broke):
            if len(made) == most:
                break
            task_hash = await solvable(env, task_id, found.failure.seed)
            if task_hash:
                made.append(variant_of(found.failure, task_id, task_hash))
    return made


async def solvable(env: ToolEnvironment, task_id: TaskId, seed: int) -> str:
    """The hash of a task that may be trained on and that the reference solution solves in `env`; empty for any other."""
    try:
        task = trainable(env.world, task_id)
    except TaskError:
        return ""
    verdict = (await play_reference(env, str(task_id), seed)).last.info.verdict
    return task.hash if verdict is not None and verdict.succeeded else ""


async def _moments(ground: Ground, log: TrajectoryLog, found: Failed) -> list[tuple[int, Snapshot]]:
    """Snapshots before each step that changed something, but the first step, which a reset is before."""
    taken = list[tuple[int, Snapshot]]()
    async with Replay(log, ground).rerun(found.attempt) as again:
        if not (await again.begin()).identical:
            return []
        for step in found.attempt.steps:
            if changes(step) and step.step > 1:
                if not (await again.advance(step.step - 1)).identical:
                    return []
                taken.append((step.step, await again.env.snapshot()))
    return taken


async def _solved(env: ToolEnvironment, first: Observation) -> bool:
    verdict = (await play_on(env, first)).last.info.verdict
    return verdict is not None and verdict.succeeded


def _environment(ground: Ground, faults: FaultProfile, malformed: str) -> ToolEnvironment:
    return ground.environment(faults, MalformedPolicy(malformed), Settings(split=Split.TRAIN))


async def begin(env: ToolEnvironment, failure: Failure) -> Observation:
    """Begin an entry of the pool in `env`: at its snapshot where it has one, else at the start. Gives what the agent sees.

    Raises:
        SnapshotRefused: the snapshot is gone, or is of another world, version or fault profile.
        TaskError: the task is not there, or not for training.
        SandboxError: the infrastructure failed.
    """
    trainable(env.world, failure.task_id)
    if not failure.snapshot:
        return await env.reset(str(failure.task_id), failure.seed)
    return await env.restore(load(Path(failure.snapshot), failure.snapshot_key))
