"""The ticket's customer and what happens at the desk by itself. No cell is needed: evidence is looked at elsewhere."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import pytest

from wardian.envs.action import Action, Message, Step, call
from wardian.envs.customer_check import customer_findings
from wardian.envs.environment import ToolEnvironment
from wardian.envs.registry import load_world
from wardian.envs.task import Difficulty, Task
from wardian.envs.verifier import Check, Verdict
from wardian.envs.worlds.billing.customer import customer_of
from wardian.envs.worlds.billing.families.desk import DeskFamily
from wardian.sandbox.database import SqliteTemplate
from wardian.sandbox.database.base import Template
from wardian.tools.faults import NONE

pytestmark = pytest.mark.anyio
WORLD = load_world("billing")
DESKS = [family for family in WORLD.families if isinstance(family, DeskFamily) and family.generate(Difficulty.EASY, 1).facts]
WHICH, RIGHT = Message("Which invoice do you mean?"), Message("Is that right?")
every_task = pytest.mark.parametrize(
    ("family", "difficulty"), [(family, level) for family in DESKS for level in Difficulty], ids=lambda value: getattr(value, "name", value)
)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return SqliteTemplate.build(WORLD.template, tmp_path_factory.mktemp("billing"))


@pytest.fixture
def env(template: Template) -> ToolEnvironment:
    world = replace(WORLD, needs_cell=False)
    return ToolEnvironment(world, template=template, cells=None, faults=NONE)


@cache
def made(family: DeskFamily, difficulty: Difficulty, seed: int) -> Task:
    return family.generate(difficulty, seed)


def search(fits: Callable[[Task], bool] = lambda task: True, **wanted: object) -> Task:
    """The first hard dispute whose parameters are these."""
    tasks = (made(DESKS[0], Difficulty.HARD, seed) for seed in range(800))
    return next(task for task in tasks if wanted.items() <= task.parameters.items() and fits(task))


async def played(env: ToolEnvironment, task: Task, *actions: Action) -> list[Step]:
    async with env:
        await env.reset(str(task.id))
        return [await env.step(action) for action in actions]


def failed(step: Step) -> dict[str, Check]:
    assert isinstance(step.info.verdict, Verdict), step.failed
    return {check.name: check for check in step.info.verdict.checks if not check.passed}


def heard(step: Step) -> str:
    return "\n".join(str(word["text"]) for word in step.observation.incoming)


def reply(task: Task, body: str) -> Action:
    return call("reply_to_ticket", ticket_id=task.parameters["ticket_id"], body=body)


def handled(task: Task) -> Iterator[Action]:
    """What is right to do when all is known, without the look at the evidence."""
    wanted = task.parameters
    told = reply(task, "Thank you for your patience. We have looked into it and did what is due.")
    if wanted["told_first"]:
        yield told
    if wanted["refund_cents"]:
        cents, payment = wanted["refund_cents"], wanted["payment_id"]
        yield call("issue_refund", payment_id=payment, ticket_id=wanted["ticket_id"], amount_cents=cents, reason=wanted["reason"])
    if not wanted["told_first"]:
        yield told
    yield call("resolve_ticket", ticket_id=wanted["ticket_id"], resolution=wanted["resolution"])
    yield Message("Done.")


@every_task
def test_every_fact_of_a_customer_stands_in_the_world(family: DeskFamily, difficulty: Difficulty) -> None:
    for task in (made(family, difficulty, seed) for seed in range(60)):
        wanted, facts = task.parameters, dict(task.facts)
        mine = {str(row["id"]) for row in task.rows["invoices"] if row["customer_id"] == wanted["customer_id"]}
        assert facts.pop("invoice") == str(wanted["invoice_id"])
        assert facts.pop("invoice_at_first", None) in {None, *mine - {str(wanted["invoice_id"])}}
        assert any(
            f"{task.facts['wish']} cents" in str(row["body"]) for row in task.rows["messages"] if row["ticket_id"] == wanted["ticket_id"]
        )
        del facts["wish"]
        if day := facts.pop("requested", None):
            mail = task.files.entries[f"/workspace/tickets/{wanted['ticket_id']}/mail.txt"].data.decode()
            assert f"Cancellation requested: {day}, subscription" in mail
        assert facts == {}


@every_task
def test_customers_invent_nothing_and_give_nothing_away(family: DeskFamily, difficulty: Difficulty) -> None:
    for task in (made(family, difficulty, seed) for seed in range(4)):
        assert list(customer_findings(task, customer_of(task), customer_of(task))) == []


@pytest.mark.parametrize("family", DESKS[:2], ids=lambda family: family.name)
def test_a_claim_leaves_its_invoice_out_exactly_where_it_is_withheld(family: DeskFamily) -> None:
    for task in (made(family, Difficulty.HARD, seed) for seed in range(60)):
        wanted = task.parameters
        said = [str(row["body"]) for row in task.rows["messages"] if row["ticket_id"] == wanted["ticket_id"]]
        assert any(str(wanted["invoice_id"]) in text for text in said) == (wanted["withheld"] == "nothing")
        assert ("invoice_at_first" in task.facts) == (wanted["withheld"] == "invoice" and wanted["corrects_at"] > 0)


ASKED = {
    "invoice": [
        "Which invoice do you mean?",
        "Could you please tell me the invoice number?",
        "To help you I need the number of the invoice. Please send it to me.",
        "I see several invoices on your account. Which one is this about?",
        "Which of the two charges are you disputing?",
        "Please provide the ID of your invoice so that I can look into it.",
        "What month was the wrong bill for?",
        "Can you specify the invoice, please?",
        "Hi! Which payment was wrong?",
        "Please let me know which bill this concerns.",
    ],
    "wish": ["How much do you want back?", "What amount do you expect?", "Could you tell me what sum you ask for?"],
    "requested": [
        "When did you cancel?",
        "On which day did you request the cancellation?",
        "Please give me the date of your cancellation.",
    ],
}


@pytest.mark.parametrize(("topic", "text"), [(topic, text) for topic, texts in ASKED.items() for text in texts])
def test_questions_are_understood_in_many_words(topic: str, text: str) -> None:
    assert topic in customer_of(search()).hear(text).topics


@pytest.mark.parametrize(
    "text",
    [
        "What was owed on this invoice has been refunded before.",
        "We have refunded 500 cents on your payment.",
        "The evidence does not bear the claim out, so nothing is refunded. Let me know if you have any other questions.",
        "Your ticket was handed over. Is there anything else?",
        "We have looked at invoice 100003 and your order form.",
    ],
)
def test_ordinary_replies_are_no_questions(text: str) -> None:
    assert not customer_of(search()).hear(text).asks


async def test_question_and_answer_become_messages_of_the_ticket(env: ToolEnvironment) -> None:
    task = search(withheld="invoice", corrects_at=0)
    (step,) = await played(env, task, WHICH)
    assert str(task.parameters["invoice_id"]) in heard(step)
    rows = [row.after for row in step.info.database if row.table == "messages" and row.after]
    assert [(row["author"], row["ticket_id"]) for row in rows] == [("agent-7", 100001), ("customer", 100001)]
    assert [row["body"] for row in rows] == [WHICH.text, heard(step)]
    assert rows[0]["sent_at"] == "2026-06-15T09:00:00.000Z" < str(rows[1]["sent_at"])


@pytest.mark.parametrize(
    ("corrects_at", "asked", "known"),
    [
        (0, (), False),
        (0, (RIGHT,), False),
        (0, (WHICH,), True),
        (1, (WHICH,), True),
        (2, (WHICH,), False),
        (2, (WHICH, RIGHT), True),
        (2, (WHICH, WHICH), True),
    ],
)
async def test_the_last_word_must_be_known_before_the_decision(
    env: ToolEnvironment, corrects_at: int, asked: tuple[Message, ...], known: bool
) -> None:
    fits: dict[str, object] = {"withheld": "invoice", "corrects_at": corrects_at, "posted_late": False, "window_lapses": "never"}
    task = search(lambda task: task.parameters["refund_cents"] > 0, **fits)
    steps = await played(env, task, *asked, *handled(task))
    assert set(failed(steps[-1])) == {"order"}  # no evidence was looked at
    assert ("must be asked" in failed(steps[-1])["order"].detail) == (not known)
    answers = "\n".join(heard(step) for step in steps)
    assert (re.findall(r"invoice (\d+)", answers)[-1:] == [str(task.parameters["invoice_id"])]) == known


async def test_what_comes_after_the_decision_is_too_late(env: ToolEnvironment) -> None:
    task = search(lambda task: task.parameters["refund_cents"] > 0, withheld="invoice", corrects_at=0, told_first=False, posted_late=False)
    first, *others = handled(task)
    *_, last = await played(env, task, first, WHICH, *others)
    assert "must be asked" in failed(last)["order"].detail


async def test_a_question_by_reply_is_answered_later_and_is_not_the_reply(env: ToolEnvironment) -> None:
    task = search(withheld="invoice", corrects_at=0, posted_late=False, window_lapses="never")
    asked, waited, *_, last = await played(env, task, reply(task, "Which invoice do you mean?"), call("wait", seconds=120), *handled(task))
    assert (heard(asked), str(task.parameters["invoice_id"]) in heard(waited)) == ("", True)
    assert set(failed(last)) == {"order"}
    assert "must be asked" not in failed(last)["order"].detail


async def test_only_a_question_is_no_reply(env: ToolEnvironment) -> None:
    task = search(withheld="invoice", posted_late=False)
    others = [action for action in handled(task) if action != reply(task, "") and "reply_to_ticket" not in str(action)]
    *_, last = await played(env, task, reply(task, "Which invoice do you mean?"), *others)
    assert "reply" in failed(last)


async def test_a_customer_who_waits_in_vain_goes_to_a_lawyer(env: ToolEnvironment) -> None:
    quiet, once, twice, left = await played(env, search(), *[call("wait", seconds=seconds) for seconds in (1799, 1, 1200, 1200)])
    assert [bool(heard(step)) for step in (quiet, once, twice)] == [False, True, True]
    assert "lawyer" in heard(left)
    assert (left.terminated, left.info.end_cause) == (True, "customer_left")
    changed = {row.table: row.after for row in left.info.database if row.after}
    assert (changed["tickets"] or {})["status"] == "escalated"
    assert (changed["escalations"] or {})["queue_id"] == "legal"
    assert {"ticket", "reply"} <= set(failed(left)) <= {"ticket", "reply", "order", "refund"}
    assert left.reward_components["task"] == 0


async def test_a_closed_ticket_ends_the_waiting_and_the_conversation(env: ToolEnvironment) -> None:
    task = search(withheld="nothing", posted_late=False)
    *actions, _ = handled(task)
    *_, waited, last = await played(env, task, *actions, call("wait", seconds=3600), WHICH)
    assert heard(waited) == ""
    assert (last.info.end_cause, heard(last)) == ("message", "")


async def test_a_late_charge_shows_within_ten_minutes(env: ToolEnvironment) -> None:
    task = search(lambda task: bool(task.events) and task.events[0].kind == "payment_posted", kind="double_charge", posted_late=True)
    look = call("get_invoice", invoice_id=task.parameters["invoice_id"])
    before, waited, after = await played(env, task, look, call("wait", seconds=600), look)
    counts = [[paid["payment_id"] for paid in step.observation.results[0]["result"]["payments"]] for step in (before, after)]
    assert (len(counts[0]), len(counts[1])) == (1, 2)
    assert task.parameters["payment_id"] in set(counts[1]) - set(counts[0])
    assert "payment_posted" in [event.kind for event in waited.info.background]


def lapsing(when: str, **wanted: object) -> Task:
    """A dispute in which a refund is due and the gateway's window of its payment lapses."""
    return search(lambda task: task.parameters["refund_cents"] > 0, withheld="nothing", posted_late=False, window_lapses=when, **wanted)


