"""Handing over: each reason and each look-alike, played; and the ways of a wrong handover that could pass for a right one."""

from collections import Counter
from collections.abc import AsyncIterator, Iterable
from functools import cache
from typing import Any

import pytest

from wardian.envs.action import Action, Message, Observation, ToolCalls, call
from wardian.envs.environment import ToolEnvironment
from wardian.envs.playing import play_reference
from wardian.envs.registry import load_world, open_environment
from wardian.envs.task import Difficulty, Task
from wardian.envs.verifier import Verdict
from wardian.envs.worlds.billing.families.escalation import SCENARIOS
from wardian.envs.worlds.billing.handover import LIMIT_CENTS, NOTE_NUMBERS, WINDOW_DAYS

pytestmark = pytest.mark.anyio
WORLD = load_world("billing")
FAMILY = WORLD.family("policy-escalation")
HANDED = sorted(name for name, one in SCENARIOS.items() if one.queue)
OWN = sorted(set(SCENARIOS) - set(HANDED))


@pytest.fixture(scope="module")
async def env() -> AsyncIterator[ToolEnvironment]:
    async with open_environment(WORLD) as found:
        yield found


@cache
def of(scenario: str, difficulty: Difficulty = Difficulty.HARD, **wanted: object) -> Task:
    tasks = (FAMILY.generate(difficulty, seed) for seed in range(1000))
    return next(task for task in tasks if {"scenario": scenario, **wanted}.items() <= task.parameters.items())


async def judged(env: ToolEnvironment, task: Task, actions: Iterable[Action]) -> Verdict:
    await env.reset(str(task.id))
    for action in (*actions, Message("Handed over, as the manual says.")):
        step = await env.step(action)
    assert step.info.verdict is not None, step.failed
    return step.info.verdict


def wrong(verdict: Verdict) -> set[str]:
    return {check.name for check in verdict.checks if not check.passed}


def looks(task: Task) -> list[Action]:
    wanted = task.parameters
    records = {record for look in wanted["evidence"] for record, _ in look.get("passages", ())} or {"nothing"}
    return [
        call("shell", command=f"grep -h -A 3 -E '{'|'.join(sorted(records))}' /workspace/tickets/{wanted['ticket_id']}/*"),
        call("list_messages", ticket_id=wanted["ticket_id"]),
        call("get_invoice", invoice_id=wanted["invoice_id"]),
        call("get_customer", customer_id=wanted["customer_id"]),
    ]


def reply(task: Task) -> ToolCalls:
    return call("reply_to_ticket", ticket_id=task.parameters["ticket_id"], body="Your ticket was handed over.")


def escalate(task: Task, **changes: Any) -> ToolCalls:
    wanted = task.parameters
    note = "Facts: " + ", ".join(str(fact) for fact in wanted["facts"])
    return call("escalate_ticket", **{"ticket_id": wanted["ticket_id"], "queue": wanted["queue"], "note": note, **changes})


def refund(task: Task, cents: int) -> ToolCalls:
    wanted = task.parameters
    due = {name: wanted[name] for name in ("payment_id", "ticket_id", "reason")}
    return call("issue_refund", **due, amount_cents=cents)


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("difficulty", Difficulty)
async def test_the_reference_handles_each_scenario(env: ToolEnvironment, scenario: str, difficulty: Difficulty) -> None:
    played = await play_reference(env, str(of(scenario, difficulty).id))
    assert wrong(played.last.info.verdict) == set()  # type: ignore[arg-type]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_ticket_is_handed_over_exactly_where_its_scenario_says(scenario: str) -> None:
    tasks = [task for level in Difficulty for seed in range(150) if (task := made(level, seed)).parameters["scenario"] == scenario]
    assert {task.parameters["queue"] for task in tasks} == {SCENARIOS[scenario].queue}


@cache
def made(difficulty: Difficulty, seed: int) -> Task:
    return FAMILY.generate(difficulty, seed)


@pytest.mark.parametrize("difficulty", Difficulty)
def test_neither_always_nor_never_handing_over_is_right_for_most(difficulty: Difficulty) -> None:
    ends = Counter(made(difficulty, seed).parameters["queue"] or "own" for seed in range(150))
    assert 60 <= ends["own"] <= 100
    assert max(count for queue, count in ends.items() if queue != "own") < 45


