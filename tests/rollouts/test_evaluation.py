"""Measuring on what is held out: a fixed set, honest intervals, masked episodes apart, and the checkpoint to keep."""

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from wardian.envs.registry import load_world
from wardian.envs.splits import Split
from wardian.envs.task import CANARY
from wardian.rollouts.errors import LogBroken, LogMissing, UsageProblem
from wardian.rollouts.evaluation.checkpoints import FILE, Row, compared, rows_of
from wardian.rollouts.evaluation.intervals import estimate, pass_all, pass_at, wilson
from wardian.rollouts.evaluation.results import ProfileResults, profile_report, twin_report
from wardian.rollouts.evaluation.running import Evaluation, next_folder, with_twins
from wardian.rollouts.evaluation.taskset import TaskSet, task_set
from wardian.rollouts.export.dataset import load_rows
from wardian.rollouts.export.errors import SplitForbidden
from wardian.rollouts.ground import Ground
from wardian.rollouts.policies.base import Policy
from wardian.rollouts.policies.registry import load_policies
from wardian.rollouts.records import EpisodeEnd
from wardian.sandbox.streams import stream
from wardian.tools.faults import HARSH, MILD, NONE

pytestmark = pytest.mark.anyio
BILLING, TOY = load_world("billing"), load_world("toy")
(EXPERT,) = load_policies("expert", TOY, "toy")


@pytest.mark.parametrize(
    ("share", "count", "low", "high"),
    # From the tables of R. G. Newcombe, "Two-sided confidence intervals for the single proportion", 1998, method 3.
    [(81 / 263, 263, 0.2553, 0.3662), (15 / 148, 148, 0.0624, 0.1605), (0 / 20, 20, 0.0, 0.1611), (1 / 29, 29, 0.0061, 0.1718)],
)
def test_intervals_are_those_of_the_published_tables(share: float, count: int, low: float, high: float) -> None:
    assert wilson(share, count) == pytest.approx((low, high), abs=6e-5)


def test_an_interval_of_nothing_is_refused() -> None:
    for share, count in ((0.5, 0), (1.5, 3), (-0.1, 3)):
        with pytest.raises(ValueError, match="at least one trial"):
            wilson(share, count)
    assert estimate([]) is None


@pytest.mark.parametrize("k", [1, 2, 3])
def test_pass_at_k_and_pass_all_k_are_the_shares_of_all_choices_of_tries(k: int) -> None:
    for solved in range(6):
        tries = [True] * solved + [False] * (5 - solved)
        chosen = list(combinations(tries, k))
        assert pass_at(5, solved, k) == pytest.approx(mean(any(one) for one in chosen))
        assert pass_all(5, solved, k) == pytest.approx(mean(all(one) for one in chosen))
    assert pass_at(k - 1, 0, k) is pass_all(k - 1, 0, k) is None


def test_an_interval_over_tasks_holds_the_truth_where_tasks_differ() -> None:
    """Tasks of chances 0.1 and 0.9 with four repeats each: the interval over episodes would miss too often."""
    rng, held = stream(0, "coverage"), 0
    for _ in range(300):
        chances = [rng.choice((0.1, 0.9)) for _ in range(24)]
        found = estimate([sum(rng.random() < chance for _ in range(4)) / 4 for chance in chances])
        assert found is not None
        held += found.low <= 0.5 <= found.high
    assert held / 300 >= 0.93


def test_a_set_is_fixed_held_out_and_of_every_family_that_has_some() -> None:
    one, again, other = (task_set(BILLING, tasks=2, repeats=1, seed=seed) for seed in (0, 0, 1))
    assert (one.tasks, one.key) == (again.tasks, again.key)
    assert one.key != other.key != task_set(BILLING, tasks=2, repeats=3, seed=1).key
    splits = {BILLING.family(task.task_id.family).split_at(task.task_id.difficulty, task.task_id.seed) for task in one.tasks}
    assert splits == {"heldout"}
    assert {task.task_id.family for task in one.tasks} == {family.name for family in BILLING.families}
    assert {task.region for task in one.tasks} >= {"abuse", "look_alike"}
    with pytest.raises(UsageProblem, match="split: what is trained on says nothing"):
        task_set(BILLING, split=Split.TRAIN, tasks=1, repeats=1)


def test_episodes_of_two_policies_differ_in_the_policy_alone() -> None:
    tasks = task_set(TOY, tasks=1, repeats=2)
    other = replace(EXPERT, name="other")  # type: ignore[type-var]
    pairs = list(zip(tasks.planned(EXPERT, "r"), tasks.planned(other, "r"), strict=True))
    assert all(replace(two, policy=EXPERT) == one for one, two in pairs)
    assert len({one.seed for one, _ in pairs}) == len(pairs) == 6


SET = task_set(TOY, tasks=1, repeats=2)


def ended(number: int, repeat: int, *, solved: bool | None) -> EpisodeEnd:
    """The last line of an episode; `None` is one that failed through us."""
    planned = SET.planned(EXPERT, "r")[number * 2 + repeat]
    judged = solved is not None
    return EpisodeEnd.model_construct(
        episode_id=planned.episode_id,
        task_id=str(planned.task_id),
        outcome="terminated" if judged else "failed",
        end_cause="message" if judged else "infrastructure",
        mask=int(judged),
        succeeded=solved,
        reward=1.0 * bool(solved) if judged else None,
        verdict=None,
        retried=False,
    )


