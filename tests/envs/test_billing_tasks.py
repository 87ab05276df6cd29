"""Tasks of the support desk: pure, distinct, of every kind, and what their files and rows say is what their truth says."""

import os
import re
import subprocess
import sys
import time
from collections import Counter
from functools import cache
from typing import get_args

import pytest

from wardian.envs.family import Family
from wardian.envs.registry import load_world
from wardian.envs.task import Difficulty, Task
from wardian.envs.worlds.billing.differences import ITEMS
from wardian.envs.worlds.billing.families.recovery import TRAPS
from wardian.envs.worlds.billing.scene import NEWEST_FIRST
from wardian.envs.worlds.billing.seed import NOW, PRICES, QUEUES
from wardian.envs.worlds.billing.statement import COLUMNS
from wardian.envs.worlds.billing.tools.acting import Reason, Resolution

WORLD = load_world("billing")
DISPUTE, RECOVERY, ESCALATION, STATEMENT, FRAUD = WORLD.families
SEEDS = range(60)
HASHES = """
from wardian.envs.registry import load_world
from wardian.envs.task import Difficulty
for family in load_world("billing").families:
    for difficulty in Difficulty:
        print(*(family.generate(difficulty, seed).hash for seed in range(5)))
"""
every_family = pytest.mark.parametrize("family", WORLD.families, ids=lambda family: family.name)
every_desk = pytest.mark.parametrize("family", [DISPUTE, RECOVERY, ESCALATION], ids=lambda family: family.name)
every_difficulty = pytest.mark.parametrize("difficulty", Difficulty)


@cache
def made(family: Family, difficulty: Difficulty, seed: int) -> Task:
    """A task, made once for all tests that only look at it."""
    return family.generate(difficulty, seed)


def evidence(task: Task) -> dict[str, str]:
    """Text of each evidence file, by name."""
    return {path.rsplit("/", 1)[1]: entry.data.decode() for path, entry in task.files.entries.items()}


@every_family
@every_difficulty
def test_tasks_are_equal_twice_and_distinct(family: Family, difficulty: Difficulty) -> None:
    first, again = ([family.generate(difficulty, seed).hash for seed in range(30)] for _ in range(2))
    assert first == again
    assert len(set(first)) == 30


def test_tasks_do_not_depend_on_the_order_of_sets() -> None:
    outputs = [
        subprocess.run(
            [sys.executable, "-c", HASHES], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        )
        for seed in ("0", "4711")
    ]
    here = [" ".join(family.generate(level, seed).hash for seed in range(5)) for family in WORLD.families for level in Difficulty]
    assert [output.stdout.splitlines() for output in outputs] == [here, here]


@every_difficulty
def test_every_claim_occurs_founded_and_unfounded(difficulty: Difficulty) -> None:
    drawn = Counter((task.parameters["kind"], task.parameters["founded"]) for task in (made(DISPUTE, difficulty, seed) for seed in SEEDS))
    assert set(drawn) == {
        (kind, founded) for kind in ("double_charge", "wrong_plan", "after_cancellation", "proration") for founded in (True, False)
    }


def test_earlier_refunds_stand_in_hard_tasks_alone() -> None:
    prior = {level: [task for seed in SEEDS if "refunds" in (task := made(DISPUTE, level, seed)).rows] for level in Difficulty}
    assert {task.parameters["resolution"] for task in prior[Difficulty.HARD]} == {"refunded", "already_refunded", "declined_unfounded"}
    assert not prior[Difficulty.EASY] + prior[Difficulty.MEDIUM]


@every_difficulty
def test_every_trap_occurs_and_a_second_refund_would_go_through(difficulty: Difficulty) -> None:
    tasks = [made(RECOVERY, difficulty, seed) for seed in SEEDS]
    assert {task.parameters["trap"] for task in tasks} == set(TRAPS)
    for task in tasks:
        payment = next(row for row in task.rows["payments"] if row["id"] == task.parameters["payment_id"])
        assert 0 < 2 * int(task.parameters["refund_cents"]) <= int(str(payment["amount_cents"]))


@every_desk
def test_a_refund_is_due_exactly_when_the_ticket_ends_refunded(family: Family) -> None:
    for seed in SEEDS:
        wanted = made(family, Difficulty.HARD, seed).parameters
        assert (wanted["resolution"] == "refunded") == (wanted["refund_cents"] > 0)


@every_desk
@every_difficulty
def test_evidence_is_of_the_past_and_in_order(family: Family, difficulty: Difficulty) -> None:
    for seed in SEEDS:
        files = evidence(made(family, difficulty, seed))
        assert max(date for text in files.values() for date in re.findall(r"\d{4}-\d\d-\d\d", text)) < f"{NOW:%Y-%m-%d}"
        lines = files["gateway.csv"].splitlines()[1:]
        if made(family, difficulty, seed).parameters["evidence_order"] == NEWEST_FIRST:
            lines.reverse()
        assert all(
            re.fullmatch(
                r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ,gw_[0-9a-f]{12},(authorised|captured|reversed|chargeback|chargeback_withdrawn),\d+", line
            )
            for line in lines
        )
        assert lines == sorted(lines)


