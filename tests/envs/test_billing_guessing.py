"""The middling clerks: they solve some, and never all."""

from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

import pytest

from wardian.envs.action import Observation
from wardian.envs.environment import ToolEnvironment
from wardian.envs.family import Family, Solution
from wardian.envs.registry import load_world, open_environment
from wardian.envs.task import Difficulty
from wardian.envs.worlds.billing.guessing import best_guess, greedy
from wardian.tools.faults import REALISTIC

pytestmark = pytest.mark.anyio
WORLD = load_world("billing")
Script: TypeAlias = Callable[[Observation], Solution]
every_family = pytest.mark.parametrize("family", WORLD.families, ids=lambda family: family.name)


@pytest.fixture(scope="module")
async def env() -> AsyncIterator[ToolEnvironment]:
    async with open_environment(WORLD, faults=REALISTIC) as found:
        yield found


async def solved(env: ToolEnvironment, script: Script, family: Family, difficulty: Difficulty, seeds: range) -> list[bool]:
    found = []
    for seed in seeds:
        solution = script(await env.reset(f"{family.name}/{difficulty}/seed-{seed}"))
        step = await env.step(next(solution))
        while not step.done:
            step = await env.step(solution.send(step.observation))
        assert step.info.verdict is not None, step.failed
        found.append(step.info.verdict.succeeded)
    return found


@every_family
async def test_the_best_guess_is_right_at_times_and_not_always(env: ToolEnvironment, family: Family) -> None:
    ends = await solved(env, best_guess, family, Difficulty.EASY, range(4)) + await solved(
        env, best_guess, family, Difficulty.HARD, range(9)
    )
    assert 0 < sum(ends) < len(ends)


@every_family
async def test_greed_does_not_pay(env: ToolEnvironment, family: Family) -> None:
    assert not any(await solved(env, greedy, family, Difficulty.MEDIUM, range(3)))
