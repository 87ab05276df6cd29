"""A customer in an episode: messages are answered in virtual time, patience ends, and all of it is state. No cell is needed."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from sqlalchemy.orm import Session

from wardian.envs.action import Action, Message, Step, ToolCalls, call
from wardian.envs.checker import EnvironmentBroken, check_environment
from wardian.envs.conversation import Channel
from wardian.envs.customer import Customer, Patience
from wardian.envs.definition import WorldDefinition
from wardian.envs.environment import ToolEnvironment
from wardian.envs.events import EventContext
from wardian.envs.hearing import Heard
from wardian.envs.playing import play_reference
from wardian.envs.task import Task
from wardian.envs.worlds.toy.families.counter import AtTheCounter
from wardian.envs.worlds.toy.schema import Item, Member
from wardian.envs.worlds.toy.tools import TOOLS, LendItem, lend_item
from wardian.sandbox.database.base import Template
from wardian.tools.contract import CallEvent, Json, Latency, Status, Tool
from wardian.tools.faults import HARSH, NONE, FaultProfile
from wardian.tools.packs.waiting import WAIT

pytestmark = pytest.mark.anyio
TASK = "at-the-counter/medium/seed-1"
HOW_LONG = Message("For how many days?")
SHOW = call("show_item", item_id=101)


class Counter(AtTheCounter):
    """Without other events."""

    def generate(self, difficulty: Any, seed: int) -> Task:
        return replace(super().generate(difficulty, seed), events=())


def keep(context: EventContext, author: str, text: str) -> None:
    context.db.add(Member(id=context.new_id("members"), name=f"{author}: {text}", suspended=False))


def read(event: CallEvent, refers_to: Mapping[str, Json]) -> str | None:
    return f"Which {event.args['kind']}? How many days?" if event.tool == "list_items" else None


def waits(session: Session, refers_to: Mapping[str, Json]) -> bool:
    item = session.get(Item, 103)
    return item is not None and not item.written_off


def gone(context: EventContext) -> None:
    item = context.db.get(Item, 102)
    assert item is not None
    item.written_off = True


CHANNEL = Channel(keep, read, waits, gone)


@pytest.fixture
def open_env(toy: WorldDefinition, template: Template) -> Callable[..., ToolEnvironment]:
    def make(
        family: AtTheCounter | None = None,
        channel: Channel = CHANNEL,
        faults: FaultProfile = NONE,
        tools: tuple[Tool[Any], ...] = (*TOOLS, WAIT),
    ) -> ToolEnvironment:
        world = replace(toy, needs_cell=False, tools=tools, families=(family or Counter(),), channel=channel)
        return ToolEnvironment(world, template=template, cells=None, faults=faults)

    return make


async def played(env: ToolEnvironment, *actions: Action, seed: int = 0) -> list[Step]:
    async with env:
        await env.reset(TASK, seed)
        return [await env.step(action) for action in actions]


def wait(seconds: int) -> ToolCalls:
    return call("wait", seconds=seconds)


def words(step: Step) -> list[str]:
    return [str(word["text"]) for word in step.observation.incoming]


def kinds(step: Step) -> list[str]:
    return [str(effect["kind"]) for event in step.info.background for effect in event.effects]


async def test_a_message_that_asks_waits_for_its_answer(open_env: Any) -> None:
    env = open_env()
    (step,) = await played(env, HOW_LONG)
    days = env.reset_info.task.facts["days"]
    assert words(step) in ([f"I need it for {days} days."], [f"For {days} days, please."])
    waited_ms = step.info.clock_ms - round(env.reset_info.task.start.timestamp() * 1000)
    assert 30_000 <= waited_ms <= 120_000
    assert (step.done, step.info.events, kinds(step)) == (False, (), ["customer_asked", "customer_told"])


async def test_what_is_said_is_kept_by_the_world_and_is_not_the_agents_doing(open_env: Any) -> None:
    (step,) = await played(open_env(), HOW_LONG)
    assert [row.after and row.after["name"] for row in step.info.database] == ["agent: For how many days?", f"customer: {words(step)[0]}"]
    assert [row.key for row in step.info.database] == [(13,), (14,)]


@pytest.mark.parametrize("text", ["Done.", "", "Is there anything else?", "It is yours."])
async def test_a_message_that_asks_nothing_is_the_last_word(open_env: Any, text: str) -> None:
    (step,) = await played(open_env(), Message(text))
    assert (step.terminated, step.info.end_cause, words(step), step.info.background) == (True, "message", [], ())


async def test_a_message_to_a_customer_who_waits_for_nothing_ends_the_episode(open_env: Any) -> None:
    class Kept(Counter):
        ends_on_effects = ()

    _, step = await played(open_env(Kept()), call("write_off_item", item_id=103), HOW_LONG)
    assert (step.terminated, step.info.end_cause) == (True, "message")


async def test_a_family_may_have_a_rule_of_its_own(open_env: Any) -> None:
    class Patient(Counter):
        def ends_on_message(self, heard: Heard | None) -> bool:
            return False

    steps = await played(open_env(Patient()), Message("Done."), HOW_LONG)
    assert [(step.done, len(words(step))) for step in steps] == [(False, 0), (False, 1)]


async def test_what_a_call_says_to_the_customer_is_answered_later(open_env: Any) -> None:
    asked, at_once, later = await played(open_env(), call("list_items", kind="tool"), SHOW, wait(120))
    assert (words(asked), words(at_once), kinds(asked)) == ([], [], ["customer_asked"])
    assert asked.info.background[0].effects[0]["call"] == asked.info.events[0].index
    assert "days" in words(later)[0]


class Keyed(LendItem):
    key: str | None = None
    timeout_ms: int | None = None


SLOW: Tool[Any] = Tool(
    "lend_slowly",
    "Lend.",
    Keyed,
    lend_item,
    mutates=True,
    errors=(Status.NOT_FOUND, Status.CONFLICT),
    latency=Latency(3000, 3000),
    idempotency_key="key",
    timeout_argument="timeout_ms",
)


async def test_a_call_that_lands_late_is_heard_when_it_lands(open_env: Any) -> None:
    def reads(event: CallEvent, refers_to: Mapping[str, Json]) -> str | None:
        return "How many days?" if event.tool == SLOW.name else None

    slow = call(SLOW.name, item_id=103, member_id=3, days=7, key="k", timeout_ms=100)
    env = open_env(channel=replace(CHANNEL, read=reads), tools=(*TOOLS, WAIT, SLOW))
    gave_up, landed, answered = await played(env, slow, wait(3), wait(120))
    assert (gave_up.observation.results[0]["status"], kinds(gave_up)) == ("timeout", [])
    (event,) = landed.info.background
    assert (event.kind, event.at_ms) == ("customer/hears", landed.info.events[1].at_ms)
    assert "days" in words(answered)[0]


async def test_a_message_waits_for_all_answers_on_their_way(open_env: Any) -> None:
    _, step = await played(open_env(), call("list_items", kind="tool"), Message("What kind of item?"))
    assert len(words(step)) == 2


async def test_patience_ends_in_reminders_and_then_in_consequences(open_env: Any) -> None:
    before, once, twice, left = await played(open_env(), wait(899), wait(1), wait(600), wait(600))
    assert [kinds(step) for step in (before, once, twice, left)] == [[], ["customer_reminded"], ["customer_reminded"], ["customer_left"]]
    assert all(len(words(step)) == 1 for step in (once, twice, left))
    assert (left.terminated, left.info.end_cause) == (True, "customer_left")
    assert ("items", (102,)) in [(row.table, row.key) for row in left.info.database]


async def test_a_word_of_the_agents_gives_new_patience(open_env: Any) -> None:
    steps = await played(open_env(), wait(850), HOW_LONG, wait(700), wait(50), wait(400))
    assert [kinds(step) for step in steps][2:] in ([[], [], ["customer_reminded"]], [[], ["customer_reminded"], []])


async def test_a_customer_who_has_left_hears_nothing_any_more(open_env: Any) -> None:
    class Deserted(Counter):
        ends_on_effects = ()

        def customer(self, task: Task) -> Customer:
            return replace(super().customer(task), patience=Patience(first_s=60, every_s=60, reminders=0))

    _, asked, said = await played(open_env(Deserted()), wait(60), call("list_items", kind="tool"), HOW_LONG)
    assert (words(asked), kinds(asked)) == ([], ["customer_asked"])
    assert (said.info.end_cause, words(said)) == ("message", [])


async def test_mood_and_answers_on_their_way_are_part_of_snapshot_and_fingerprint(open_env: Any) -> None:
    async with open_env() as env:
        await env.reset(TASK)
        start = await env.snapshot()
        await env.step(call("list_items", kind="tool"))
        asked = await env.snapshot()
        assert asked.memory["notes"]["customer"]["turns"] == 1
        assert [entry["kind"] for entry in asked.memory["pending"]] == ["customer/speaks", "customer/waits"]
        assert any(line.startswith("memory:") for line in asked.fingerprint.differences(start.fingerprint))
        await env.reset(TASK)
        await env.step(call("list_items", kind="tool"))
        assert (await env.snapshot()).differences(asked) == ()


async def test_equal_seeds_give_equal_talks_and_others_do_not(open_env: Any) -> None:
    one, again, other = [await played(open_env(), HOW_LONG, Message("What kind of item?"), seed=seed) for seed in (1, 1, 2)]
    assert [step.info for step in one] == [step.info for step in again]
    assert one[0].info.clock_ms != other[0].info.clock_ms


async def test_the_fault_free_twin_hears_the_same_at_the_same_delays(open_env: Any) -> None:
    (plain,), (faulted,) = [await played(open_env(faults=profile), HOW_LONG, seed=3) for profile in (NONE, HARSH)]
    assert (words(plain), plain.info.clock_ms) == (words(faulted), faulted.info.clock_ms)


async def test_a_lone_surrogate_is_heard_like_any_other_character(open_env: Any) -> None:
    (step,) = await played(open_env(), Message("For how many days, \ud800?"))
    assert "days" in words(step)[0]


async def test_messages_cost_a_step_and_their_time_counts(open_env: Any) -> None:
    async with open_env() as env:
        await env.reset(TASK)
        step = await env.step(HOW_LONG)
        spent = (await env.snapshot()).spent
        assert (step.reward, spent.steps) == (-0.002, 1)
        assert spent.virtual_ms >= 30_000


async def test_the_reference_asks_while_others_do_things(open_env: Any) -> None:
    seen: set[str] = set()
    for seed in range(8):
        async with open_env(AtTheCounter()) as env:
            found = await play_reference(env, f"at-the-counter/hard/seed-{seed}", seed)
        assert found.last.info.verdict is not None
        assert found.last.info.verdict.succeeded
        seen.update(kind for step in found.steps for kind in kinds(step))
    assert {"brought_back", "customer_told"} <= seen


MADE = count(1)


class Moody(Counter):
    def customer(self, task: Task) -> Customer:
        return replace(super().customer(task), answers_in_s=(number := next(MADE), number))


async def test_the_checker_finds_customers_who_are_another_each_time(open_env: Any) -> None:
    world = open_env(Moody()).world
    with pytest.raises(EnvironmentBroken, match=r"made twice, it is not the same(.|\n)*two talks of one seed differ"):
        await check_environment(lambda faults: open_env(Moody(), faults=faults), world, seeds=(1,), profiles=(NONE,))


async def test_the_checker_finds_words_that_the_customer_cannot_say(open_env: Any) -> None:
    def echo(context: EventContext, author: str, text: str) -> None:
        context.say("customer", "I was born in 1970.")

    world = open_env(channel=Channel(echo)).world
    with pytest.raises(EnvironmentBroken, match=r"the customer says 'I was born in 1970\.'"):
        await check_environment(lambda faults: open_env(channel=Channel(echo), faults=faults), world, seeds=(1,), profiles=(NONE,))
