"""Which episodes a run plays: balanced over families and difficulties, every number from the run's seed."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from wardian.envs.definition import WorldDefinition
from wardian.envs.errors import TaskError
from wardian.envs.task import Difficulty, TaskId
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.policies.base import Policy
from wardian.sandbox.streams import stream

TASK_SEEDS = 1_000_000


@dataclass(frozen=True, slots=True)
class Planned:
    """One episode to play."""

    episode_id: str
    task_id: TaskId
    seed: int
    """Of the episode's streams."""
    policy: Policy
    policy_seed: int
    first_attempt: int = 1
    """Above 1 where attempts of a run that stopped stand in the log."""


def new_run_id() -> str:
    """A random id, the first part of the ids of a run's episodes."""
    return secrets.token_hex(4)


def plan(
    world: WorldDefinition,
    policies: Sequence[Policy],
    *,
    run: str,
    episodes: int,
    seed: int,
    family: str | None = None,
    difficulty: str | None = None,
) -> list[Planned]:
    """List the episodes of a run. All but their ids follows from the arguments; a longer run begins like a shorter one.

    Raises:
        UsageProblem: there is no such family or difficulty.
    """
    families = [world.family(name) for name in _families(world, family)]
    pairs = [(one.name, level) for level in _difficulties(difficulty) for one in families if level in one.difficulties]
    if not pairs:
        raise UsageProblem(f"difficulty: no task of {family or world.name} is {difficulty}; leave it out, or name another one")
    used: set[TaskId] = set()
    planned = []
    for index in range(episodes):
        round_, at = divmod(index, len(pairs))
        rng = stream(seed, f"episode/{index}")
        task_id = _fresh(TaskId(*pairs[at], 0), rng.randrange(TASK_SEEDS), used)
        # Shifted by one each round, so that no policy always gets the same families.
        policy = policies[(at + round_) % len(policies)]
        planned.append(Planned(f"{run}-{index:05d}", task_id, rng.getrandbits(32), policy, rng.getrandbits(32)))
    return planned


def _fresh(pair: TaskId, seed: int, used: set[TaskId]) -> TaskId:
    """A task that this run has not got yet, from `seed` upwards."""
    found = TaskId(pair.family, pair.difficulty, seed)
    while found in used:
        found = TaskId(pair.family, pair.difficulty, found.seed + 1)
    used.add(found)
    return found


def _families(world: WorldDefinition, family: str | None) -> list[str]:
    if family is None:
        return [one.name for one in world.families]
    try:
        return [world.family(family).name]
    except TaskError as error:
        raise UsageProblem(str(error)) from error


def _difficulties(difficulty: str | None) -> list[Difficulty]:
    known = list(Difficulty)
    if difficulty is None:
        return known
    if difficulty not in [one.value for one in known]:
        raise UsageProblem(f"difficulty: no {difficulty!r}; there are {', '.join(one.value for one in known)}")
    return [Difficulty(difficulty)]
