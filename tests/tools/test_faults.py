import asyncio
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from wardian.sandbox.world import World
from wardian.tools.contract import Arguments, Source, Tool, ToolCall, ToolContext
from wardian.tools.faults import (
    DRAWS,
    HARSH,
    NONE,
    PROFILES,
    REALISTIC,
    Drawn,
    Fault,
    FaultPlan,
    FaultProfile,
    draw,
    landed,
    possible,
    revoked,
)
from wardian.tools.toolbox import Toolbox


class Nothing(Arguments):
    """Nothing to say."""


async def answer(context: ToolContext, arguments: Nothing) -> None:
    """Say nothing."""


def tool(name: str = "read", **more: Any) -> Tool[Nothing]:
    return Tool(name=name, description="A tool.", arguments=Nothing, handler=answer, **more)


def world(seed: int = 1) -> World:
    return World(start=datetime(2026, 1, 1, tzinfo=UTC), seed=seed)


def always(fault: Fault, **more: Any) -> FaultProfile:
    return FaultProfile(name="always", **{fault.value: 1.0, "max_total": 1000, **more})


def test_each_fault_hits_only_tools_that_can_have_it() -> None:
    plan = FaultPlan(HARSH, revocable_scopes=("pay",))
    basic = {Fault.UNAVAILABLE, Fault.RATE_LIMITED, Fault.TIMEOUT_BEFORE, Fault.SLOW}
    assert possible(tool(), plan) == basic
    assert possible(tool(mutates=True), plan) == basic | {Fault.TIMEOUT_AFTER}
    assert possible(tool(source=Source.REPLICA), plan) == basic | {Fault.STALE}
    assert possible(tool(source=Source.REPLICA, empty_page=[]), plan) == basic | {Fault.STALE, Fault.EMPTY}
    assert possible(tool(scopes=("pay", "see")), plan) == basic | {Fault.REVOKED, Fault.MISSING}
    assert possible(tool(scopes=("see",)), plan) == basic


def test_a_spared_tool_and_the_profile_none_are_never_hit() -> None:
    assert possible(tool(), FaultPlan(HARSH, spared=("read",))) == frozenset()
    assert possible(tool(mutates=True), FaultPlan(NONE)) == frozenset()


def test_every_call_takes_the_same_numbers_whatever_the_profile() -> None:
    for profile in PROFILES.values():
        found = world()
        for _ in range(20):
            draw(found, tool(), FaultPlan(profile))
        fresh = world().streams["faults/read"]
        for _ in range(20 * DRAWS):
            fresh.random()
        assert found.streams["faults/read"].random() == fresh.random()


def test_one_tools_calls_do_not_shift_anothers() -> None:
    alone, beside = world(), world()
    plan = FaultPlan(HARSH)
    expected = [draw(alone, tool("one"), plan) for _ in range(50)]
    found = []
    for _ in range(50):
        found.append(draw(beside, tool("one"), plan))
        draw(beside, tool("two"), plan)
    assert found == expected


def test_faults_in_a_row_and_in_all_are_bounded() -> None:
    found, plan = world(), FaultPlan(always(Fault.UNAVAILABLE, max_consecutive=2, max_total=5))
    pattern = []
    for _ in range(12):
        fault = draw(found, tool(), plan).fault
        landed(found, "read", fault)
        pattern.append(fault is not None)
    assert pattern == [True, True, False, True, True, False, True, False, False, False, False, False]


def test_rates_come_out_as_declared() -> None:
    profile = FaultProfile(name="half", unavailable=0.2, timeout_before=0.3)
    found = world()
    counts = Counter(draw(found, tool(), FaultPlan(profile)).fault for _ in range(5000))
    assert counts[Fault.UNAVAILABLE] / 5000 == pytest.approx(0.2, abs=0.02)
    assert counts[Fault.TIMEOUT_BEFORE] / 5000 == pytest.approx(0.3, abs=0.02)


def test_a_scope_is_revoked_once_and_only_when_declared() -> None:
    found, payer = world(), tool(scopes=("pay",))
    assert draw(found, payer, FaultPlan(always(Fault.REVOKED), revocable_scopes=("see",))) == Drawn()
    assert draw(found, payer, FaultPlan(always(Fault.REVOKED), revocable_scopes=("pay",))).scope == "pay"
    revoked(found, "pay")
    assert draw(found, payer, FaultPlan(always(Fault.REVOKED), revocable_scopes=("pay",))) == Drawn()


def test_the_profile_none_leaves_no_trace_in_memory() -> None:
    found = world()
    draw(found, tool(), FaultPlan(NONE))
    landed(found, "read", None)
    assert found.memory.notes == {}


@pytest.mark.parametrize("bad", [{"unavailable": 1.5}, {"unavailable": 0.6, "stale": 0.6}, {"flaky": 0.1}, {"max_consecutive": 0}])
def test_a_profile_that_cannot_be_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        FaultProfile(name="x", **bad)


def test_profiles_grow_harsher() -> None:
    for fault in Fault:
        assert PROFILES["mild"].rate(fault) <= REALISTIC.rate(fault) <= HARSH.rate(fault)


def test_a_slowed_profile_alone_never_makes_a_tool_time_out() -> None:
    box = Toolbox([tool(source=Source.CELL, timeout_ms=100)], FaultPlan(FaultProfile(name="s", latency_multiplier=50.0)))
    result, event = asyncio.run(box.call(world(), ToolCall("read", {}), agent_id="a", step=1))
    assert (result.status.value, result.latency_ms, event.fault) == ("ok", 100, None)
