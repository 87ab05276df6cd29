"""The fixed set of an evaluation: tasks of a held-out split, equal for every policy and checkpoint that is measured on it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from wardian.envs.definition import WorldDefinition
from wardian.envs.splits import Split
from wardian.envs.task import TaskId
from wardian.envs.versions import env_version
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.plan import Planned
from wardian.rollouts.policies.base import Policy
from wardian.rollouts.sampling import TASK_SEEDS, fresh, pairs_of
from wardian.sandbox.fingerprint import digest
from wardian.sandbox.streams import stream


@dataclass(frozen=True, slots=True)
class EvalTask:
    """One task of the set, and what is told of it in the results."""

    task_id: TaskId
    task_hash: str
    seed: int
    """Of the episodes' streams: the first repeat; the others count up."""
    region: str
    scenario: str
    """Type of the scenario; empty in a family without types."""


@dataclass(frozen=True, slots=True)
class TaskSet:
    """The tasks, in an order."""

    env_version: str
    split: Split
    tasks: tuple[EvalTask, ...]
    repeats: int
    """Episodes of each task."""
    key: str = field(init=False)
    """Content address: results of one key can be compared."""

    def __post_init__(self) -> None:
        body = [self.env_version, self.repeats, [(str(one.task_id), one.task_hash, one.seed) for one in self.tasks]]
        object.__setattr__(self, "key", digest(json.dumps(body).encode())[:16])

    def planned(self, policy: Policy, run: str) -> list[Planned]:
        """The episodes that measure a policy. They are the same whatever faults are played, so that twins are those of one id."""
        found = []
        for number, one in enumerate(self.tasks):
            for repeat in range(self.repeats):
                rng = seeds_of(one.seed, repeat)
                episode = f"{run}-{number * self.repeats + repeat:05d}"
                found.append(Planned(episode, one.task_id, rng.getrandbits(32), policy, rng.getrandbits(32)))
        return found


def seeds_of(seed: int, repeat: int) -> Random:
    """What the seeds of an episode are drawn from, 32 bits each, in a repeat of a task, from 0: first its streams', then its policy's."""
    return stream(seed, f"repeat/{repeat}")


def task_set(
    world: WorldDefinition,
    *,
    split: Split = Split.HELDOUT,
    tasks: int,
    repeats: int,
    seed: int = 0,
    families: Sequence[str] = (),
    difficulty: str | None = None,
) -> TaskSet:
    """A set of `tasks` for each family and difficulty that has some of the split. It follows from the arguments and the world alone.

    Raises:
        UsageProblem: the split is `train`, there is no such family or difficulty, or nothing of that split.
    """
    if split is Split.TRAIN:
        raise UsageProblem("split: what is trained on says nothing of a policy; evaluate on eval or heldout")
    used: set[TaskId] = set()
    found = []
    pairs = [pair for name in families or (None,) for pair in pairs_of(world, split, name, difficulty)]
    for family, level in pairs:
        rng = stream(seed, f"evaluation/{split}/{family.name}/{level}")
        for _ in range(tasks):
            task_id = fresh((family, level), rng.randrange(TASK_SEEDS), split, used)
            task = family.generate(level, task_id.seed)
            scenario = family.scenarios.parameter if family.scenarios else ""
            region, kind = family.region_of(task.parameters), str(task.parameters.get(scenario, ""))
            found.append(EvalTask(task_id, task.hash, rng.getrandbits(32), region, kind))
    return TaskSet(env_version(world), split, tuple(found), repeats)
