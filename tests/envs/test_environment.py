"""The environment on real cells and a real database."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import anyio
import pytest

from wardian.envs.action import Malformed, Message, ToolCalls, call
from wardian.envs.definition import WorldDefinition
from wardian.envs.environment import ToolEnvironment
from wardian.envs.errors import NotReset, TaskError
from wardian.envs.playing import play_reference
from wardian.envs.settings import MalformedPolicy, Settings
from wardian.envs.task import Budgets, Difficulty, Task
from wardian.envs.worlds.toy.families.requests import LendingDesk
from wardian.sandbox.pool import CellPool
from wardian.tools.contract import Status, ToolCall

pytestmark = pytest.mark.anyio
MakeEnv: TypeAlias = Callable[..., ToolEnvironment]
TASK = "lending-desk/easy/seed-1"
LEND = call("lend_item", item_id=102, member_id=3, days=7)
BAD = call("lend_item", item_id="102")


def with_budgets(world: WorldDefinition, budgets: Budgets) -> WorldDefinition:
    class Tight(LendingDesk):
        def generate(self, difficulty: Difficulty, seed: int) -> Task:
            return replace(super().generate(difficulty, seed), budgets=budgets)

    return replace(world, families=(Tight(),))


async def test_the_first_observation_holds_instruction_policy_and_time(make_env: MakeEnv) -> None:
    async with make_env() as env:
        first = await env.reset(TASK)
        shown = first.results[0]["result"]
        assert shown["world_time"] == "2025-03-03T09:00:00+00:00"
        assert all(text.strip() in first.rendered for text in shown.values())
        assert first.tokens == -(-len(first.rendered.encode()) // 4)


async def test_a_step_says_what_it_changed(make_env: MakeEnv) -> None:
    async with make_env() as env:
        await env.reset(TASK)
        step = await env.step(LEND)
        assert step.observation.results[0]["status"] == "ok"
        assert [(change.table, change.before) for change in step.info.database] == [("loans", None)]
        assert [(event.tool, event.committed, event.effects[0]["item_id"]) for event in step.info.events] == [("lend_item", True, 102)]
        assert step.reward == step.reward_components["step_cost"] == -0.002
        assert not step.done
        assert step.info.fingerprint is not None
        changed = {line.split(":")[0] for line in step.info.fingerprint.differences(env.reset_info.fingerprint)}
        assert changed == {"clock", "database/(ids)", "database/loans", "memory", "streams"}


async def test_files_are_seen_as_changed_by_the_step_that_wrote_them(make_env: MakeEnv) -> None:
    async with make_env() as env:
        await env.reset(TASK)
        wrote = await env.step(call("write_file", path="report.txt", content="hello"))
        read = await env.step(call("read_file", path="report.txt"))
        assert "/workspace/report.txt" in wrote.info.files
        assert not read.info.files
        assert read.observation.results[0]["result"]["text"] == "hello"


async def test_calls_run_in_their_order_each_with_a_result(make_env: MakeEnv) -> None:
    async with make_env() as env:
        await env.reset(TASK)
        step = await env.step(ToolCalls((*LEND.calls, *LEND.calls, *call("return_item", item_id=102).calls)))
        assert [result["status"] for result in step.observation.results] == ["ok", "conflict", "ok"]
        assert step.observation.rendered.count("\n") == 2
        assert [event.index for event in step.info.events] == [0, 1, 2]


async def test_the_end_gives_verdict_and_components(make_env: MakeEnv) -> None:
    async with make_env() as env:
        last = (await play_reference(env, TASK)).last
        assert last.terminated
        assert last.info.end_cause == "message"
        assert last.info.recomputed
        assert last.reward_components == {"task": 1.0, "invalid_call": 0.0, "step_cost": -0.002, "report": 0.1}
        assert last.reward is not None
        assert math.isclose(last.reward, 1.098)


async def test_what_cannot_be_undone_ends_the_episode_at_once(make_env: MakeEnv) -> None:
    async with make_env() as env:
        await env.reset(TASK)
        step = await env.step(ToolCalls((*call("write_off_item", item_id=103).calls, *LEND.calls)))
        assert (step.terminated, step.info.end_cause) == (True, "written_off")
        assert len(step.observation.results) == 1
        assert step.reward_components["task"] == -1.0


@pytest.mark.parametrize(
    ("budgets", "action", "cause", "after"),
    [
        (Budgets(steps=3), LEND, "steps", 3),
        (Budgets(steps=3), ToolCalls(LEND.calls * 3), "steps", 1),
        (Budgets(tokens=1), LEND, "tokens", 1),
        (Budgets(virtual_s=0), LEND, "virtual_time", 1),
        (Budgets(invalid_streak=2), BAD, "invalid_streak", 2),
        (Budgets(invalid_streak=2), Malformed("?", "No call."), "invalid_streak", 2),
    ],
)
async def test_a_budget_truncates_by_its_name(
    make_env: MakeEnv, toy: WorldDefinition, budgets: Budgets, action: Any, cause: str, after: int
) -> None:
    async with make_env(with_budgets(toy, budgets)) as env:
        await env.reset(TASK)
        steps = [await env.step(action) for _ in range(after)]
        assert [step.done for step in steps] == [False] * (after - 1) + [True]
        assert (steps[-1].truncated, steps[-1].info.end_cause) == (True, cause)
        assert steps[-1].reward is not None
        assert steps[-1].info.verdict is not None


async def test_whoever_plays_an_episode_may_cut_it_off_and_it_is_judged_as_it_stands(make_env: MakeEnv, toy: WorldDefinition) -> None:
    async with make_env(toy) as env:
        await env.reset(TASK)
        played = await env.step(LEND)
        last = await env.truncate()
        assert (last.truncated, last.terminated, last.failed, last.info.end_cause) == (True, False, None, "stopped")
        assert (last.observation.rendered, last.info.events, last.info.verdict is not None) == ("", (), True)
        assert played.info.fingerprint == last.info.fingerprint
        with pytest.raises(NotReset):
            await env.truncate()


async def test_a_valid_call_ends_a_streak_of_invalid_ones(make_env: MakeEnv, toy: WorldDefinition) -> None:
    async with make_env(with_budgets(toy, Budgets(invalid_streak=2))) as env:
        await env.reset(TASK)
        assert not any([(await env.step(action)).done for action in (BAD, LEND, BAD, LEND, BAD)])


@pytest.mark.parametrize(
    "action", [BAD, Malformed("lend it!", "No call in this."), ToolCalls(()), ToolCalls((ToolCall("lend_item", "{"),))]
)
async def test_malformed_policies(make_env: MakeEnv, action: Any) -> None:
    outcomes = {}
    for policy in MalformedPolicy:
        async with make_env(malformed=policy) as env:
            await env.reset(TASK)
            step = await env.step(action)
            outcomes[policy.value] = (step.reward_components["invalid_call"], step.terminated, step.info.end_cause)
            assert "error" in step.observation.results[0]
    assert outcomes == {"recover": (0.0, False, ""), "penalise": (-0.05, False, ""), "terminate": (0.0, True, "malformed")}


async def test_raw_text_of_malformed_output_is_in_the_log(make_env: MakeEnv) -> None:
    async with make_env() as env:
        await env.reset(TASK)
        event = (await env.step(Malformed("<lend>", "No call in this."))).info.events[0]
        assert (event.args, event.status, event.problem) == ("<lend>", Status.MALFORMED_CALL, "No call in this.")
        assert (await env.step(LEND)).info.events[0].index == 1


async def test_without_a_running_episode_there_is_nothing_to_do(make_env: MakeEnv) -> None:
    async with make_env() as env:
        for _ in range(2):
            with pytest.raises(NotReset):
                await env.step(LEND)
            with pytest.raises(NotReset):
                await env.snapshot()
            await env.reset(TASK)
            await env.step(Message("Done."))


async def test_a_wrong_task_says_so_and_keeps_the_running_episode(make_env: MakeEnv) -> None:
    async with make_env() as env:
        await env.reset(TASK)
        with pytest.raises(TaskError, match="it has lending-desk"):
            await env.reset("borrowing-desk/easy/seed-1")
        await env.step(LEND)


async def test_rows_that_the_world_does_not_take_are_the_authors_fault(make_env: MakeEnv, toy: WorldDefinition) -> None:
    class Wrong(LendingDesk):
        def generate(self, difficulty: Difficulty, seed: int) -> Task:
            return replace(super().generate(difficulty, seed), rows={"shelves": ({"id": 1},)})

    async with make_env(replace(toy, families=(Wrong(),))) as env:
        with pytest.raises(TaskError, match="shelves"):
            await env.reset(TASK)


async def test_snapshots_of_one_state_are_equal_and_name_what_differs(make_env: MakeEnv) -> None:
    async with make_env() as env:
        await env.reset(TASK, seed=5)
        start = await env.snapshot()
        await env.step(LEND)
        lent = await env.snapshot()
        await env.reset(TASK, seed=5)
        assert (await env.snapshot()).differences(start) == ()
        await env.step(LEND)
        assert (await env.snapshot()).differences(lent) == ()
        found = "\n".join(lent.differences(start))
        assert all(name in found for name in ("database/loans", "row loans", "stream latency/lend_item", "spent", "clock_ms"))


async def test_equal_seeds_give_equal_streams_and_others_do_not(make_env: MakeEnv) -> None:
    async with make_env() as env:
        clocks = []
        for seed in (1, 1, 2):
            await env.reset(TASK, seed=seed)
            clocks.append((await env.step(LEND)).info.clock_ms)
        assert clocks[0] == clocks[1] != clocks[2]


async def test_close_gives_the_cell_back_and_may_be_called_twice(make_env: MakeEnv, cells: CellPool) -> None:
    env = make_env()
    for _ in range(3):
        await env.reset(TASK)
        await env.close()
        await env.close()
    others = [make_env() for _ in range(2)]
    for other in others:
        with anyio.fail_after(20):
            await other.reset(TASK)
    assert cells.statistics().leased == 2
    for other in others:
        await other.close()
    assert cells.statistics().leased == 0


async def test_the_fingerprint_is_recomputed_every_so_many_steps(make_env: MakeEnv) -> None:
    async with make_env(settings=Settings(recompute_every=2)) as env:
        await env.reset(TASK)
        assert [(await env.step(LEND)).info.recomputed for _ in range(4)] == [False, True, False, True]


async def test_a_world_with_cells_needs_a_pool(make_env: MakeEnv) -> None:
    with pytest.raises(ValueError, match="give a CellPool"):
        make_env(cells=None)
