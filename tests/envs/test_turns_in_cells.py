"""Several calls of one turn in one cell: each its own result, in their order, whatever becomes of the cell."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import pytest

from wardian.envs.action import ToolCalls
from wardian.envs.definition import WorldDefinition
from wardian.envs.environment import ToolEnvironment
from wardian.sandbox.errors import CellDied, DeathCause
from wardian.tools.contract import Arguments, Json, Source, Tool, ToolCall, ToolContext
from wardian.tools.packs.shell import SHELL

pytestmark = pytest.mark.anyio
MakeEnv: TypeAlias = Callable[..., ToolEnvironment]
TASK = "lending-desk/easy/seed-1"
DEEP = "for n in $(seq 140); do mkdir d && cd d; done"


class Nothing(Arguments):
    """Nothing to say."""


async def end_cell(context: ToolContext, arguments: Nothing) -> Json:
    raise CellDied(context.cell.id, DeathCause.POLICY, "the agent ended it")


@pytest.fixture
def with_shell(toy: WorldDefinition) -> WorldDefinition:
    fatal = Tool("fatal", "End the cell.", Nothing, end_cell, source=Source.CELL, mutates=True)
    return replace(toy, tools=(*toy.tools, SHELL, fatal))


def shell(command: str, timeout_s: int = 10) -> ToolCall:
    return ToolCall("shell", {"command": command, "timeout_s": timeout_s})


def edit(old: str, new: str) -> ToolCall:
    return ToolCall("edit_file", {"path": "f", "old": old, "new": new})


async def test_calls_of_one_turn_see_what_those_before_them_did(make_env: MakeEnv, with_shell: WorldDefinition) -> None:
    calls = (shell("printf 'a b' > f; exit 3"), edit("a", "1"), edit("1 b", "1 2"), edit("a", "x"), shell("sleep 30", 1), shell("cat f"))
    async with make_env(with_shell) as env:
        await env.reset(TASK)
        step = await env.step(ToolCalls(calls))
    results = step.observation.results
    assert [result["status"] for result in results] == ["ok", "ok", "ok", "conflict", "timeout", "ok"]
    assert (results[0]["result"]["exit_code"], results[5]["result"]["stdout"]) == (3, "1 2")
    assert [event.index for event in step.info.events] == [0, 1, 2, 3, 4, 5]


async def test_calls_after_one_that_ends_the_cell_are_answered(make_env: MakeEnv, with_shell: WorldDefinition) -> None:
    calls = (shell("echo on"), ToolCall("fatal", {}), shell("echo never"), ToolCall("list_items", {}))
    async with make_env(with_shell) as env:
        await env.reset(TASK)
        step = await env.step(ToolCalls(calls))
    assert [result["status"] for result in step.observation.results] == ["ok", "unavailable", "unavailable", "unavailable"]
    assert ["was not run" in result.get("error", "") for result in step.observation.results] == [False, False, True, True]
    assert (step.terminated, step.info.end_cause, step.failed) == (True, "cell_died", None)


async def test_a_cell_that_is_lost_after_the_last_call_leaves_one_result_for_each(make_env: MakeEnv, with_shell: WorldDefinition) -> None:
    async with make_env(with_shell) as env:
        await env.reset(TASK)
        step = await env.step(ToolCalls((shell("echo on"), shell(DEEP))))
    assert [result["status"] for result in step.observation.results] == ["ok", "ok"]
    assert (step.terminated, step.info.end_cause) == (True, "cell_died")


async def test_kept_output_is_the_episodes_own(make_env: MakeEnv, with_shell: WorldDefinition) -> None:
    loud, look = ToolCalls((shell("seq 1 9000"),)), ToolCalls((shell("ls /tmp | wc -l"),))
    async with make_env(with_shell) as env:
        found = []
        for _ in range(2):
            await env.reset(TASK)
            steps = [await env.step(loud), await env.step(look)]
            found.append((list(steps[0].info.files), steps[1].observation.results[0]["result"]["stdout"], steps[0].info.fingerprint))
        await env.reset(TASK)
        clean = await env.step(look)
    assert found[0] == found[1]
    assert ([path.startswith("/tmp/output-") for path in found[0][0]], found[0][1]) == ([True], "1\n")
    assert clean.observation.results[0]["result"]["stdout"] == "0\n"
