"""Which episodes a run plays: of one split, balanced over families and difficulties or by a mixture, every number from the run's seed."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from math import lcm

from wardian.envs.definition import WorldDefinition
from wardian.envs.splits import Split
from wardian.envs.task import TaskId
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.policies.base import Policy
from wardian.rollouts.sampling import Mixture, groups_of, pairs_of


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
    split: Split | None = Split.TRAIN,
    mixture: Mixture | None = None,
    group: int = 1,
) -> list[Planned]:
    """List the episodes of a run. All but their ids follows from the arguments; a longer run begins like a shorter one.

    All are of `split`; `None` takes any. Each task is played `group` times, by one policy, one after another. Of so many tasks as there are
    policies, or a multiple, each policy gets equally many.

    Raises:
        UsageProblem: there is no such family or difficulty, nothing of that split, or `episodes` are no whole groups.
    """
    if episodes % group:
        raise UsageProblem(f"group: {episodes} episodes make no whole groups of {group}; give a multiple of it")
    turn = len(pairs_of(world, split, family, difficulty))
    drawn = groups_of(world, seed=seed, size=group, split=split, family=family, difficulty=difficulty, mixture=mixture)
    planned: list[Planned] = []
    for number, one in enumerate(islice(drawn, episodes // group)):
        # Shifted by one where families and policies come together as at first, so that no policy always gets the same families.
        policy = policies[(number + number // lcm(turn, len(policies))) % len(policies)]
        planned += [
            Planned(f"{run}-{len(planned) + member:05d}", one.task_id, one.seed, policy, policy_seed)
            for member, policy_seed in enumerate(one.policy_seeds)
        ]
    return planned
