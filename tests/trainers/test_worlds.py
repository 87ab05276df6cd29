"""The world that adapters are tested with does what their tests count on."""

import pytest

from wardian.envs.action import Action, Message, Observation, Step, call
from wardian.envs.registry import load_world, open_environment
from wardian.envs.splits import Split
from wardian.envs.task import Difficulty

TASK = "echoes/easy/seed-0"


@pytest.fixture(autouse=True)
def _on_the_path(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.syspath_prepend(request.path.parent)


async def played(*actions: Action) -> Step:
    async with open_environment(load_world("worlds:faulty")) as environment:
        await environment.reset(TASK)
        for action in actions:
            step = await environment.step(action)
    return step


@pytest.mark.anyio
async def test_the_reference_solves_each_difficulty() -> None:
    world = load_world("worlds:faulty")
    async with open_environment(world) as environment:
        for difficulty in Difficulty:
            script = world.families[0].reference(await environment.reset(f"echoes/{difficulty.value}/seed-1"))
            seen: Observation | None = None
            for _ in range(int(list(Difficulty).index(difficulty)) + 2):
                step = await environment.step(script.send(seen))  # type: ignore[arg-type] # the first is None
                seen = step.observation
            assert step.info.verdict is not None
            assert step.info.verdict.succeeded


@pytest.mark.anyio
async def test_the_sixth_call_truncates() -> None:
    step = await played(*(call("fail"),) * 6)
    assert (step.truncated, step.info.end_cause) == (True, "steps")


@pytest.mark.anyio
async def test_a_slow_call_sleeps_and_goes_on() -> None:
    step = await played(call("slow", seconds=0.01))
    assert (step.observation.results[0]["result"], step.done) == ({"slept_s": 0.01}, False)


@pytest.mark.anyio
async def test_what_breaks_us_is_infrastructure_and_has_no_reward() -> None:
    step = await played(call("echo", text="amber"), call("breaks_us"))
    assert (step.reward, step.info.end_cause) == (None, "infrastructure")


@pytest.mark.anyio
async def test_idle_earns_nothing() -> None:
    step = await played(Message("Done."))
    assert (step.terminated, step.reward) == (True, -0.01)


def test_each_split_has_tasks() -> None:
    family = load_world("worlds:faulty").families[0]
    assert {family.split_at(Difficulty.EASY, seed) for seed in range(40)} == {split.value for split in Split}
