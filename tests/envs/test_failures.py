"""The failure contract, row by row, each with its real cause."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import anyio
import docker
import pytest

from wardian.envs.action import Message, Step, call
from wardian.envs.definition import WorldDefinition
from wardian.envs.environment import ToolEnvironment
from wardian.envs.settings import Settings
from wardian.envs.verifier import FinalState, Verdict
from wardian.envs.worlds.toy.families.requests import LendingDesk
from wardian.envs.worlds.toy.schema import Loan
from wardian.tools.contract import Arguments, Tool, ToolContext
from wardian.tools.packs.shell import SHELL

pytestmark = pytest.mark.anyio
MakeEnv: TypeAlias = Callable[..., ToolEnvironment]
TASK = "lending-desk/easy/seed-1"
DONE = Message("Done.")


@pytest.fixture
def with_shell(toy: WorldDefinition) -> WorldDefinition:
    return replace(toy, tools=(*toy.tools, SHELL))


def judged_by(world: WorldDefinition, verify: Callable[[FinalState], Verdict]) -> WorldDefinition:
    class Judged(LendingDesk):
        def verify(self, state: FinalState) -> Verdict:
            return verify(state)

    return replace(world, families=(Judged(),))


def assert_failed(step: Step, cause: str) -> None:
    assert step.failed is not None
    assert step.failed.startswith(f"{cause}: ")
    assert (step.reward, step.reward_components, step.info.end_cause) == (None, {}, cause)
    assert step.done
    assert not step.terminated
    assert not step.truncated


async def test_a_container_that_is_removed_under_an_episode_fails_it(make_env: MakeEnv) -> None:
    async with make_env() as env:
        await env.reset(TASK)
        receipt = env.reset_info.receipt
        assert receipt is not None
        await anyio.to_thread.run_sync(_remove_container, receipt.cell_id)
        assert_failed(await env.step(call("read_file", path="requests.txt")), "infrastructure")
        await env.reset(TASK)
        assert (await env.step(call("read_file", path="requests.txt"))).failed is None


def _remove_container(cell_id: str) -> None:
    client = docker.from_env()
    try:
        found = [c for c in client.containers.list() if cell_id in (c.name or "") or cell_id in c.labels.values()]
        assert len(found) == 1, f"{cell_id}: {[(c.name, c.labels) for c in client.containers.list()]}"
        found[0].remove(force=True)
    finally:
        client.close()


@pytest.mark.parametrize(
    "bomb",
    [
        "x=a; while :; do x=$x$x; done",
        ":(){ :|:& };: ; sleep 2",
        "head -c 900M /dev/zero > /workspace/full; head -c 90M /dev/zero > /dev/shm/full",
        "kill -9 1; kill -9 -1",
    ],
    ids=["memory", "forks", "disk", "kill"],
)
async def test_what_the_agent_does_to_its_own_machine_is_the_agents(make_env: MakeEnv, with_shell: WorldDefinition, bomb: str) -> None:
    async with make_env(with_shell) as env:
        await env.reset(TASK)
        step = await env.step(call("shell", command=bomb, timeout_s=10))
        if not step.done:
            step = await env.step(DONE)
        assert step.failed is None
        assert step.reward is not None
        await env.reset(TASK)
        assert (await env.step(call("read_file", path="requests.txt"))).observation.results[0]["status"] == "ok"


def _raise(state: FinalState) -> Verdict:
    raise RuntimeError("no such table")


def _hang(state: FinalState) -> Verdict:
    while True:
        time.monotonic()


def _write(state: FinalState) -> Verdict:
    assert state.database is not None
    with state.database.session() as session:
        session.delete(session.get(Loan, 1))
        session.flush()
        session.commit()
    return LendingDesk().verify(state)


@pytest.mark.parametrize("verify", [_raise, _hang, _write])
async def test_a_verifier_that_breaks_gives_no_reward(make_env: MakeEnv, toy: WorldDefinition, verify: Any) -> None:
    async with make_env(judged_by(toy, verify), settings=Settings(verifier_s=0.5)) as env:
        await env.reset(TASK)
        assert_failed(await env.step(DONE), "verifier")


async def test_a_tool_that_breaks_is_not_the_agents_fault(make_env: MakeEnv, toy: WorldDefinition) -> None:
    async def broken(context: ToolContext, args: Arguments) -> None:
        raise KeyError("typo")

    tool = Tool("broken", "Breaks.", Arguments, broken)
    async with make_env(replace(toy, tools=(tool,))) as env:
        await env.reset(TASK)
        assert_failed(await env.step(call("broken")), "environment")


async def test_cancelling_a_step_gives_the_episode_up_and_its_cell_back(make_env: MakeEnv, with_shell: WorldDefinition) -> None:
    async with make_env(with_shell) as env:
        for _ in range(3):
            await env.reset(TASK)
            with anyio.move_on_after(0.2) as scope:
                await env.step(call("shell", command="sleep 60", timeout_s=100))
            assert scope.cancelled_caught
            assert env._episode is None
