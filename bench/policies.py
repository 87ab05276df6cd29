"""How often each policy solves each family: `python bench/policies.py [--episodes 60] [--policies a,b] [--families f,g] [--world billing]`.

Prints the rows of the table in docs/baselines.md: solved episodes by difficulty (a third of the episodes each) and the mean reward. The
episodes of a row are those of `wardian run WORLD --family F --policy P --faults PROFILE --episodes N --seed 0 --split all`.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import anyio

from wardian.envs.registry import load_world
from wardian.envs.settings import Settings
from wardian.envs.task import Difficulty
from wardian.rollouts.ground import Ground, open_ground
from wardian.rollouts.plan import plan
from wardian.rollouts.policies.base import Policy
from wardian.rollouts.policies.registry import SCRIPTED, load_policies
from wardian.rollouts.recording import Setting, versions_of
from wardian.rollouts.runner import EpisodePool
from wardian.rollouts.summary import Tally
from wardian.tools.faults import PROFILES, FaultProfile

HEAD = "| family | policy | faults | easy | medium | hard | mean reward |\n| --- | --- | --- | --- | --- | --- | --- |"


@dataclass(frozen=True, slots=True)
class Row:
    """One cell of the measurement: who plays what under which faults."""

    family: str
    policy: Policy
    faults: FaultProfile


def rows(asked: argparse.Namespace) -> Iterator[Row]:
    """All combinations that were asked for."""
    world = load_world(asked.world)
    families = asked.families.split(",") if asked.families else [family.name for family in world.families]
    for family in families:
        for policy in load_policies(asked.policies, world, asked.world):
            for faults in PROFILES.values():
                yield Row(family, policy, faults)


async def measure(ground: Ground, row: Row, asked: argparse.Namespace) -> Tally:
    """Play the episodes of a row."""
    versions = versions_of(ground)
    setting = Setting(ground.world, asked.world, versions, row.faults, "recover", Settings().recompute_every, split=None)
    episodes = plan(ground.world, (row.policy,), run="table", episodes=asked.episodes, seed=asked.seed, family=row.family, split=None)
    return await EpisodePool(ground, setting).run(episodes, workers=asked.cells)


def line(row: Row, tally: Tally) -> str:
    """A row of the table."""
    by = tally.groups["difficulty"]
    solved = [f"{by[level.value].succeeded}/{by[level.value].judged}" for level in Difficulty]
    mean = round(tally.whole.reward / tally.whole.judged, 2) + 0.0 if tally.whole.judged else 0.0  # never -0.00
    return f"| {row.family} | {row.policy.name} | {row.faults.name} | {' | '.join(solved)} | {mean:.2f} |"


async def main(asked: argparse.Namespace) -> None:
    """Measure and print row by row."""
    print(HEAD)
    async with open_ground(load_world(asked.world), cells=asked.cells) as ground:
        for row in rows(asked):
            print(line(row, await measure(ground, row, asked)), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--world", default="billing")
    parser.add_argument("--families", default="", help="by commas; default: all of the world's")
    parser.add_argument("--policies", default=",".join(SCRIPTED), help="by commas; default: all")
    parser.add_argument("--episodes", type=int, default=60)
    parser.add_argument("--cells", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    anyio.run(main, parser.parse_args())