@every_difficulty
def test_a_late_plan_change_is_of_the_month_after(difficulty: Difficulty) -> None:
    for seed in SEEDS:
        task = made(DISPUTE, difficulty, seed)
        if task.parameters["kind"] == "proration":
            invoice = next(row for row in task.rows["invoices"] if row["id"] == task.parameters["invoice_id"])
            date = re.findall(rf"(\S+),{invoice['subscription_id']},", evidence(task)["plan_changes.csv"])[0]
            assert date.startswith(str(invoice["period"])) == task.parameters["founded"]


def test_hard_tasks_are_longer_and_have_look_alikes() -> None:
    sizes = [len(evidence(DISPUTE.generate(level, 1))["gateway.csv"]) for level in Difficulty]
    tasks = [DISPUTE.generate(level, 1) for level in Difficulty]
    assert sizes[0] < sizes[1] < sizes[2]
    assert [len(task.rows["customers"]) - 1 for task in tasks] == [task.parameters["look_alikes"] for task in tasks]


@every_family
def test_a_hard_task_is_made_in_milliseconds(family: Family) -> None:
    def once(seed: int) -> float:
        started = time.process_time()
        family.generate(Difficulty.HARD, seed)
        return time.process_time() - started

    assert min(once(seed) for seed in range(10)) < 0.02


def test_the_policy_names_only_what_exists() -> None:
    tools = {tool.name for tool in WORLD.tools}
    codes = {*get_args(Reason), *get_args(Resolution)}
    arguments = {"idempotency_key"}
    files = {"gateway.csv", "order_form.txt", "mail.txt", "plan_changes.csv"}
    others = {
        "agent-7",
        "/workspace/tickets/<ticket id>/",
        "/workspace/policies",
        "grep",
        "awk",
        "refunds:write",
        *(str(queue["id"]) for queue in QUEUES),
    }
    others |= {"statement.csv", "statement.txt", "format.txt", "ledger.csv", "/workspace/reports/<ticket id>.csv", ",".join(COLUMNS)}
    others |= {"CARD", "FX", "RVSL", "FEE", "INV", "-R", "fees", *ITEMS}
    others |= {"chargeback", "chargeback_withdrawn", "contract", "paid_at", "created_at", "lapsed"}
    named = set(re.findall(r"`([^`]+)`", WORLD.policy))
    assert named <= tools | codes | arguments | files | others
    assert {"double_charge", "wrong_plan", "after_cancellation", "proration", "issue_refund"} <= named


def test_policy_and_files_come_with_the_package() -> None:
    assert WORLD.policy.startswith("# Support desk: policy manual")
    assert list(WORLD.files.entries) == ["/workspace/README.txt"]


def test_the_claim_asks_for_the_whole_price_whatever_is_owed() -> None:
    for seed in range(20):
        body = str(DISPUTE.generate(Difficulty.EASY, seed).rows["messages"][0]["body"])  # easy ones begin with the claim
        assert int(re.findall(r"(\d+) cents", body)[0]) in PRICES.values()


@every_family
@every_difficulty
def test_every_parameter_is_drawn_within_its_range_and_all_of_it(family: Family, difficulty: Difficulty) -> None:
    tasks = [made(family, difficulty, seed) for seed in SEEDS]
    for one in family.parameters:
        drawn = [task.parameters[one.name] for task in tasks]
        assert all(value in one.at(difficulty) for value in drawn), one.name
        assert len(set(drawn)) > 1 or str(one.at(difficulty)) == _shown(drawn[0]), one.name


def _shown(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


@every_difficulty
def test_the_scene_is_as_its_parameters_say(difficulty: Difficulty) -> None:
    for seed in SEEDS:
        task = made(DISPUTE, difficulty, seed)
        wanted = task.parameters
        mine = [row for row in task.rows["subscriptions"] if row["customer_id"] == wanted["customer_id"]]
        said = [str(row["body"]) for row in task.rows["messages"] if row["ticket_id"] == wanted["ticket_id"]]
        assert len(mine) == 1 + wanted["twin_subscriptions"]
        assert len(said) == 1 + wanted["asides"] + wanted["told_first"]
        assert len([path for path in task.files.entries if path.startswith("/workspace/policies/")]) == wanted["old_pages"]
        assert any("before any money moves" in text or "before you refund anything" in text for text in said) == wanted["told_first"]
        claim = said[{"first": 0, "last": -1}.get(wanted["claim_place"], (len(said) - 1) // 2)]
        assert (str(wanted["invoice_id"]) in claim) == (wanted["withheld"] == "nothing")


@every_family
@every_difficulty
def test_messages_stand_in_the_order_of_time(family: Family, difficulty: Difficulty) -> None:
    for seed in SEEDS:
        task = made(family, difficulty, seed)
        times = [row["sent_at"] for row in task.rows["messages"] if row["ticket_id"] == task.parameters["ticket_id"]]
        assert times == sorted(times, key=str)
        assert max(times, key=str) < task.start  # type: ignore[operator]