def results(*outcomes: tuple[bool | None, bool | None]) -> ProfileResults:
    found = ProfileResults.of(SET)
    for number, pair in enumerate(outcomes):
        for repeat, solved in enumerate(pair):
            found.add(ended(number, repeat, solved=solved))
    return found.gather()


def test_masked_episodes_stand_apart_and_are_never_failures() -> None:
    report = profile_report(results((True, None), (None, None), (True, False)), 2)
    assert (report["tasks"], report["episodes"], report["masked"], report["masked_by_cause"]) == (3, 6, 3, {"infrastructure": 3})
    assert (report["success"]["mean"], report["success"]["tasks"]) == (0.75, 2)
    assert (report["pass_at_k"]["mean"], report["pass_all_k"]["mean"], report["pass_all_k"]["tasks"]) == (1.0, 0.0, 1)
    assert report["by_difficulty"]["medium"]["success"] is None
    assert report["by_region"]["lending-desk/rui"]["tasks"] == 3


def test_twins_are_compared_by_episode_where_both_were_judged() -> None:
    report = twin_report(results((True, None), (False, False), (True, False)), results((True, True), (True, True), (False, True)))
    assert {name: report[name] for name in ("pairs", "not_judged", "lost_by_faults", "won_by_faults")} == {
        "pairs": 5,
        "not_judged": 1,
        "lost_by_faults": 3,
        "won_by_faults": 1,
    }


def row(label: str, success: float, *, every: float = 0.5, hard: int = 0, checkpoints: tuple[str, ...] = ("1",), key: str = "a") -> Row:
    low, high = wilson(success, 40)
    share = {"mean": success, "low": low, "high": high, "tasks": 40}
    report = {"success": share, "pass_at_k": share, "pass_all_k": {**share, "mean": every}, "hard_failures": hard}
    profile = {**report, "episodes": 80, "masked": 0, "mean_reward": 0.1}
    common = {"set": key, "headline": "mild", "k": 2, "split": "heldout", "policy": "p", "checkpoints": list(checkpoints), "run": label}
    return Row(label, {**common, "profiles": {"mild": profile}})


def test_the_checkpoint_to_keep_has_the_most_success_and_says_what_it_cannot_be_told_from() -> None:
    table = compared([row("a", 0.2), row("b", 0.8), row("c", 0.7), row("d", 0.95, checkpoints=("1", "2"))])
    assert (table["keep"]["label"], table["not_told_apart"]) == ("b", ["c"])
    assert table["by"] == "success on the split heldout under mild"


def test_of_equal_success_the_steadier_and_then_the_less_harmful_is_kept() -> None:
    assert compared([row("a", 0.5), row("b", 0.5, every=0.6), row("c", 0.5)])["keep"]["label"] == "b"
    assert compared([row("a", 0.5, hard=3), row("b", 0.5, hard=1), row("c", 0.5, hard=1)])["keep"]["label"] == "b"


def test_evaluations_of_different_sets_are_not_compared() -> None:
    with pytest.raises(UsageProblem, match=r"evaluations of different set cannot be compared: a has .*, b has"):
        compared([row("a", 0.5), row("b", 0.5, key="b")])


def test_a_folder_without_a_whole_evaluation_is_named(tmp_path: Path) -> None:
    with pytest.raises(LogMissing, match=r"holds no eval.json"):
        rows_of([tmp_path])
    (tmp_path / FILE).write_text("{")
    with pytest.raises(LogBroken, match="cannot be read as JSON"):
        rows_of([tmp_path])


def test_the_profile_without_faults_is_played_in_any_case_and_each_once() -> None:
    assert with_twins([HARSH]) == (HARSH, NONE)
    assert with_twins([NONE, MILD]) == (NONE, MILD)
    with pytest.raises(UsageProblem, match="name each profile once"):
        with_twins([MILD, MILD])


async def evaluation(ground: Ground, tasks: TaskSet, policy: Policy, out: Path) -> dict[str, Any]:
    folder = next_folder(out, policy.name)
    return await Evaluation(ground, "toy", tasks, with_twins([MILD]), policy, 2, out=folder).run(workers=2)


async def test_an_evaluation_plays_each_profile_and_keeps_what_cannot_be_trained_on(ground: Ground, tmp_path: Path) -> None:
    tasks = task_set(ground.world, tasks=1, repeats=2, difficulty="easy")
    for policy in load_policies("expert,idle", ground.world, "toy"):
        await evaluation(ground, tasks, policy, tmp_path)
    expert, idle = rows_of([tmp_path])
    assert (expert.label, idle.label) == ("001-expert", "002-idle")
    assert {name: report["success"]["mean"] for name, report in expert.found["profiles"].items()} == {"mild": 1.0, "none": 1.0}
    assert (expert.found["twins"]["mild"]["pairs"], idle.headline["success"]["mean"]) == (2, 0.0)
    assert compared([idle, expert])["keep"]["label"] == "001-expert"
    assert CANARY in (tmp_path / "001-expert" / FILE).read_text()
    for faults in ("mild", "none"):
        log = tmp_path / "001-expert" / faults
        assert {json.loads(line).get("split", "heldout") for line in (log / "trajectories.jsonl").read_text().splitlines()} == {"heldout"}
        with pytest.raises(SplitForbidden):
            load_rows(log)