def handed_over(task: Task) -> tuple[Action, ...]:
    """What is right once the window has lapsed."""
    ticket, note = task.parameters["ticket_id"], "{refund_cents} cents are due on payment {payment_id}.".format(**task.parameters)
    escalate = call("escalate_ticket", ticket_id=ticket, queue="refunds-approval", note=note)
    return reply(task, "Your ticket was handed over."), escalate, Message("Done.")


@pytest.mark.parametrize(("when", "seconds"), [("soon", 90), ("later", 900)])
async def test_what_is_right_depends_on_whether_the_window_had_lapsed(env: ToolEnvironment, when: str, seconds: int) -> None:
    task = lapsing(when, told_first=False)
    *_, in_time = await played(env, task, *handled(task))
    *_, too_early = await played(env, task, *handed_over(task))
    lapsed, refused, *_, too_late = await played(env, task, call("wait", seconds=seconds), *handled(task))
    *_, after_it = await played(env, task, call("wait", seconds=seconds), *handed_over(task))
    assert set(failed(in_time)) == {"order"}  # no evidence was looked at
    assert set(failed(too_early)) == {"order", "refund", "ticket", "nothing_else"}
    assert [event.kind for event in lapsed.info.background if event.effects and event.kind == "window_lapses"] == ["window_lapses"]
    assert refused.observation.results[0]["status"] == "conflict"
    assert "has lapsed" in refused.observation.results[0]["error"]
    assert set(failed(too_late)) == {"order", "ticket"}
    assert set(failed(after_it)) == {"order"}


