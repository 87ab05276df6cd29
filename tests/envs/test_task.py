"""Task ids, hashes, and the toy world's generator."""

from dataclasses import replace

import pytest

from wardian.envs.errors import TaskError
from wardian.envs.task import Budgets, Difficulty, TaskId
from wardian.envs.worlds.toy.families.requests import LendingDesk


def test_an_id_reads_as_it_is_written() -> None:
    task_id = TaskId("billing-dispute", Difficulty.HARD, 771)
    assert str(task_id) == "billing-dispute/hard/seed-771"
    assert TaskId.parse(str(task_id)) == task_id


@pytest.mark.parametrize(
    "text", ["", "a/hard", "a/hardest/seed-1", "a/hard/seed-", "a/hard/seed--1", "a/hard/seed-1/x", "a/hard/seed-\u0663"]
)
def test_a_bad_id_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(TaskError, match=r"is not of the form family/easy\|medium\|hard/seed-N"):
        TaskId.parse(text)


@pytest.mark.parametrize(
    "change", [{"budgets": Budgets(steps=1)}, {"agent_id": "other"}, {"split": "test"}, {"rows": {}}, {"tools": ("a",)}]
)
def test_the_hash_covers_every_field(change: dict[str, object]) -> None:
    task = LendingDesk().generate(Difficulty.EASY, 1)
    assert replace(task, **change).hash != task.hash  # type: ignore[arg-type]


def test_toy_tasks_differ_by_seed_and_difficulty() -> None:
    tasks = [LendingDesk().generate(difficulty, seed) for difficulty in Difficulty for seed in range(20)]
    assert len({task.hash for task in tasks}) == len(tasks)


def test_hard_toy_tasks_hold_refusals_of_every_kind() -> None:
    reports = [line for seed in range(40) for line in LendingDesk().generate(Difficulty.HARD, seed).parameters["report"]]
    assert {"refused suspended", "refused limit", "refused none"} <= set(reports)
