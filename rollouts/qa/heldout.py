"""Whether what is held out stays out of training: it is drawn nowhere, and refused wherever it is asked for by name."""

import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from wardian.envs.environment import ToolEnvironment
from wardian.envs.errors import HeldOut
from wardian.envs.family import Family
from wardian.envs.settings import MalformedPolicy, Settings
from wardian.envs.splits import Split
from wardian.envs.task import TaskId
from wardian.rollouts.curriculum.curriculum import open_curriculum
from wardian.rollouts.curriculum.harvest import Harvest
from wardian.rollouts.curriculum.pool import Failure
from wardian.rollouts.curriculum.settings import CurriculumSettings
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.export.errors import SplitForbidden
from wardian.rollouts.export.selection import Selection
from wardian.rollouts.plan import plan
from wardian.rollouts.qa.lab import Lab
from wardian.rollouts.qa.outcome import Outcome
from wardian.rollouts.runner import EpisodePool
from wardian.rollouts.sampling import groups_of, training_batches
from wardian.rollouts.trajectory import TrajectoryLog
from wardian.tools.faults import NONE

DRAWN = 200
"""Tasks that each way of drawing gives."""
CURRICULUM = 20
"""The same of a curriculum, where each draw is a transaction on disk."""
SOUGHT = 200
"""Seeds of each family and difficulty among which held-out tasks are sought."""


async def kept_out(lab: Lab) -> Outcome:
    """Draw for training in every way that there is, and ask each for a held-out task."""
    found = Outcome()
    held = [task for family in lab.families if (task := _held_out(family)) is not None]
    found.figures["splits"] = {family.name: dict(Counter(_labelled(family))) for family in lab.families}
    found.findings += [text for family in lab.families for text in _mislabelled(family)]
    for way, tasks in _drawn(lab):
        found.figures[way] = len(tasks)
        wrong = [task for task in tasks if lab.ground.world.family(task.family).generate(task.difficulty, task.seed).split != Split.TRAIN]
        found.findings += [f"{way} draws {task} for training, which is held out" for task in wrong[:3]]
    for task in held:
        found.findings += await _refused(lab, task)
    found.findings += [*_exported(lab), *_pooled(lab, held)]
    found.evidence.append(f"{DRAWN} tasks of each way of drawing, {CURRICULUM} of a curriculum; of {len(held)} families one held-out task")
    if not held and not found.findings:
        found.unjudged = "the world holds nothing out, so that nothing can be measured on what was not trained on; see docs/distribution.md"
    return found


def _labelled(family: Family) -> Iterator[str]:
    for level in family.difficulties:
        yield from (family.split_at(level, seed) for seed in range(SOUGHT))


def _held_out(family: Family) -> TaskId | None:
    candidates = (TaskId(family.name, level, seed) for level in family.difficulties for seed in range(SOUGHT))
    return next((one for one in candidates if family.split_at(one.difficulty, one.seed) != Split.TRAIN), None)


def _mislabelled(family: Family) -> Iterator[str]:
    """The first task whose split is not the one that its family declares."""
    for level in family.difficulties:
        for seed in range(SOUGHT // 10):
            task = family.generate(level, seed)
            declared = family.split_of(family.drawn(level, seed))
            if task.split != family.split_at(level, seed) or (declared is not Split.TRAIN and declared != task.split):
                yield f"{task.id}: is of the split '{task.split}', and what its family declares makes it '{declared}'"
                return


def _drawn(lab: Lab) -> Iterator[tuple[str, list[TaskId]]]:
    """Every way of drawing tasks for training, and what it gives."""
    world = lab.ground.world
    try:
        yield "plan", [one.task_id for one in plan(world, [lab.policy("expert")], run="qa", episodes=DRAWN, seed=1)]
        yield "groups", [group.task_id for group in islice(groups_of(world, seed=2, size=1), DRAWN)]
        batches = islice(training_batches(world, seed=3, groups=10, size=2), DRAWN // 10)
        yield "batches", [group.task_id for batch in batches for group in batch]
        with tempfile.TemporaryDirectory(prefix="wardian-qa-") as folder:
            curriculum = open_curriculum(Path(folder) / "qa.db", world, lab.name, CurriculumSettings())
            yield "curriculum", [curriculum.draw().task_id for _ in range(CURRICULUM)]
    except UsageProblem:
        return  # all of it is held out


async def _refused(lab: Lab, task: TaskId) -> list[str]:
    """Ask an environment, a snapshot of the task, and a pool of episodes, all for training."""
    training = Settings(split=Split.TRAIN)
    planned = [replace(lab.planned[0], task_id=task)]
    pool = EpisodePool(lab.ground, replace(lab.setting, split=Split.TRAIN))
    async with lab.environment(NONE) as free, lab.ground.environment(NONE, MalformedPolicy.RECOVER, training) as env:
        got = [way for way, given in (("reset", await _resets(env, task)), ("restore", await _restores(free, env, task))) if given]
    try:
        await pool.run(planned, workers=1)
        got.append("pool")
    except HeldOut:
        pass
    return [f"{way} gives {task} to training, which is held out" for way in got]


async def _resets(env: ToolEnvironment, task: TaskId) -> bool:
    try:
        await env.reset(str(task))
    except HeldOut:
        return False
    return True


async def _restores(free: ToolEnvironment, env: ToolEnvironment, task: TaskId) -> bool:
    await free.reset(str(task))
    snapshot = await free.snapshot()
    await free.close()
    try:
        await env.restore(snapshot)
    except HeldOut:
        return False
    return True


def _exported(lab: Lab) -> list[str]:
    """The log holds what scripted policies did in held-out tasks; an export for training refuses it, or leaves that out."""
    held = {one.episode_id for one in lab.own if one.split != Split.TRAIN}
    if not held:
        return []
    given = [episode.start.episode_id for episode in Selection.open(lab.out, split=Split.TRAIN) if episode.start.episode_id in held]
    found = [f"an export of the split train gives {one}, which is held out" for one in given[:3]]
    try:
        for _ in Selection.open(lab.out):
            pass
    except SplitForbidden:
        return found
    return [*found, "an export gives a log with held-out tasks as it is"]


def _pooled(lab: Lab, held: list[TaskId]) -> list[str]:
    """Failures in held-out tasks, given to the pool of hard negatives, and those that a harvest takes from the log."""
    world = lab.ground.world
    harvested = [one.failure.task_id for one in Harvest(TrajectoryLog.open(lab.out), world)]
    labelled = {one.task_id for one in lab.own if one.split != Split.TRAIN}
    found = [f"a harvest of failures takes {task} for training, which is held out" for task in harvested if task in {*labelled, *held}]
    tasks = {task: world.family(task.family).generate(task.difficulty, task.seed) for task in held}
    failures = [Failure(task, made.hash, 0, NONE, f"qa-{number}", "qa", "") for number, (task, made) in enumerate(tasks.items())]
    try:
        with tempfile.TemporaryDirectory(prefix="wardian-qa-") as folder:
            curriculum = open_curriculum(Path(folder) / "qa.db", world, lab.name, CurriculumSettings())
            curriculum.add_failures(failures)
            found += [f"the pool of hard negatives takes {one.task_id}, which is held out" for one in curriculum.failures()]
    except UsageProblem:
        pass  # a world without a task for training has no curriculum
    return found
