"""The toy world keeps what every world must keep, and its verifier sees each kind of wrong."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import pytest

from wardian.envs.action import Message, Step, call
from wardian.envs.checker import EnvironmentBroken, check_environment
from wardian.envs.definition import WorldDefinition
from wardian.envs.environment import ToolEnvironment
from wardian.envs.family import Family
from wardian.envs.playing import play_reference
from wardian.envs.registry import open_environment
from wardian.envs.task import Difficulty
from wardian.envs.verifier import Check, FinalState, Verdict
from wardian.envs.worlds.toy.families.requests import LendingDesk
from wardian.sandbox.cell import Tier
from wardian.tools.faults import NONE, REALISTIC

pytestmark = pytest.mark.anyio
MakeEnv: TypeAlias = Callable[..., ToolEnvironment]
TASK = "lending-desk/easy/seed-1"


class AlwaysSolved(LendingDesk):
    def verify(self, state: FinalState) -> Verdict:
        return Verdict((Check("report", True),))


class NeverSolved(LendingDesk):
    def verify(self, state: FinalState) -> Verdict:
        return Verdict((Check("report", False, "never"),))


async def test_the_toy_world_keeps_the_contract(make_env: MakeEnv, toy: WorldDefinition) -> None:
    await check_environment(lambda faults: make_env(faults=faults), toy)


@pytest.mark.parametrize(
    ("family", "finding"),
    [
        (AlwaysSolved(), "doing nothing solves it"),
        (NeverSolved(), "the reference does not solve it: ended by message: report: never"),
    ],
)
async def test_the_checker_finds_what_is_wrong(make_env: MakeEnv, toy: WorldDefinition, family: Family, finding: str) -> None:
    world = replace(toy, families=(family,))
    with pytest.raises(EnvironmentBroken, match=finding):
        await check_environment(lambda faults: make_env(world, faults=faults), world, seeds=(1,), profiles=(NONE,))


async def ended(make_env: MakeEnv, *actions: Any) -> Step:
    async with make_env() as env:
        await env.reset(TASK)
        for action in (*actions, Message("Done.")):
            step = await env.step(action)
            if step.done:
                break
        return step


@pytest.mark.parametrize(
    ("actions", "wrong"),
    [
        ([], {"lent", "returned", "report"}),
        ([call("lend_item", item_id=601, member_id=7, days=60)], {"lent", "returned", "report"}),
        ([call("write_off_item", item_id=601)], {"lent", "returned", "report", "nothing_else", "stock_kept"}),
    ],
)
async def test_checks_name_what_is_wrong(make_env: MakeEnv, actions: list[Any], wrong: set[str]) -> None:
    verdict = (await ended(make_env, *actions)).info.verdict
    assert verdict is not None
    assert {check.name for check in verdict.checks if not check.passed} == wrong


async def test_a_report_alone_is_not_the_work(make_env: MakeEnv) -> None:
    lines = LendingDesk().generate(Difficulty.EASY, 1).parameters["report"]
    step = await ended(make_env, call("write_file", path="report.txt", content="\n".join(lines)))
    assert step.info.verdict is not None
    assert {check.name: check.passed for check in step.info.verdict.checks}["report"]
    assert not step.info.verdict.succeeded


async def test_both_tiers_give_the_same_episode(make_env: MakeEnv, toy: WorldDefinition) -> None:
    async with make_env(faults=REALISTIC) as chamber, open_environment(toy, faults=REALISTIC, tier=Tier.FRESH) as fresh:
        one, other = [await play_reference(env, "lending-desk/hard/seed-3", seed=4) for env in (chamber, fresh)]
        assert one.signature() == other.signature()
        assert one.last.info.verdict is not None
        assert one.last.info.verdict.succeeded
