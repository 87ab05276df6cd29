"""The example `tree_search.py`: it solves what the greedy clerk misses, and gives the same result twice."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from wardian.envs.registry import load_world, open_environment

EXAMPLE = Path(__file__).parents[1] / "examples" / "tree_search.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tree_search", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["tree_search"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.anyio
async def test_the_search_solves_what_greed_misses_and_gives_the_same_twice(example: ModuleType) -> None:
    task_id = "billing-dispute/easy/seed-5"
    async with open_environment(load_world("billing"), forks=example.FORKS) as env:
        greed = await example.by_greed(env, task_id)
        found = [await example.search(env, task_id, example.clerk) for _ in range(2)]
    assert greed.info.verdict is not None
    assert not greed.info.verdict.succeeded
    assert found[0].succeeded
    assert found[0].fingerprint
    assert found[0] == found[1]
    assert len(found[0].rewards) > 1


@pytest.mark.anyio
async def test_a_search_without_the_right_branch_finds_nothing(example: ModuleType) -> None:
    async with open_environment(load_world("toy"), forks=1) as env:
        found = await example.search(env, "lending-desk/easy/seed-1", lambda seen: [example.Message("Done.")])
    assert not found.succeeded
    assert len(found.rewards) == 1
