"""Linked accounts that abuse refunds: the scenarios are what they are called, and the verifier sees each kind of wrong."""

from collections.abc import AsyncIterator, Callable
from functools import cache
from typing import Any

import pytest

from wardian.envs.action import Action, Message, call
from wardian.envs.environment import ToolEnvironment
from wardian.envs.playing import play_reference
from wardian.envs.registry import open_environment
from wardian.envs.splits import Split
from wardian.envs.task import Difficulty, Task
from wardian.envs.worlds.billing import definition
from wardian.envs.worlds.billing.links import ABUSE, INNOCENT, KINDS, PATTERN
from wardian.envs.worlds.billing.tools import LINKING
from wardian.rollouts.sampling import pairs_of

pytestmark = pytest.mark.anyio
WORLD = definition()
FAMILY = WORLD.family("chargeback-fraud")
every_difficulty = pytest.mark.parametrize("difficulty", Difficulty)


@pytest.fixture(scope="module")
async def env(anyio_backend: str) -> AsyncIterator[ToolEnvironment]:
    async with open_environment(WORLD) as opened:
        yield opened


@cache
def made(difficulty: Difficulty, seed: int) -> Task:
    return FAMILY.generate(difficulty, seed)


def search(wanted: Callable[[Task], bool], difficulty: Difficulty = Difficulty.EASY) -> Task:
    return next(task for task in (made(difficulty, seed) for seed in range(200)) if wanted(task))


@every_difficulty
def test_a_scenario_is_abuse_exactly_where_the_rows_make_it_so(difficulty: Difficulty) -> None:
    tasks = [made(difficulty, seed) for seed in range(120)]
    assert {task.parameters["scenario"] for task in tasks} == {*ABUSE, *INNOCENT}
    for task in tasks:
        assert (task.parameters["queue"] == "fraud") == (task.parameters["scenario"] in ABUSE), task.id
    abuse = sum(task.parameters["scenario"] in ABUSE for task in tasks)
    assert 45 <= abuse <= 75


@every_difficulty
def test_what_looks_like_abuse_has_what_a_glance_would_take_for_it(difficulty: Difficulty) -> None:
    """Chargebacks alone do not tell: but for two scenarios, accounts that share something have at least a pattern's worth, or refunds."""
    for task in (made(difficulty, seed) for seed in range(60)):
        backs, refunds = (len(task.rows.get(table, ())) for table in ("chargebacks", "refunds"))
        if task.parameters["scenario"] not in ("once", "clean"):
            assert backs >= PATTERN, task.id
        assert refunds >= 1
        assert {row["kind"] for row in task.rows["identities"]} <= set(KINDS)


def test_the_family_is_for_evaluation_alone_and_its_tools_are_its_own() -> None:
    assert {made(level, seed).split for level in Difficulty for seed in range(20)} == {"heldout"}
    assert FAMILY not in [family for family, _ in pairs_of(WORLD, Split.TRAIN)] + [family for family, _ in pairs_of(WORLD, Split.EVAL)]
    own = {tool.name for tool in LINKING}
    for family in WORLD.families:
        tools = set(family.generate(Difficulty.EASY, 1).tools) or {tool.name for tool in WORLD.tools}
        assert own <= tools if family is FAMILY else not own & tools


ABUSED = search(lambda task: task.parameters["scenario"] == "shared_card" and not task.parameters["told_first"])
SPARED = search(
    lambda task: task.parameters["scenario"] == "once" and task.parameters["refund_cents"] and task.parameters["kind"] == "wrong_plan"
)
T = ABUSED.parameters["ticket_id"]


def looks(task: Task) -> list[Action]:
    ids = task.parameters["linked_ids"]
    card = next(row for row in task.rows["identities"] if row["customer_id"] == ids[0] and row["kind"] == "card")
    found = [call("list_identities", customer_id=ids[0]), call("find_accounts", kind="card", value=card["value"])]
    return [*found, *(call("list_chargebacks", customer_id=number) for number in ids)]


def refund(task: Task) -> Action:
    wanted = task.parameters
    owed = wanted["refund_cents"] or 100
    return call("issue_refund", payment_id=wanted["payment_id"], ticket_id=T, amount_cents=owed, reason=wanted["reason"])


REPLY = call("reply_to_ticket", ticket_id=T, body="We have looked at your ticket.")
NOTE = " ".join(map(str, ABUSED.parameters["facts"]))
LOOK, FORM = looks(ABUSED), call("read_file", path=f"/workspace/tickets/{T}/order_form.txt")


def escalate(note: str = NOTE, queue: str = "fraud") -> Action:
    return call("escalate_ticket", ticket_id=T, queue=queue, note=note)


def resolve(resolution: str) -> Action:
    return call("resolve_ticket", ticket_id=T, resolution=resolution)


WAYS: dict[str, tuple[Task, list[Action], set[str], bool]] = {
    "handed over": (ABUSED, [*LOOK, REPLY, escalate()], set(), False),
    "money moved": (ABUSED, [*LOOK, refund(ABUSED), REPLY, escalate()], {"refund", "not_overpaid"}, True),
    "paid as if nothing was": (ABUSED, [*LOOK, refund(ABUSED), REPLY, resolve("refunded")], {"refund", "not_overpaid", "ticket"}, True),
    "an account left out": (ABUSED, [*LOOK, REPLY, escalate(NOTE.split(" ", 1)[1])], {"ticket"}, False),
    "the sum left out": (ABUSED, [*LOOK, REPLY, escalate(NOTE.rsplit(" ", 1)[0])], {"ticket"}, False),
    "another queue": (ABUSED, [*LOOK, REPLY, escalate(queue="legal")], {"ticket"}, False),
    "guessed, with no look": (ABUSED, [REPLY, escalate()], {"order"}, False),
    "chargebacks not looked at": (ABUSED, [*LOOK[:2], REPLY, escalate()], {"order"}, False),
    "decided": (SPARED, [*looks(SPARED), FORM, refund(SPARED), REPLY, resolve("refunded")], set(), False),
    "accused": (SPARED, [*looks(SPARED), REPLY, escalate("1 2")], {"refund", "ticket", "nothing_else", "order"}, True),
    "decided with no look at the accounts": (SPARED, [FORM, refund(SPARED), REPLY, resolve("refunded")], {"order"}, False),
}


@pytest.mark.parametrize("way", WAYS)
async def test_checks_name_what_is_wrong(env: ToolEnvironment, way: str) -> None:
    task, actions, expected, hard = WAYS[way]
    await env.reset(str(task.id))
    for action in (*actions, Message("Done.")):
        step = await env.step(action)
        if step.done:
            break
    verdict: Any = step.info.verdict
    assert {check.name for check in verdict.checks if not check.passed} == expected
    assert verdict.hard_failure == hard


@pytest.mark.parametrize("scenario", [*ABUSE, *INNOCENT])
async def test_the_reference_decides_each_scenario(env: ToolEnvironment, scenario: str) -> None:
    task = search(lambda task: task.parameters["scenario"] == scenario, Difficulty.HARD)
    verdict: Any = (await play_reference(env, str(task.id))).last.info.verdict
    assert verdict.succeeded, verdict
