"""What a generated claim holds: pure, distinct, and true to the policy by arithmetic of its own."""

import re
from calendar import monthrange
from fractions import Fraction
from math import floor
from typing import Any

import pytest

from wardian.envs.definition import WorldDefinition
from wardian.envs.task import Difficulty, Task
from wardian.envs.worlds.billing.families.recovery import TRAPS
from wardian.envs.worlds.billing.seed import PRICES

SEEDS = range(60)


def tasks(billing: WorldDefinition, family: str, difficulty: Difficulty, seeds: range = SEEDS) -> list[Task]:
    return [billing.family(family).generate(difficulty, seed) for seed in seeds]


def evidence(task: Task, name: str) -> list[str]:
    return task.files.entries[f"/workspace/tickets/{task.parameters['ticket_id']}/{name}"].data.decode().splitlines()


def row(task: Task, table: str, key: object) -> dict[str, Any]:
    return next(dict(found) for found in task.rows[table] if found["id"] == key)


def owed_cents(task: Task) -> int:
    """What the evidence says, read as the policy says."""
    wanted = task.parameters
    invoice, payment = row(task, "invoices", wanted["invoice_id"]), row(task, "payments", wanted["payment_id"])
    if wanted["kind"] == "double_charge":
        mine = {found["gateway_ref"] for found in task.rows["payments"] if found["invoice_id"] == wanted["invoice_id"]}
        log = [line.split(",") for line in evidence(task, "gateway.csv")[1:]]
        reversed_ = any(reference in mine and event == "reversed" for _, reference, event, _ in log)
        return 0 if reversed_ else payment["amount_cents"]
    if wanted["kind"] == "wrong_plan":
        ordered = [line for line in evidence(task, "order_form.txt") if line.startswith("Plan ordered:") and "VOID" not in line]
        return int(invoice["total_cents"]) - PRICES[ordered[0].split()[-1]]
    if wanted["kind"] == "after_cancellation":
        (confirmed,) = [line.split()[-1] for line in evidence(task, "mail.txt") if line.startswith("Cancellation confirmed:")]
        return payment["amount_cents"] if confirmed < f"{invoice['period']}-01" else 0
    (change,) = [line.split(",") for line in evidence(task, "plan_changes.csv") if f",{invoice['subscription_id']}," in line]
    date, _, before, after = change
    if date[:7] != invoice["period"]:
        return 0
    days = monthrange(int(date[:4]), int(date[5:7]))[1]
    old_days = int(date[8:]) - 1
    right = Fraction(PRICES[before] * old_days + PRICES[after] * (days - old_days), days)
    return int(invoice["total_cents"]) - floor(right + Fraction(1, 2))


@pytest.mark.parametrize("difficulty", Difficulty)
@pytest.mark.parametrize("family", ["billing-dispute", "error-recovery"])
def test_the_truth_of_a_task_is_what_rows_and_files_say(billing: WorldDefinition, family: str, difficulty: Difficulty) -> None:
    for task in tasks(billing, family, difficulty):
        wanted = task.parameters
        prior = sum(
            int(str(found["amount_cents"])) for found in task.rows.get("refunds", ()) if found["payment_id"] == wanted["payment_id"]
        )
        owed = owed_cents(task)
        assert wanted["refund_cents"] == max(0, owed - prior), task.id
        expected = "declined_unfounded" if owed == 0 else "refunded" if owed > prior else "already_refunded"
        assert wanted["resolution"] == expected, task.id


@pytest.mark.parametrize("difficulty", Difficulty)
def test_every_kind_and_outcome_comes_up(billing: WorldDefinition, difficulty: Difficulty) -> None:
    found = {(task.parameters["kind"], task.parameters["founded"]) for task in tasks(billing, "billing-dispute", difficulty)}
    assert len(found) == 8
    outcomes = {task.parameters["resolution"] for task in tasks(billing, "billing-dispute", difficulty)}
    assert ("already_refunded" in outcomes) == (difficulty is Difficulty.HARD)


@pytest.mark.parametrize("difficulty", Difficulty)
def test_error_recovery_springs_each_trap_on_a_refund_that_fits_twice(billing: WorldDefinition, difficulty: Difficulty) -> None:
    found = tasks(billing, "error-recovery", difficulty)
    assert {task.parameters["trap"] for task in found} == set(TRAPS)
    for task in found:
        paid = row(task, "payments", task.parameters["payment_id"])["amount_cents"]
        assert 0 < 2 * task.parameters["refund_cents"] <= paid
        assert task.revocable_scopes == ("refunds:write",)
        assert set(TRAPS[task.parameters["trap"]]) <= set(task.due_faults)


@pytest.mark.parametrize("family", ["billing-dispute", "error-recovery"])
def test_other_seeds_and_difficulties_are_other_tasks(billing: WorldDefinition, family: str) -> None:
    found = [task for difficulty in Difficulty for task in tasks(billing, family, difficulty)]
    assert len({task.hash for task in found}) == len(found)
    files = {tuple(sorted((path, entry.data) for path, entry in task.files.entries.items())) for task in found}
    assert len(files) == len(found)


def test_the_harder_a_task_the_more_stands_around_it(billing: WorldDefinition) -> None:
    easy, medium, hard = (tasks(billing, "billing-dispute", difficulty, range(1))[0] for difficulty in Difficulty)
    sizes = [max(len(entry.data) for entry in task.files.entries.values()) for task in (easy, medium, hard)]
    assert sizes[0] < 2_000 < 20_000 < sizes[1] < 100_000 < sizes[2]
    assert [len(task.rows["customers"]) for task in (easy, medium, hard)] == [1, 2, 4]


@pytest.mark.parametrize("difficulty", [Difficulty.MEDIUM, Difficulty.HARD])
def test_look_alikes_have_nearly_the_same_name_and_another_address(billing: WorldDefinition, difficulty: Difficulty) -> None:
    for task in tasks(billing, "billing-dispute", difficulty):
        names = [str(found["name"]) for found in task.rows["customers"]]
        assert len({name[:4] for name in names}) == 1
        assert len({found["email"] for found in task.rows["customers"]}) == len(names)


def test_what_the_agent_is_told_holds_no_answer(billing: WorldDefinition) -> None:
    for difficulty in Difficulty:
        for task in tasks(billing, "billing-dispute", difficulty):
            assert re.fullmatch(
                r"Work on ticket \d+\. Its evidence stands in /workspace/tickets/\d+/\. Send a message .*", task.instruction
            )
