"""The truth of a billing task is what its rows and files say, read as the policy says and counted by arithmetic of its own."""

import re
from calendar import monthrange
from collections import Counter
from datetime import datetime
from fractions import Fraction
from math import floor
from typing import Any

import pytest

from wardian.envs.family import Family
from wardian.envs.registry import load_world
from wardian.envs.task import Difficulty, Task
from wardian.envs.worlds.billing.seed import PRICES

FAMILIES = load_world("billing").families[:3]
"""Those of tickets; the statement's has tests of its own."""
SEEDS = range(60)
every_case = pytest.mark.parametrize(
    ("family", "difficulty"),
    [(family, difficulty) for family in FAMILIES for difficulty in Difficulty],
    ids=lambda part: getattr(part, "name", None),
)


def lines(task: Task, name: str) -> list[str]:
    """Lines of an evidence file."""
    return task.files.entries[f"/workspace/tickets/{task.parameters['ticket_id']}/{name}"].data.decode().splitlines()


def row(task: Task, table: str) -> dict[str, Any]:
    """The one in question."""
    key = task.parameters[f"{table[:-1]}_id"]
    return next(dict(found) for found in (payments(task) if table == "payments" else task.rows[table]) if found["id"] == key)


def payments(task: Task) -> list[dict[str, Any]]:
    """Those of the start, and one that shows only later."""
    later = [dict(event.facts) for event in task.events if event.kind == "payment_posted"]
    return [*map(dict, task.rows["payments"]), *({**found, "paid_at": datetime.fromisoformat(found["paid_at"])} for found in later)]


def double_charge(task: Task) -> int:
    payment = row(task, "payments")
    mine = {found["gateway_ref"] for found in payments(task) if found["invoice_id"] == task.parameters["invoice_id"]}
    events = [(reference, event, int(cents)) for _, reference, event, cents in (line.split(",") for line in lines(task, "gateway.csv")[1:])]
    assert [cents for reference, event, cents in events if reference in mine and event == "captured"] == [payment["amount_cents"]] * 2
    gone = [cents for reference, event, cents in events if reference in mine and event == "reversed"]
    assert gone == [cents for reference, event, cents in events if reference == payment["gateway_ref"] and event == "reversed"]
    return int(payment["amount_cents"]) - sum(gone)


def billed(task: Task) -> int:
    """Price of the plan on the invoice in question."""
    mine = [line for line in task.rows["invoice_lines"] if line["invoice_id"] == task.parameters["invoice_id"]]
    return next(int(str(line["amount_cents"])) for line in mine if line["kind"] == "plan")


def wrong_plan(task: Task) -> int:
    forms = "\n".join(lines(task, "order_form.txt")).split("\n\n")
    mine = [form for form in forms if f"Subscription: {row(task, 'invoices')['subscription_id']}\n" in f"{form}\n"]
    (valid,) = [form for form in mine if "VOID" not in form]
    return billed(task) - PRICES[re.findall(r"Plan ordered: (\w+)", valid)[0]]


def after_cancellation(task: Task) -> int:
    mine = f", subscription {row(task, 'invoices')['subscription_id']}"
    (confirmed,) = [line.removesuffix(mine).split()[-1] for line in lines(task, "mail.txt") if "confirmed:" in line and line.endswith(mine)]
    price, period = billed(task), str(row(task, "invoices")["period"])
    if confirmed[:7] == period:
        return price - half_up(Fraction(price * int(confirmed[8:]), days_of(period)))
    return int(row(task, "payments")["amount_cents"]) if confirmed < period else 0


def proration(task: Task) -> int:
    invoice = row(task, "invoices")
    (change,) = [line for line in lines(task, "plan_changes.csv") if f",{invoice['subscription_id']}," in line]
    date, _, before, after = change.split(",")
    if date[:7] != invoice["period"]:
        return 0
    days, old_days = days_of(date), int(date[8:]) - 1
    return billed(task) - half_up(Fraction(PRICES[before] * old_days + PRICES[after] * (days - old_days), days))


def days_of(date: str) -> int:
    return monthrange(int(date[:4]), int(date[5:7]))[1]


def half_up(cents: Fraction) -> int:
    return floor(cents + Fraction(1, 2))


OWED = {"double_charge": double_charge, "wrong_plan": wrong_plan, "after_cancellation": after_cancellation, "proration": proration}
THREAT = re.compile(r"hear from my lawyer|going to court over|filed a complaint against you|letter before action|report you to the")
TAKEN_BACK = re.compile(r"forget what I wrote|take that back")


