"""What holds for any profile and any sequence of calls: bounds, equal draws, exactness, and a log that tells only what happened."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from wardian.sandbox.database import SqliteTemplate
from wardian.sandbox.database.base import Template, TemplateSource
from wardian.sandbox.world import World
from wardian.tools.contract import Arguments, CallEvent, Json, RateLimit, Source, Status, Tool, ToolCall, ToolContext, ToolResult
from wardian.tools.faults import NONE, Fault, FaultPlan, FaultProfile, possible
from wardian.tools.packs.waiting import WAIT
from wardian.tools.pages import EMPTY_PAGE, Page, Paged, page_of
from wardian.tools.toolbox import Toolbox


class Base(DeclarativeBase):
    pass


class Entry(Base):
    __tablename__ = "entries"
    id: Mapped[int] = mapped_column(primary_key=True)
    cents: Mapped[int]


def seed_rows(session: Session, seed: int) -> None:
    session.add_all([Entry(id=number, cents=number) for number in range(1, 6)])


class Pay(Arguments):
    cents: int
    key: str | None = None


class Nothing(Arguments):
    """Nothing to say."""


async def pay(context: ToolContext, args: Pay) -> Json:
    context.db.add(Entry(id=context.new_id("entries"), cents=args.cents))
    context.note("paid", cents=args.cents)
    return "paid"


async def total(context: ToolContext, args: Nothing) -> Json:
    return context.db.scalar(select(func.sum(Entry.cents)))


async def listed(context: ToolContext, args: Paged) -> Page:
    return page_of(context, args, select(Entry), Entry.id, lambda row: row.cents)


TOOLS: tuple[Tool[Any], ...] = (
    Tool("pay", "Pay.", Pay, pay, mutates=True, idempotent=False, idempotency_key="key", scopes=("pay",), timeout_ms=2000),
    Tool("total", "Sum.", Nothing, total, rate_limit=RateLimit(calls=3, per_s=5)),
    Tool("listed", "List.", Paged, listed, source=Source.REPLICA, paged=True, empty_page=EMPTY_PAGE),
    WAIT,
)
CALLS = st.one_of(
    st.builds(lambda cents, key: ToolCall("pay", {"cents": cents, "key": key}), st.integers(1, 9), st.sampled_from(["a", "b", None])),
    st.just(ToolCall("total", {})),
    st.builds(lambda limit: ToolCall("listed", {"limit": limit}), st.integers(1, 9)),
    st.builds(lambda seconds: ToolCall("wait", {"seconds": seconds}), st.integers(1, 40)),
    st.sampled_from([ToolCall("total", {"odd": 1}), ToolCall("listed", {"cursor": "x"}), ToolCall("nothing", {}), ToolCall("pay", "{")]),
)


@st.composite
def profiles(draw: Any) -> FaultProfile:
    weights = {fault.value: draw(st.integers(0, 9)) for fault in Fault}
    whole = max(sum(weights.values()), draw(st.integers(1, 60)))
    rates = {name: weight / (whole + 1) for name, weight in weights.items()}
    bounds = {"max_consecutive": draw(st.integers(1, 5)), "max_total": draw(st.integers(0, 8)), "max_lag_steps": draw(st.integers(1, 5))}
    spans = {"slow_multiplier": draw(st.sampled_from([2.0, 50.0])), "caller_timeout_ms": draw(st.sampled_from([None, 500]))}
    return FaultProfile(name="any", **rates, **bounds, **spans)


@dataclass
class Played:
    results: list[ToolResult]
    events: list[CallEvent]
    positions: list[object]
    roots: list[str]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return SqliteTemplate.build(TemplateSource("any", Base.metadata, seed_rows), tmp_path_factory.mktemp("any"))


@pytest.fixture(scope="module")
def play(template: Template) -> Callable[..., Played]:
    def played(profile: FaultProfile, calls: list[ToolCall], seed: int) -> Played:
        world = World(start=datetime(2026, 1, 1, tzinfo=UTC), seed=seed, database=template.clone())
        box = Toolbox(TOOLS, FaultPlan(profile, revocable_scopes=("pay",)), scopes_of=lambda world, agent_id: frozenset({"pay"}))
        try:
            return asyncio.run(_play(box, world, calls))
        finally:
            box.close()
            world.close()

    return played


async def _play(box: Toolbox, world: World, calls: list[ToolCall]) -> Played:
    done = Played([], [], [], [])
    for step, call in enumerate(calls, start=1):
        result, event = await box.call(world, call, agent_id="agent", step=step)
        done.results.append(result)
        done.events.append(event)
        while (due_ms := box.late_ms(world)) is not None and due_ms <= world.clock.now_ms:
            done.events.append(await box.land(world, step))
        done.positions.append(world.streams.positions())
        done.roots.append(world.fingerprint().root)
    assert world.database is not None
    assert world.database.fingerprint().root == world.database.recompute().root
    return done


Test = Callable[..., None]


def any_play(test: Test) -> Test:
    """Run `test` with any profile, calls and seed."""
    drawn = given(profile=profiles(), calls=st.lists(CALLS, min_size=1, max_size=25), seed=st.integers(0, 10_000))
    return settings(max_examples=60, deadline=None)(drawn(test))


@any_play
def test_equal_calls_take_equal_draws_under_any_profile(play: Any, profile: FaultProfile, calls: list[ToolCall], seed: int) -> None:
    assert play(profile, calls, seed).positions == play(NONE, calls, seed).positions


@any_play
def test_faults_keep_their_bounds(play: Any, profile: FaultProfile, calls: list[ToolCall], seed: int) -> None:
    events = [event for event in play(profile, calls, seed).events if not event.landed]
    assert sum(event.fault is not None for event in events) <= profile.max_total
    reached = [event for event in events if not event.problem]
    for tool in ("pay", "total", "listed"):
        runs = groupby(event.fault is not None for event in reached if event.tool == tool)
        assert all(len(list(run)) <= profile.max_consecutive for hit, run in runs if hit)


@any_play
def test_equal_seeds_and_calls_give_equal_answers_logs_and_states(
    play: Any, profile: FaultProfile, calls: list[ToolCall], seed: int
) -> None:
    assert play(profile, calls, seed) == play(profile, calls, seed)


@any_play
def test_only_a_fault_that_the_contract_allows_stands_in_the_log(
    play: Any, profile: FaultProfile, calls: list[ToolCall], seed: int
) -> None:
    plan = FaultPlan(profile, revocable_scopes=("pay",), can_wait=True, has_replica=True)
    allowed = {tool.name: {fault.value for fault in possible(tool, plan)} for tool in TOOLS}
    assert all(event.fault in allowed[event.tool] for event in play(profile, calls, seed).events if event.fault)


@any_play
def test_with_a_key_a_thing_is_done_once_whatever_happens(play: Any, profile: FaultProfile, calls: list[ToolCall], seed: int) -> None:
    keyed = [ToolCall("pay", {"cents": 7, "key": "k"}) if call.tool == "pay" else call for call in calls]
    events = play(profile, [*keyed, ToolCall("wait", {"seconds": 3600})], seed).events
    assert sum(len(event.effects) for event in events if event.committed) <= 1


@any_play
def test_what_is_answered_ok_is_what_the_log_says_and_no_fault_shows(
    play: Any, profile: FaultProfile, calls: list[ToolCall], seed: int
) -> None:
    played = play(profile, calls, seed)
    hidden = {Fault.STALE, Fault.EMPTY, Fault.PARTIAL, Fault.DUPLICATE, Fault.LAGGING}
    for result, event in zip(played.results, [event for event in played.events if not event.landed], strict=True):
        assert result.status is event.status
        assert result.visible().keys() <= {"status", "result", "error", "details"}
        if event.fault in hidden:
            assert result.status is Status.OK
        if event.fault and event.fault in str(result.visible()):
            assert event.fault == result.status.value
