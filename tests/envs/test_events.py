"""Background events: when they happen, in which order, what stands of them in log, snapshot and verdict. No cell is needed."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any

import pytest
from pydantic import Field

from wardian.envs.action import Action, Message, Step, call
from wardian.envs.definition import WorldDefinition
from wardian.envs.environment import ToolEnvironment
from wardian.envs.errors import TaskError
from wardian.envs.events import EventContext, PlannedEvent
from wardian.envs.task import Difficulty, Task
from wardian.envs.verifier import Check, FinalState, Verdict
from wardian.envs.worlds.toy.families.requests import LendingDesk
from wardian.envs.worlds.toy.schema import Item, Loan
from wardian.envs.worlds.toy.tools import TOOLS
from wardian.sandbox.database.base import Template
from wardian.tools.contract import Arguments, Json, Tool, ToolContext
from wardian.tools.faults import NONE, FaultProfile

pytestmark = pytest.mark.anyio
TASK = "lending-desk/easy/seed-1"
LEND = call("lend_item", item_id=102, member_id=3, days=7)


class Wait(Arguments):
    seconds: Annotated[int, Field(ge=0)]


async def wait(context: ToolContext, args: Wait) -> Json:
    context.extra_ms = args.seconds * 1000
    return "waited"


WAIT: Tool[Any] = Tool("wait", "Let time pass.", Wait, wait, timeout_ms=10**9)


def delivered(context: EventContext) -> None:
    context.db.add(Item(id=context.facts["item_id"], kind="drill", written_off=False))
    context.note("delivered", item_id=context.facts["item_id"])
    context.say("carrier", f"Item {context.facts['item_id']} is here.")


def brought_back(context: EventContext) -> None:
    loan = context.db.get(Loan, context.facts["loan_id"])
    assert loan is not None
    if loan.returned_at is None:
        loan.returned_at = context.now
        context.note("brought_back", loan_id=loan.id)


def overdue(context: EventContext) -> None:
    loan = context.db.get(Loan, context.facts["loan_id"])
    assert loan is not None
    loan.due_at += timedelta(days=7)


def again(context: EventContext) -> None:
    context.note("rang", at=context.random("bell").random())
    context.queue("again", context.facts["every_ms"], every_ms=context.facts["every_ms"])


HANDLERS = {"delivered": delivered, "brought_back": brought_back, "overdue": overdue, "again": again}


def at(kind: str, at_s: int, **facts: Json) -> PlannedEvent:
    return PlannedEvent(kind, at_s, at_s, facts)


class Evented(LendingDesk):
    ends_on_effects = ("fire",)

    def __init__(self, *planned: PlannedEvent) -> None:
        self.planned = planned
        self.seen: list[FinalState] = []

    def generate(self, difficulty: Difficulty, seed: int) -> Task:
        whole = super().generate(difficulty, seed)
        return Task(whole.id, "Work.", whole.start, {}, events=self.planned)

    def verify(self, state: FinalState) -> Verdict:
        self.seen.append(state)
        return Verdict((Check("report", True),))


@pytest.fixture
def open_env(toy: WorldDefinition, template: Template) -> Callable[..., ToolEnvironment]:
    def make(*planned: PlannedEvent, family: Evented | None = None, faults: FaultProfile = NONE, **handlers: Any) -> ToolEnvironment:
        families = (family or Evented(*planned),)
        world = replace(toy, needs_cell=False, tools=(*TOOLS, WAIT), families=families, events={**HANDLERS, **handlers})
        return ToolEnvironment(world, template=template, cells=None, faults=faults)

    return make


async def played(env: ToolEnvironment, *actions: Action, seed: int = 0) -> list[Step]:
    async with env:
        await env.reset(TASK, seed)
        return [await env.step(action) for action in actions]


async def test_an_event_happens_when_its_time_has_passed_and_not_before(open_env: Any) -> None:
    env = open_env(at("delivered", 60, item_id=104))
    early, late, after = await played(env, call("wait", seconds=59), call("wait", seconds=1), call("show_item", item_id=104))
    assert (early.info.background, early.observation.incoming) == ((), ())
    (event,) = late.info.background
    start_ms = round(env.reset_info.task.start.timestamp() * 1000)
    assert (event.kind, event.at_ms - start_ms, event.step, event.after_calls) == ("delivered", 60_000, 2, 2)
    assert [(row.table, row.key, row.before) for row in event.rows] == [("items", (104,), None)]
    assert late.info.database == event.rows
    assert late.observation.incoming == ({"from": "carrier", "at": "2025-03-03T09:01:00+00:00", "text": "Item 104 is here."},)
    assert after.observation.results[0]["status"] == "ok"


async def test_events_are_no_calls(open_env: Any) -> None:
    (step,) = await played(open_env(at("delivered", 1, item_id=104)), call("wait", seconds=5))
    assert [event.tool for event in step.info.events] == ["wait"]
    assert step.reward_components["step_cost"] == -0.002


async def test_events_come_in_the_order_of_time_then_of_sequence(open_env: Any) -> None:
    env = open_env(at("delivered", 9, item_id=104), at("delivered", 5, item_id=105), at("delivered", 5, item_id=106))
    (step,) = await played(env, call("wait", seconds=10))
    assert [(event.facts["item_id"], event.sequence) for event in step.info.background] == [(105, 2), (106, 3), (104, 1)]


async def test_an_event_sees_its_own_time_and_the_world_of_that_moment(open_env: Any) -> None:
    env = open_env(at("brought_back", 30, loan_id=1))
    (step,) = await played(env, call("wait", seconds=100))
    assert step.info.background[0].rows[0].after is not None
    assert step.info.background[0].rows[0].after["returned_at"] == "2025-03-03T09:00:30.000Z"


async def test_an_event_whose_occasion_is_gone_leaves_nothing(open_env: Any) -> None:
    back = call("return_item", item_id=101)
    _, step = await played(open_env(at("brought_back", 30, loan_id=1)), back, call("wait", seconds=60))
    assert [(event.kind, event.effects, event.rows) for event in step.info.background] == [("brought_back", (), ())]


async def test_events_happen_between_the_calls_of_one_action(open_env: Any) -> None:
    env = open_env(at("delivered", 10, item_id=104))
    calls = [call("show_item", item_id=104), call("wait", seconds=10), call("show_item", item_id=104)]
    (step,) = await played(env, replace(calls[0], calls=tuple(one.calls[0] for one in calls)))
    assert [result["status"] for result in step.observation.results] == ["not_found", "ok", "ok"]
    assert step.observation.rendered.split("\n")[-1].startswith('{"from": "carrier"')


async def test_events_may_queue_others_and_a_world_that_wakes_itself_without_end_is_broken(open_env: Any) -> None:
    (step,) = await played(open_env(at("again", 1, every_ms=1000)), call("wait", seconds=10))
    assert [event.at_ms % 60_000 for event in step.info.background] == [1000 * number for number in range(1, 11)]
    (step,) = await played(open_env(at("again", 1, every_ms=1)), call("wait", seconds=10))
    assert (step.reward, step.info.end_cause) == (None, "environment")
    assert step.failed is not None
    assert "more than 1000 events" in step.failed


async def test_what_waits_is_part_of_snapshot_and_fingerprint(open_env: Any) -> None:
    env = open_env(at("delivered", 60, item_id=104))
    async with env:
        await env.reset(TASK)
        waiting = await env.snapshot()
        assert [entry["kind"] for entry in waiting.memory["pending"]] == ["delivered"]
        await env.step(call("wait", seconds=60))
        assert (await env.snapshot()).memory["pending"] == []
        assert any(line.startswith("memory pending") for line in (await env.snapshot()).differences(waiting))


async def test_times_are_drawn_from_the_episodes_streams(open_env: Any) -> None:
    async def drawn(*planned: PlannedEvent, seed: int) -> list[int]:
        async with open_env(*planned) as env:
            await env.reset(TASK, seed)
            return [entry["at_ms"] for entry in (await env.snapshot()).memory["pending"] if entry["facts"] == {"item_id": 104}]

    wanted = PlannedEvent("delivered", 10, 10_000, {"item_id": 104})
    assert await drawn(wanted, seed=1) == await drawn(wanted, seed=1) != await drawn(wanted, seed=2)
    assert await drawn(wanted, seed=1) == await drawn(wanted, PlannedEvent("again", 1, 9), seed=1)


async def test_an_effect_of_an_event_ends_the_episode_where_the_family_says_so(open_env: Any) -> None:
    def fire(context: EventContext) -> None:
        context.note("fire")

    env = open_env(at("fire", 5), fire=fire)
    (step,) = await played(env, call("wait", seconds=5))
    assert (step.terminated, step.info.end_cause) == (True, "fire")


@pytest.mark.parametrize("broken", [lambda context: 1 / 0, lambda context: context.db.add(Item(id=101, kind="saw", written_off=False))])
async def test_a_handler_that_breaks_is_the_worlds_fault(open_env: Any, broken: Any) -> None:
    (step,) = await played(open_env(at("broken", 1), broken=broken), call("wait", seconds=5))
    assert (step.reward, step.info.end_cause) == (None, "environment")
    assert step.failed is not None
    assert "event broken broke" in step.failed


async def test_a_task_with_an_event_that_the_world_does_not_know_is_refused(open_env: Any) -> None:
    async with open_env(at("earthquake", 1)) as env:
        with pytest.raises(TaskError, match="the task plans 'earthquake'; the world has delivered, brought_back"):
            await env.reset(TASK)


def test_a_span_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(TaskError, match="earliest_s <= latest_s, got 9 and 3"):
        PlannedEvent("delivered", 9, 3)


async def test_a_lagging_list_may_miss_an_event(open_env: Any) -> None:
    stale = FaultProfile(name="stale", stale=1.0, max_consecutive=5, max_total=100)
    env = open_env(at("delivered", 10, item_id=104), faults=stale)
    _, listed, shown = await played(env, call("wait", seconds=20), call("list_items", kind="drill"), call("show_item", item_id=104))
    assert 104 not in [item["item_id"] for item in listed.observation.results[0]["result"]]
    assert listed.info.events[0].fault == "stale"
    assert shown.observation.results[0]["status"] == "ok"


async def test_a_verifier_tells_what_the_agent_changed_from_what_the_world_did(open_env: Any) -> None:
    planned = (at("delivered", 10, item_id=104), at("brought_back", 10, loan_id=1), at("overdue", 10, loan_id=2))
    family = Evented(*planned)
    await played(open_env(family=family), LEND, call("wait", seconds=20), call("return_item", item_id=202), Message("Done."))
    (state,) = family.seen
    everything = {(change.table, change.key) for change in state.changes}
    assert everything == {("items", (104,)), ("loans", (1,)), ("loans", (2,)), ("loans", (7,))}
    lent, returned = sorted(state.agent_changes, key=lambda change: change.before is not None)
    assert (lent.key, lent.before) == ((7,), None)
    assert returned.before is not None
    assert returned.after is not None
    assert {name for name, value in returned.after.items() if returned.before[name] != value} == {"returned_at"}
    assert [event.kind for event in state.background] == ["delivered", "brought_back", "overdue"]


async def test_two_runs_of_one_seed_are_one_episode(open_env: Any) -> None:
    planned = (PlannedEvent("again", 1, 30, {"every_ms": 7000}), PlannedEvent("delivered", 1, 60, {"item_id": 104}))
    one, other = [await played(open_env(*planned), *[call("wait", seconds=20)] * 4, seed=3) for _ in range(2)]
    assert [step.info for step in one] == [step.info for step in other]
