"""Calls that land after their caller gave up: in the order of time, in the log, and before the verdict. No cell is needed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from wardian.envs.action import Action, Message, Step, call
from wardian.envs.definition import WorldDefinition
from wardian.envs.environment import ToolEnvironment
from wardian.envs.events import EventContext, PlannedEvent
from wardian.envs.task import Difficulty, Task
from wardian.envs.verifier import Check, FinalState, Verdict
from wardian.envs.worlds.toy.families.requests import LendingDesk
from wardian.envs.worlds.toy.schema import Item
from wardian.envs.worlds.toy.tools import TOOLS, LendItem, lend_item
from wardian.sandbox.database.base import Template
from wardian.tools.contract import Latency, Status, Tool
from wardian.tools.faults import NONE
from wardian.tools.packs.waiting import WAIT

pytestmark = pytest.mark.anyio
TASK = "lending-desk/easy/seed-1"


class Keyed(LendItem):
    key: str | None = None
    timeout_ms: int | None = None


LEND: Tool[Any] = Tool(
    "lend_item",
    "Lend.",
    Keyed,
    lend_item,
    mutates=True,
    idempotent=False,
    errors=(Status.NOT_FOUND, Status.CONFLICT),
    latency=Latency(3000, 3000),
    idempotency_key="key",
    timeout_argument="timeout_ms",
)


def delivered(context: EventContext) -> None:
    context.db.add(Item(id=104, kind="drill", written_off=False))


class Judged(LendingDesk):
    def __init__(self, at_s: int) -> None:
        self.at_s = at_s
        self.seen: list[FinalState] = []

    def generate(self, difficulty: Difficulty, seed: int) -> Task:
        whole = super().generate(difficulty, seed)
        return Task(whole.id, "Work.", whole.start, {}, events=(PlannedEvent("delivered", self.at_s, self.at_s),))

    def verify(self, state: FinalState) -> Verdict:
        self.seen.append(state)
        return Verdict((Check("report", True),))


@pytest.fixture
def play(toy: WorldDefinition, template: Template) -> Callable[..., Any]:
    async def played(family: Judged, *actions: Action) -> list[Step]:
        tools = (*(tool for tool in TOOLS if tool.name != "lend_item"), LEND, WAIT)
        world = replace(toy, needs_cell=False, tools=tools, families=(family,), events={"delivered": delivered})
        async with ToolEnvironment(world, template=template, cells=None, faults=NONE) as env:
            await env.reset(TASK)
            return [await env.step(action) for action in actions]

    return played


def lend(item_id: int) -> Action:
    return call("lend_item", item_id=item_id, member_id=3, days=7, timeout_ms=1000)


async def test_a_late_call_lands_between_two_calls_and_a_read_after_it_sees_it(play: Any) -> None:
    first, look, wait, after = await play(
        Judged(60), lend(102), call("show_item", item_id=102), call("wait", seconds=5), call("show_item", item_id=102)
    )
    assert (first.observation.results[0]["status"], first.info.database) == ("timeout", ())
    assert look.observation.results[0]["result"]["lent_to"] is None
    assert [(event.tool, event.landed, event.index) for event in wait.info.events] == [("wait", False, 2), ("lend_item", True, 0)]
    assert [row.table for row in wait.info.database] == ["loans"]
    assert after.observation.results[0]["result"]["lent_to"] == 3


@pytest.mark.parametrize(("at_s", "committed"), [(2, True), (4, False)])
async def test_late_calls_and_background_events_come_in_the_order_of_time(play: Any, at_s: int, committed: bool) -> None:
    family = Judged(at_s)
    _, wait = await play(family, lend(104), call("wait", seconds=9))
    assert [event.committed for event in wait.info.events] == [True, committed]
    assert len(wait.info.background) == 1


async def test_what_is_under_way_at_the_end_lands_before_the_verdict(play: Any) -> None:
    family = Judged(60)
    _, end = await play(family, lend(102), Message("Done."))
    (state,) = family.seen
    assert [(event.tool, event.landed, event.committed) for event in state.events] == [
        ("lend_item", False, False),
        ("lend_item", True, True),
    ]
    assert [change.table for change in state.agent_changes] == ["loans"]
    assert (end.terminated, [row.table for row in end.info.database]) == (True, ["loans"])


async def test_a_landing_is_no_step_and_no_result(play: Any) -> None:
    _, wait = await play(Judged(60), lend(102), call("wait", seconds=5))
    assert len(wait.observation.results) == 1
    assert wait.reward_components["step_cost"] == -0.002
