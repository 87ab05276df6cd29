"""Limits in world time: what a tool declares, what a fault imposes, and how the agent waits."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wardian.sandbox.world import World
from wardian.tools.contract import Arguments, CallEvent, Latency, RateLimit, Source, Status, Tool, ToolCall, ToolContext, ToolResult
from wardian.tools.errors import ToolMisdeclared
from wardian.tools.faults import FaultPlan, FaultProfile
from wardian.tools.packs.waiting import WAIT
from wardian.tools.toolbox import Toolbox

START = datetime(2026, 1, 1, tzinfo=UTC)


class Nothing(Arguments):
    """Nothing to say."""


async def answer(context: ToolContext, arguments: Nothing) -> None:
    """Say nothing."""


def tool(**more: Any) -> Tool[Nothing]:
    return Tool("look", "Look.", Nothing, answer, **{"source": Source.CELL, "latency": Latency(0, 0), **more})


def world() -> World:
    return World(start=START, seed=1)


def call(box: Toolbox, on: World, name: str = "look", **args: Any) -> tuple[ToolResult, CallEvent]:
    return asyncio.run(box.call(on, ToolCall(name, args), agent_id="agent", step=1))


def limited() -> Toolbox:
    return Toolbox([tool(rate_limit=RateLimit(calls=2, per_s=10)), WAIT])


def always(**more: Any) -> FaultPlan:
    return FaultPlan(FaultProfile(name="always", rate_limited=1.0, **{"max_total": 1000, "max_consecutive": 1, **more}))


def test_a_call_beyond_the_rate_is_told_when_to_come_again_and_then_taken() -> None:
    on, box = world(), limited()
    call(box, on)
    call(box, on, "wait", seconds=4)
    call(box, on)
    result, event = call(box, on)
    assert (result.status, result.content, event.problem) == (Status.RATE_LIMITED, {"retry_after_ms": 6000}, "over_rate")
    assert "Try again after 6 s" in result.message
    call(box, on, "wait", seconds=6)
    assert call(box, on)[0].status is Status.OK
    assert call(box, on)[0].content == {"retry_after_ms": 4000}


def test_a_call_with_wrong_arguments_or_turned_away_does_not_count() -> None:
    on, box = world(), limited()
    for _ in range(5):
        assert call(box, on, odd=1)[0].status is Status.INVALID_ARGUMENTS
    assert [call(box, on)[0].status for _ in range(5)] == [Status.OK] * 2 + [Status.RATE_LIMITED] * 3
    assert on.memory.notes["rates"] == {"look": [on.clock.start_ms] * 2}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=25))
def test_no_span_of_time_has_more_calls_than_the_rate(pauses: list[int]) -> None:
    on, box = world(), limited()
    taken: list[int] = []
    for pause in pauses:
        if pause:
            call(box, on, "wait", seconds=pause)
        at_ms = on.clock.now_ms
        fits = len([one for one in taken if one > at_ms - 10_000]) < 2
        assert (call(box, on)[0].status is Status.OK) == fits
        taken += [at_ms] if fits else []


def test_a_counter_is_state_and_a_new_world_has_none() -> None:
    one, other = world(), world()
    box = limited()
    call(box, one)
    call(Toolbox([tool(), WAIT]), other)
    assert one.fingerprint().leaves["memory"] != other.fingerprint().leaves["memory"]
    assert world().memory.notes == {}


def test_a_limit_needs_a_way_to_wait() -> None:
    with pytest.raises(ToolMisdeclared, match="look: rate_limit: the agent cannot let time pass"):
        Toolbox([tool(rate_limit=RateLimit(1, 1))])
    with pytest.raises(ToolMisdeclared, match="rate_limit"):
        RateLimit(0, 1)


def test_an_injected_limit_lasts_as_it_says_and_uses_up_one_fault() -> None:
    on, box = world(), Toolbox([tool(), WAIT], always(retry_after_min_ms=5000, retry_after_max_ms=5000))
    result, event = call(box, on)
    assert (result.content, event.fault) == ({"retry_after_ms": 5000}, "rate_limited")
    call(box, on, "wait", seconds=3)
    again, early = call(box, on)
    assert (again.content, early.fault, early.problem) == ({"retry_after_ms": 2000}, None, "too_early")
    assert (on.memory.notes["faults"]["total"], on.memory.notes["faults"]["streak"]) == (1, {"look": 1})
    call(box, on, "wait", seconds=2)
    assert call(box, on)[0].status is Status.OK


def test_the_time_counts_from_the_answer_on() -> None:
    slow = tool(latency=Latency(700, 700))
    on, box = world(), Toolbox([slow, WAIT], always(retry_after_min_ms=1000, retry_after_max_ms=1000))
    assert call(box, on)[0].content == {"retry_after_ms": 1000}
    assert call(box, on)[0].content == {"retry_after_ms": 300}
    call(box, on, "wait", seconds=1)
    assert call(box, on)[0].status is Status.OK


def test_without_a_way_to_wait_an_injected_limit_is_over_at_once() -> None:
    on, box = world(), Toolbox([tool()], always())
    result, event = call(box, on)
    assert (result.status, result.content, event.fault) == (Status.RATE_LIMITED, None, "rate_limited")
    assert call(box, on)[0].status is Status.OK


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 9000), st.integers(0, 9000))
def test_an_injected_limit_stays_within_its_bounds(seed: int, low_ms: int, more_ms: int) -> None:
    on = World(start=START, seed=seed)
    box = Toolbox([tool(), WAIT], always(retry_after_min_ms=low_ms, retry_after_max_ms=low_ms + more_ms))
    assert low_ms <= call(box, on)[0].content["retry_after_ms"] <= low_ms + more_ms


def test_waiting_lets_world_time_pass_and_nothing_else() -> None:
    on, box = world(), Toolbox([WAIT], FaultPlan(FaultProfile(name="all", unavailable=1.0)))
    before = on.memory.dump()
    result, event = call(box, on, "wait", seconds=90)
    assert result.content == {"waited_s": 90, "world_time": "2026-01-01T00:01:30.000000Z"}
    assert (on.clock.elapsed_ms, result.latency_ms, event.fault) == (90_000, 90_000, None)
    assert on.memory.dump() != before
    assert (on.memory.notes, on.memory.call_counts) == ({}, {"wait": 1})


@pytest.mark.parametrize("seconds", [0, -1, 3601, 1.5, None])
def test_one_waits_whole_seconds_within_bounds(seconds: Any) -> None:
    assert call(Toolbox([WAIT]), world(), "wait", seconds=seconds)[0].status is Status.INVALID_ARGUMENTS
