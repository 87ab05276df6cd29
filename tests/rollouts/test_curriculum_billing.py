"""Variants of tickets: the truth follows what an operator changed, and the reference solution finds it."""

from dataclasses import replace

import pytest

from wardian.envs.definition import WorldDefinition
from wardian.envs.errors import TaskError
from wardian.envs.registry import load_world, open_environment
from wardian.envs.task import Difficulty, TaskId
from wardian.envs.variants import Broke, suggestions, task_of
from wardian.rollouts.curriculum.fatal import solvable

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def billing() -> WorldDefinition:
    return load_world("billing")


def first_of(world: WorldDefinition, family: str, variation: str) -> TaskId:
    """A variant of the first easy task that the operator applies to, and that is for training."""
    for seed in range(50):
        found = TaskId(family, Difficulty.EASY, seed, variation)
        try:
            if task_of(world, found).split == "train":
                return found
        except TaskError:
            continue
    raise AssertionError(f"{variation} applies nowhere")


VARIANTS = [
    ("billing-dispute", "distractor.0"),
    ("billing-dispute", "shift_amount"),
    ("policy-escalation", "shift_amount"),
    ("error-recovery", "move_trap.reply_done"),
    ("billing-dispute", "shift_amount+distractor.1+fault.list_messages.0.timeout_before"),
]


async def test_the_reference_solves_variants_under_faults(billing: WorldDefinition) -> None:
    async with open_environment(billing, faults="mild") as env:
        solved = [await solvable(env, first_of(billing, *one), 3) for one in VARIANTS]
    assert all(solved)


def test_an_earlier_refund_changes_what_is_right(billing: WorldDefinition) -> None:
    gone = first_of(billing, "billing-dispute", "shift_amount")
    before, after = task_of(billing, replace(gone, variation="")), task_of(billing, gone)
    assert before.parameters["refund_cents"] > 0 == after.parameters["refund_cents"]
    assert (before.parameters["resolution"], after.parameters["resolution"]) == ("refunded", "already_refunded")


def test_a_distractor_names_its_own_records_alone(billing: WorldDefinition) -> None:
    task_id = first_of(billing, "billing-dispute", "distractor.0")
    before, after = task_of(billing, replace(task_id, variation="")), task_of(billing, task_id)
    new = {table: rows[len(before.rows.get(table, ())) :] for table, rows in after.rows.items()}
    (customer,), (invoice,), (ticket,) = new["customers"], new["invoices"], new["tickets"]
    assert {row["customer_id"] for row in (invoice, ticket, *new["payments"])} == {customer["id"]}
    assert {row["invoice_id"] for row in new["payments"]} == {invoice["id"]}
    assert any(str(invoice["id"]) in str(row["body"]) for row in new["messages"])
    assert not any(str(before.parameters["invoice_id"]) in str(row["body"]) for row in new["messages"])


def test_a_fault_is_suggested_where_the_policy_broke(billing: WorldDefinition) -> None:
    task = task_of(billing, replace(first_of(billing, "error-recovery", "move_trap.reply_done"), variation=""))
    found = [one.variation for one in suggestions(billing, task, Broke("reply_to_ticket", 2))]
    assert found[0] == "move_trap.reply_done"
    assert "fault.reply_to_ticket.2.timeout_after" in found
