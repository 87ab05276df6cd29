"""How writes arrive, on a real database: twice, late, against a concurrent change, and seen by replicas only after a while."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import Field
from sqlalchemy import func, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from wardian.sandbox.database import SqliteTemplate
from wardian.sandbox.database.base import Template, TemplateSource
from wardian.sandbox.world import World
from wardian.tools.contract import (
    Arguments,
    CallEvent,
    Json,
    Latency,
    Refusal,
    Source,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
)
from wardian.tools.errors import ToolMisdeclared
from wardian.tools.faults import Fault, FaultPlan, FaultProfile
from wardian.tools.packs.waiting import WAIT
from wardian.tools.toolbox import Toolbox
from wardian.tools.versions import unchanged, version_of


class Base(DeclarativeBase):
    pass


class Deposit(Base):
    __tablename__ = "deposits"
    id: Mapped[int] = mapped_column(primary_key=True)
    cents: Mapped[int]
    at_ms: Mapped[int]


def seed_rows(session: Session, seed: int) -> None:
    session.add(Deposit(id=1, cents=100, at_ms=0))


class Pay(Arguments):
    cents: int = Field(ge=1)
    key: str | None = None
    give_up_ms: int | None = None


class Change(Arguments):
    id: int
    cents: int
    if_version: str | None = None


class Nothing(Arguments):
    """Nothing to say."""


async def pay(context: ToolContext, args: Pay) -> Json:
    total = context.db.scalar(select(func.sum(Deposit.cents))) or 0
    if total + args.cents > 1000:
        raise Refusal(Status.CONFLICT, "the till is full")
    row = Deposit(id=context.new_id("deposits"), cents=args.cents, at_ms=round(context.now.timestamp() * 1000))
    context.db.add(row)
    context.note("paid", cents=args.cents)
    return {"id": row.id}


async def total(context: ToolContext, args: Nothing) -> Json:
    return context.db.scalar(select(func.sum(Deposit.cents)))


async def change(context: ToolContext, args: Change) -> Json:
    row = context.db.get(Deposit, args.id)
    unchanged(row, args.if_version, f"deposit {args.id}")
    assert row is not None
    row.cents = args.cents
    return {"version": version_of(row)}


async def show(context: ToolContext, args: Nothing) -> Json:
    return {row.id: version_of(row) for row in context.db.scalars(select(Deposit))}.get(1)


def paying(**more: Any) -> Tool[Any]:
    common: dict[str, Any] = {"idempotency_key": "key", "timeout_argument": "give_up_ms", "latency": Latency(100, 100)}
    return Tool("pay", "Pay in.", Pay, pay, mutates=True, idempotent=False, errors=(Status.CONFLICT,), **common | more)


TOTAL = Tool("total", "What is in.", Nothing, total, latency=Latency(10, 10))
LISTED = Tool("listed", "What is in, by a copy.", Nothing, total, source=Source.REPLICA, latency=Latency(10, 10))
CHANGE = Tool("change", "Change.", Change, change, mutates=True, errors=(Status.CONFLICT,), version_argument="if_version")
SHOW = Tool("show", "Version of the first.", Nothing, show)
TOOLS = (paying(), TOTAL, LISTED, WAIT, CHANGE, SHOW)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return SqliteTemplate.build(TemplateSource("till", Base.metadata, seed_rows), tmp_path_factory.mktemp("till"))


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world()


def call(box: Toolbox, on: World, name: str, step: int = 1, **args: Json) -> tuple[ToolResult, CallEvent]:
    return asyncio.run(box.call(on, ToolCall(name, args), agent_id="agent", step=step))


def land(box: Toolbox, on: World) -> list[CallEvent]:
    """Let land what is due, as the environment does after each call."""
    landed = []
    while (due_ms := box.late_ms(on)) is not None and due_ms <= on.clock.now_ms:
        landed.append(asyncio.run(box.land(on, 2)))
    return landed


def always(fault: Fault, tools: tuple[Tool[Any], ...] = TOOLS, **more: Any) -> Toolbox:
    profile = FaultProfile(name="always", **{fault.value: 1.0, "max_total": 1000, "max_consecutive": 1, **more})
    return Toolbox(tools, FaultPlan(profile))


def rows(on: World) -> list[int]:
    assert on.database is not None
    with on.database.transaction() as session:
        return list(session.scalars(select(Deposit.cents).order_by(Deposit.id)))


# Delivered twice.


def test_a_call_without_a_key_that_is_delivered_twice_has_its_effect_twice(world: World) -> None:
    result, event = call(always(Fault.DUPLICATE), world, "pay", cents=5)
    assert (result.status, result.content, event.fault) == (Status.OK, {"id": 2}, "duplicate")
    assert (rows(world), event.effects) == ([100, 5, 5], ({"kind": "paid", "cents": 5},) * 2)


def test_with_a_key_a_second_delivery_is_harmless(world: World) -> None:
    result, event = call(always(Fault.DUPLICATE), world, "pay", cents=5, key="k")
    assert (result.content, event.fault, rows(world)) == ({"id": 2}, "duplicate", [100, 5])
    assert event.effects == ({"kind": "paid", "cents": 5},)


def test_a_second_delivery_that_is_refused_changes_nothing(world: World) -> None:
    result, event = call(always(Fault.DUPLICATE), world, "pay", cents=600)
    assert (result.status, rows(world), len(event.effects)) == (Status.OK, [100, 600], 1)


def test_a_refused_call_is_not_delivered_again(world: World) -> None:
    assert call(always(Fault.DUPLICATE), world, "pay", cents=2000)[1].fault is None


def test_a_tool_without_a_key_is_never_delivered_twice(world: World) -> None:
    assert call(always(Fault.DUPLICATE, (paying(idempotency_key=""), WAIT)), world, "pay", cents=5)[1].fault is None
    assert rows(world) == [100, 5]


def test_the_agent_sees_no_difference_between_once_and_twice(make_world: Callable[..., World]) -> None:
    once, twice = make_world(), make_world()
    assert call(Toolbox(TOOLS), once, "pay", cents=5)[0] == call(always(Fault.DUPLICATE), twice, "pay", cents=5)[0]


# Slow, against the caller's own timeout.


def test_a_slow_call_lands_after_its_caller_gave_up(world: World) -> None:
    box = always(Fault.SLOW, slow_multiplier=30.0, caller_timeout_ms=1000)
    began = world.clock.now_ms
    result, event = call(box, world, "pay", cents=5)
    assert (result.status, result.latency_ms, event.fault, event.committed) == (Status.TIMEOUT, 1000, "slow", False)
    assert (land(box, world), rows(world)) == ([], [100])
    call(box, world, "wait", seconds=2)
    (late,) = land(box, world)
    assert (late.landed, late.index, late.tool, late.committed, late.at_ms - began) == (True, event.index, "pay", True, 3000)
    assert (late.effects, late.latency_ms, late.fault) == (({"kind": "paid", "cents": 5},), 0, None)
    assert call(Toolbox(TOOLS), world, "total")[0].content == 105


def test_a_late_effect_carries_the_time_at_which_it_landed(world: World) -> None:
    box = always(Fault.SLOW, slow_multiplier=30.0, caller_timeout_ms=1000)
    call(box, world, "pay", cents=5)
    call(box, world, "wait", seconds=100)
    land(box, world)
    assert world.database is not None
    with world.database.transaction() as session:
        assert session.scalars(select(Deposit.at_ms)).all() == [0, world.clock.start_ms + 3000]


@pytest.mark.parametrize(("key", "expected"), [("k", [100, 5]), (None, [100, 5, 5])])
def test_repeating_a_call_that_is_still_on_its_way_needs_a_key(world: World, key: str | None, expected: list[int]) -> None:
    box = always(Fault.SLOW, slow_multiplier=30.0, caller_timeout_ms=1000)
    args = {"cents": 5} if key is None else {"cents": 5, "key": key}
    assert call(box, world, "pay", **args)[0].status is Status.TIMEOUT
    assert call(box, world, "pay", **args)[0].status is Status.OK
    call(box, world, "wait", seconds=60)
    assert [event.committed for event in land(box, world)] == [key is None]
    assert rows(world) == expected


def test_the_callers_own_timeout_is_an_argument_and_needs_no_fault(world: World) -> None:
    box = Toolbox(TOOLS)
    result, event = call(box, world, "pay", cents=5, give_up_ms=60)
    assert (result.status, result.latency_ms, event.fault, rows(world)) == (Status.TIMEOUT, 60, None, [100])
    assert "within 0.06 s" in result.message
    call(box, world, "total")
    assert land(box, world) == []
    call(box, world, "wait", seconds=1)
    assert [event.committed for event in land(box, world)] == [True]
    assert rows(world) == [100, 5]


def test_a_repeated_call_may_wait_longer_under_the_same_key(world: World) -> None:
    box = Toolbox(TOOLS)
    call(box, world, "pay", cents=5, key="k", give_up_ms=60)
    assert call(box, world, "pay", cents=5, key="k", give_up_ms=5000)[0].status is Status.OK
    assert call(box, world, "pay", cents=5, key="k")[0].status is Status.OK
    assert rows(world) == [100, 5]


def test_a_late_call_may_find_that_it_is_refused(world: World) -> None:
    box = Toolbox(TOOLS)
    call(box, world, "pay", cents=600, give_up_ms=60)
    call(box, world, "pay", cents=600)
    (late,) = land(box, world)
    assert (late.status, late.committed, late.effects, rows(world)) == (Status.CONFLICT, False, (), [100, 600])


@pytest.mark.parametrize("tools", [(paying(idempotency_key=""), WAIT), (paying(),)])
def test_what_could_not_be_repeated_or_waited_for_has_its_effect_at_once(world: World, tools: tuple[Tool[Any], ...]) -> None:
    box = Toolbox(tools)
    result, event = call(box, world, "pay", cents=5, give_up_ms=60)
    assert (result.status, event.committed, box.late_ms(world), rows(world)) == (Status.TIMEOUT, True, None, [100, 5])


def test_an_agents_side_that_gives_up_early_still_waits_for_calls_that_are_not_slow(world: World) -> None:
    box = Toolbox(TOOLS, FaultPlan(FaultProfile(name="hasty", caller_timeout_ms=1, latency_multiplier=50.0)))
    assert call(box, world, "pay", cents=5)[0].status is Status.OK


def test_what_is_on_its_way_is_state_of_the_world(world: World) -> None:
    box = Toolbox(TOOLS)
    before = world.memory.digest()
    call(box, world, "pay", cents=5, give_up_ms=60)
    assert world.memory.notes["late"] == [
        {"due_ms": world.clock.start_ms + 100, "index": 0, "tool": "pay", "args": {"cents": 5, "give_up_ms": 60}, "agent_id": "agent"}
    ]
    assert world.memory.digest() != before
    assert Toolbox(TOOLS).late_ms(world) == box.late_ms(world)
    call(box, world, "wait", seconds=1)
    land(box, world)
    assert "late" not in world.memory.notes


def test_a_timeout_says_the_same_whatever_became_of_the_call(make_world: Callable[..., World]) -> None:
    said = set()
    for fault in (Fault.TIMEOUT_BEFORE, Fault.TIMEOUT_AFTER, Fault.SLOW):
        box = always(fault, slow_multiplier=1000.0)
        said.add(str(call(box, make_world(), "pay", cents=5)[0].visible()))
    assert len(said) == 1
    assert "same key" in said.pop()


def test_a_timeout_argument_that_is_none_is_refused() -> None:
    with pytest.raises(ToolMisdeclared, match="timeout_argument"):
        paying(timeout_argument="patience")


# Against a concurrent change.


def test_a_version_that_is_still_right_is_accepted_and_one_that_is_not_is_refused(world: World) -> None:
    box = Toolbox(TOOLS)
    read = call(box, world, "show")[0].content
    written = call(box, world, "change", id=1, cents=7, if_version=read)[0].content["version"]
    result, event = call(box, world, "change", id=1, cents=8, if_version=read)
    assert (result.status, result.content, event.committed, rows(world)) == (Status.CONFLICT, {"version": written}, False, [7])
    assert call(box, world, "change", id=1, cents=8, if_version=written)[0].status is Status.OK
    assert call(box, world, "change", id=1, cents=9)[0].status is Status.OK


def test_a_row_that_was_changed_back_has_its_version_again(world: World) -> None:
    box = Toolbox(TOOLS)
    read = call(box, world, "show")[0].content
    call(box, world, "change", id=1, cents=7)
    assert call(box, world, "show")[0].content != read
    call(box, world, "change", id=1, cents=100)
    assert call(box, world, "show")[0].content == read


@pytest.mark.parametrize(("name", "args"), [("pay", {"cents": 5}), ("change", {"id": 1, "cents": 5})])
def test_a_call_that_someone_else_came_before_writes_nothing_and_a_retry_works(world: World, name: str, args: dict[str, Json]) -> None:
    assert world.database is not None
    before = world.database.fingerprint().root
    box = always(Fault.CONFLICT)
    result, event = call(box, world, name, **args)
    assert (result.status, event.fault, event.committed, event.effects) == (Status.CONFLICT, "conflict", False, ())
    assert world.database.fingerprint().root == before == world.database.recompute().root
    assert call(box, world, name, **args)[0].status is Status.OK


def test_a_call_that_is_refused_anyway_is_refused_for_its_own_reason(world: World) -> None:
    result, event = call(always(Fault.CONFLICT), world, "pay", cents=2000)
    assert ("the till is full" in result.message, event.fault) == (True, None)


def test_a_key_is_not_used_up_by_a_conflict(world: World) -> None:
    box = always(Fault.CONFLICT)
    call(box, world, "pay", cents=5, key="k")
    assert (call(box, world, "pay", cents=5, key="k")[0].status, rows(world)) == (Status.OK, [100, 5])


# Seen by replicas only after a while.


def lagging(**more: Any) -> Toolbox:
    return always(Fault.LAGGING, lag_min_ms=5000, lag_max_ms=5000, max_consecutive=5, **more)


def test_replicas_show_the_state_before_a_write_for_a_while_and_the_primary_does_not(world: World) -> None:
    box = lagging(max_lag_steps=1)
    result, event = call(box, world, "pay", cents=5)
    assert (result.status, event.fault, event.committed) == (Status.OK, "lagging", True)
    call(box, world, "wait", seconds=4)
    seen, read = call(box, world, "listed", step=90)
    assert (seen.content, read.fault, read.stale_step) == (100, None, 1)
    assert call(box, world, "total", step=90)[0].content == 105
    call(box, world, "wait", seconds=1)
    assert call(box, world, "listed", step=99)[0].content == 105
    box.close()


def test_a_replica_that_stands_still_does_not_show_later_writes_either(world: World) -> None:
    box = always(Fault.LAGGING, lag_min_ms=5000, lag_max_ms=5000, max_total=1)
    call(box, world, "pay", cents=5)
    call(box, world, "pay", cents=6)
    assert (call(box, world, "listed")[0].content, call(box, world, "total")[0].content) == (100, 111)
    call(box, world, "wait", seconds=5)
    assert call(box, world, "listed")[0].content == 111
    box.close()


def test_of_two_lags_the_older_state_shows_until_its_own_end(world: World) -> None:
    box = lagging()
    call(box, world, "pay", cents=5)
    call(box, world, "wait", seconds=3)
    call(box, world, "pay", cents=6)
    assert call(box, world, "listed")[0].content == 100
    call(box, world, "wait", seconds=2)
    assert call(box, world, "listed")[0].content == 105
    call(box, world, "wait", seconds=3)
    assert call(box, world, "listed")[0].content == 111
    box.close()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1000), low_ms=st.integers(1, 9000), more_ms=st.integers(0, 9000))
def test_a_lag_stays_within_its_bounds(make_world: Callable[..., World], seed: int, low_ms: int, more_ms: int) -> None:
    on = make_world(seed)
    box = always(Fault.LAGGING, lag_min_ms=low_ms, lag_max_ms=low_ms + more_ms)
    call(box, on, "pay", cents=5)
    (entry,) = on.memory.notes["faults"]["lag"]
    assert low_ms <= entry["until_ms"] - on.clock.now_ms <= low_ms + more_ms
    box.close()


def test_a_refused_write_and_one_that_changes_nothing_lag_behind_nothing(world: World) -> None:
    box = lagging()
    assert call(box, world, "pay", cents=2000)[1].fault is None
    assert call(box, world, "change", id=1, cents=100)[1].fault is None
    box.close()


@pytest.mark.parametrize("tools", [(paying(), WAIT), (paying(), LISTED)])
def test_nothing_lags_where_nobody_reads_a_replica_or_can_wait(world: World, tools: tuple[Tool[Any], ...]) -> None:
    assert call(always(Fault.LAGGING, tools), world, "pay", cents=5)[1].fault is None


def test_a_toolbox_that_takes_over_older_copies_lags_as_the_first_did(world: World) -> None:
    box = lagging()
    call(box, world, "pay", cents=5)
    other = lagging()
    other.adopt(box.older)
    assert call(other, world, "listed", step=50)[0].content == 100
    other.close()


def test_copies_that_are_too_old_are_let_go_by_the_next_write(world: World) -> None:
    box = always(Fault.STALE, max_lag_steps=2)
    for step in range(1, 10):
        call(box, world, "pay", step=step, cents=1)
    assert len(box._replicas._copies) == 3
    box.close()