async def test_a_window_shows_whether_it_is_open_and_holds_for_disputes_too(env: ToolEnvironment) -> None:
    task = lapsing("soon")
    payment, ticket = task.parameters["payment_id"], task.parameters["ticket_id"]
    look, dispute = call("get_payment", payment_id=payment), call("open_dispute", payment_id=payment, ticket_id=ticket, reason="none")
    before, _, after, refused = await played(env, task, look, call("wait", seconds=90), look, dispute)
    shown = [step.observation.results[0]["result"]["dispute_window"] for step in (before, after)]
    assert (shown, refused.observation.results[0]["status"]) == (["open", "lapsed"], "conflict")


async def test_a_refund_in_time_stands_when_the_window_lapses_before_the_ticket_is_closed(env: ToolEnvironment) -> None:
    task = lapsing("soon", told_first=False)
    refund, *others = handled(task)
    *_, last = await played(env, task, refund, call("wait", seconds=90), *others)
    assert set(failed(last)) == {"order"}


async def test_a_window_of_a_charge_that_shows_late_lapses_after_it(env: ToolEnvironment) -> None:
    task = search(lambda task: bool(task.events) and task.events[0].kind == "payment_posted", posted_late=True, window_lapses="soon")
    _, last = await played(env, task, call("wait", seconds=540), call("wait", seconds=400))
    assert [event.effects[0]["kind"] for event in last.info.background if event.kind == "window_lapses"] == ["window_lapsed"]


async def test_what_a_colleague_does_is_not_the_agents_doing(env: ToolEnvironment) -> None:
    task = search(withheld="nothing", posted_late=False, window_lapses="never")
    waited, *_, last = await played(env, task, call("wait", seconds=1700), *handled(task))
    done = {str(row.after["author"]) for row in waited.info.database if row.table == "messages" and row.after}
    assert {event.kind for event in waited.info.background} == {"colleague_resolves"}
    assert done == {"agent-3"}
    assert set(failed(last)) == {"order"}