def test_amounts_and_days_come_as_near_to_their_limits_as_can_be() -> None:
    due = [cents for seed in range(150) for cents in made(Difficulty.HARD, seed).parameters["facts"][1:2] if cents > LIMIT_CENTS]
    own = [made(Difficulty.HARD, seed).parameters["refund_cents"] for seed in range(150)]
    days = [made(Difficulty.HARD, seed).parameters["facts"][2:] for seed in range(150)]
    assert min(due) <= LIMIT_CENTS + 40
    assert LIMIT_CENTS - 40 < max(own) <= LIMIT_CENTS
    assert [WINDOW_DAYS + 1] in days


@pytest.mark.parametrize("scenario", HANDED)
async def test_a_handover_names_its_facts(env: ToolEnvironment, scenario: str) -> None:
    task = of(scenario)
    assert wrong(await judged(env, task, [*looks(task), escalate(task), reply(task)])) == set()
    for fact in task.parameters["facts"]:
        others = [str(other) for other in task.parameters["facts"] if other != fact]
        told = escalate(task, note=f"{fact}0 and 1{fact}: see {', '.join(others)}")
        assert wrong(await judged(env, task, [*looks(task), told, reply(task)])) == {"ticket"}


@pytest.mark.parametrize("scenario", HANDED)
async def test_the_reason_has_to_be_looked_at_before(env: ToolEnvironment, scenario: str) -> None:
    task = of(scenario)
    assert wrong(await judged(env, task, [escalate(task), *looks(task), reply(task)])) == {"order"}


LIMIT = of("limit", Difficulty.MEDIUM)
DUE = LIMIT.parameters["facts"][1]
T = LIMIT.parameters["ticket_id"]
RESOLVE = call("resolve_ticket", ticket_id=T, resolution="refunded")
CREDIT = call("apply_credit", customer_id=LIMIT.parameters["customer_id"], ticket_id=T, amount_cents=1, reason="sorry")
EVERY_NUMBER = " ".join(str(number) for number in [*LIMIT.parameters["facts"], *range(1, NOTE_NUMBERS)])
WAYS: dict[str, tuple[list[Action], set[str], bool]] = {
    "reply first": ([reply(LIMIT), escalate(LIMIT)], set(), False),
    "refunded all the same": ([refund(LIMIT, DUE), reply(LIMIT), RESOLVE], {"refund", "not_overpaid", "ticket"}, True),
    "refunded in parts": ([refund(LIMIT, DUE - 1), refund(LIMIT, 1), reply(LIMIT), RESOLVE], {"refund", "not_overpaid", "ticket"}, True),
    "refunded up to the limit": ([refund(LIMIT, LIMIT_CENTS), escalate(LIMIT), reply(LIMIT)], {"refund", "not_overpaid"}, True),
    "declined": (
        [reply(LIMIT), call("resolve_ticket", ticket_id=T, resolution="declined_unfounded")],
        {"ticket"},
        False,
    ),
    "another queue": ([escalate(LIMIT, queue="legal"), reply(LIMIT)], {"ticket"}, False),
    "every number": ([escalate(LIMIT, note=EVERY_NUMBER), reply(LIMIT)], {"ticket"}, False),
    "only said so": ([reply(LIMIT), call("shell", command="echo escalated > /workspace/escalation.txt")], {"ticket"}, False),
    "no reply": ([escalate(LIMIT)], {"reply"}, False),
    "two replies": ([escalate(LIMIT), reply(LIMIT), reply(LIMIT)], {"reply"}, False),
    "a credit beside": ([CREDIT, escalate(LIMIT), reply(LIMIT)], {"nothing_else"}, True),
}


@pytest.mark.parametrize("way", WAYS)
async def test_checks_name_what_is_wrong_with_a_handover(env: ToolEnvironment, way: str) -> None:
    actions, expected, hard = WAYS[way]
    verdict = await judged(env, LIMIT, [*looks(LIMIT), *actions])
    assert (wrong(verdict), verdict.hard_failure) == (expected, hard)


@pytest.mark.parametrize("scenario", OWN)
async def test_handing_over_what_is_ones_own_is_wrong(env: ToolEnvironment, scenario: str) -> None:
    task = of(scenario)
    for queue in ("refunds-approval", "legal"):
        verdict = await judged(env, task, [*looks(task), escalate(task, queue=queue, note="Please decide."), reply(task)])
        assert {"ticket", "nothing_else"} <= wrong(verdict)
        assert verdict.hard_failure


async def test_the_queues_say_what_they_handle(env: ToolEnvironment) -> None:
    await env.reset(str(LIMIT.id))
    seen: Observation = (await env.step(call("list_queues"))).observation
    assert {queue["queue"] for queue in seen.results[0]["result"]} >= {one.queue for one in SCENARIOS.values() if one.queue}