def handed(task: Task, left: int) -> tuple[str, list[int]] | None:
    """Queue and facts by section 5 of the manual, from rows and files alone."""
    invoice, payment, customer, ticket = (row(task, table) for table in ("invoices", "payments", "customers", "tickets"))
    said = [str(found["body"]) for found in task.rows["messages"] if found["ticket_id"] == ticket["id"]]
    turns = [bool(THREAT.search(text)) for text in said if THREAT.search(text) or TAKEN_BACK.search(text)]
    if turns and turns[-1]:
        return "legal", [customer["id"], invoice["id"]]
    moves = sorted(line.split(",") for line in lines(task, "gateway.csv")[1:] if payment["gateway_ref"] in line)
    if [event for _, _, event, _ in moves if "chargeback" in event][-1:] == ["chargeback"]:
        return "fraud", [payment["id"], payment["amount_cents"]]
    parts = [int(str(line["amount_cents"])) for line in task.rows["invoice_lines"] if line["invoice_id"] == invoice["id"]]
    if sum(parts) != invoice["total_cents"]:
        return "engineering", [invoice["id"], abs(sum(parts) - invoice["total_cents"])]
    if left and customer["segment"] == "contract":
        return "accounts", [customer["id"], payment["id"], left]
    days = (ticket["created_at"].date() - payment["paid_at"].date()).days
    if left and days > 120:
        return "refunds-approval", [payment["id"], left, days]
    return ("refunds-approval", [payment["id"], left]) if left > 25000 else None


@every_case
def test_the_truth_is_what_rows_and_files_say(family: Family, difficulty: Difficulty) -> None:
    for task in (family.generate(difficulty, seed) for seed in SEEDS):
        wanted = task.parameters
        refunds = [found for found in task.rows.get("refunds", ()) if found["payment_id"] == wanted["payment_id"]]
        prior, owed = sum(int(str(found["amount_cents"])) for found in refunds), OWED[wanted["kind"]](task)
        left = max(0, owed - prior)
        own = (left, "declined_unfounded" if owed == 0 else "refunded" if left else "already_refunded")
        queue, facts = handed(task, left) or (None, [])
        assert (wanted["queue"], wanted["facts"]) == (queue, facts), task.id
        assert (wanted["refund_cents"], wanted["resolution"]) == ((0, None) if queue else own), task.id


@every_case
def test_the_payment_in_question_is_the_later_one_of_the_customers_invoice(family: Family, difficulty: Difficulty) -> None:
    for task in (family.generate(difficulty, seed) for seed in SEEDS):
        of_invoice = [found for found in payments(task) if found["invoice_id"] == task.parameters["invoice_id"]]
        assert max(of_invoice, key=lambda found: str(found["paid_at"]))["id"] == task.parameters["payment_id"]
        assert {found["customer_id"] for found in of_invoice} == {task.parameters["customer_id"]} == {row(task, "tickets")["customer_id"]}


@pytest.mark.parametrize("difficulty", Difficulty)
def test_no_single_answer_holds_for_a_third_of_the_claims(difficulty: Difficulty) -> None:
    """Without the evidence a claim can be declined, paid in full, or called settled; each of them is seldom right."""
    tasks = [FAMILIES[0].generate(difficulty, seed) for seed in range(400)]
    answers = Counter(
        "in full" if task.parameters["refund_cents"] == row(task, "payments")["amount_cents"] else task.parameters["resolution"]
        for task in tasks
    )
    assert max(answers["in full"], answers["declined_unfounded"], answers["already_refunded"]) < len(tasks) / 3


def test_an_earlier_refund_does_not_tell_whether_a_claim_is_founded() -> None:
    tasks = [FAMILIES[0].generate(Difficulty.HARD, seed) for seed in range(200)]
    assert {task.parameters["founded"] for task in tasks if "refunds" in task.rows} == {True, False}


@every_case
def test_files_differ_between_seeds(family: Family, difficulty: Difficulty) -> None:
    keys = {family.generate(difficulty, seed).files.key for seed in SEEDS}
    assert len(keys) == len(SEEDS)


@pytest.mark.parametrize("difficulty", [Difficulty.MEDIUM, Difficulty.HARD])
def test_look_alikes_have_nearly_the_same_name_and_another_address(difficulty: Difficulty) -> None:
    for task in (FAMILIES[0].generate(difficulty, seed) for seed in SEEDS):
        people = task.rows["customers"]
        assert len({str(found["name"])[:4] for found in people}) == 1
        assert len({found["email"] for found in people}) == len(people)
