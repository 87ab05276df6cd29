"""What is drawn for training: one split alone, mixtures in their proportions, groups of one task."""

from collections import Counter
from itertools import islice

import pytest

from wardian.envs.registry import load_world
from wardian.envs.splits import Split
from wardian.envs.task import TaskId
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.plan import plan
from wardian.rollouts.policies.registry import load_policies
from wardian.rollouts.sampling import Mixture, fresh, groups_of, in_order, pairs_of, split_asked, training_batches

BILLING, TOY = load_world("billing"), load_world("toy")
EXPERT = load_policies("expert", BILLING, "billing")
SCRIPTED = ("expert", "idle", "random", "vandal", "careless")


def split_of(task_id: TaskId) -> str:
    return BILLING.family(task_id.family).generate(task_id.difficulty, task_id.seed).split


@pytest.mark.parametrize("split", list(Split))
def test_a_plan_has_tasks_of_one_split_and_each_once(split: Split) -> None:
    tasks = [planned.task_id for planned in plan(BILLING, EXPERT, run="r", episodes=40, seed=3, split=split)]
    assert {split_of(task) for task in tasks} == {split.value}
    assert len(set(tasks)) == 40


def test_a_plan_of_any_split_begins_at_the_same_seeds() -> None:
    trained, every = (
        plan(BILLING, EXPERT, run="r", episodes=60, seed=3, family="billing-dispute", split=split) for split in (Split.TRAIN, None)
    )
    assert {split_of(planned.task_id) for planned in every} == {"train", "eval", "heldout"}
    same = [one.task_id == other.task_id for one, other in zip(trained, every, strict=True)]
    assert same == [split_of(planned.task_id) == "train" for planned in every]


def test_shares_follow_weights_and_no_family_is_above_the_cap() -> None:
    assert Mixture({"a": 3, "b": 1}).shares() == {"a": 0.75, "b": 0.25}
    assert Mixture({"a": 8, "b": 1, "c": 1}, 0.5).shares() == {"a": 0.5, "b": 0.25, "c": 0.25}
    assert Mixture({"a": 8, "b": 3, "c": 1}, 0.4).shares() == pytest.approx({"a": 0.4, "b": 0.4, "c": 0.2})
    assert Mixture({"a": 8, "b": 1}, 0.5).shares() == {"a": 0.5, "b": 0.5}


@pytest.mark.parametrize(
    ("text", "cap", "message"),
    [
        ("a=1,b", 1, "'b' is not of the form family=weight"),
        ("a=0", 1, "above 0"),
        ("a=nan", 1, "above 0"),
        ("a=1,b=1", 0.4, "at least 0.500"),
        ("a=1", 1.5, "up to 1"),
        ("no-such=1", 1, "nothing to draw of no-such"),
    ],
)
def test_a_wrong_mixture_is_refused_and_says_why(text: str, cap: float, message: str) -> None:
    with pytest.raises(UsageProblem, match=message):
        next(in_order(pairs_of(BILLING, Split.TRAIN), Mixture.parse(text, cap)))


@pytest.mark.parametrize("policies", [2, 3, 4, 5])
def test_policies_share_the_episodes_equally_and_each_family_among_them(policies: int) -> None:
    some = load_policies(",".join(SCRIPTED[:policies]), BILLING, "billing")
    turn = len(pairs_of(BILLING, Split.TRAIN))
    planned = plan(BILLING, some, run="r", episodes=turn * policies * 2, seed=0)
    assert set(Counter(one.policy.name for one in planned).values()) == {turn * 2}
    assert set(Counter(one.policy.name for one in planned[: policies * 3]).values()) == {3}
    assert set(Counter((one.policy.name, one.task_id.family, one.task_id.difficulty) for one in planned).values()) == {2}


def test_any_stretch_of_a_mixture_has_nearly_its_shares() -> None:
    mixture = Mixture({"billing-dispute": 5, "error-recovery": 3, "policy-escalation": 2})
    names = [family.name for family, _ in islice(in_order(pairs_of(BILLING, Split.TRAIN), mixture), 100)]
    for start in range(0, 100, 10):
        assert Counter(names[start : start + 10]) == {"billing-dispute": 5, "error-recovery": 3, "policy-escalation": 2}


def test_a_group_is_one_task_with_one_seed_and_another_policy_seed_each() -> None:
    planned = plan(BILLING, EXPERT, run="r", episodes=12, seed=1, group=4)
    for start in range(0, 12, 4):
        group = planned[start : start + 4]
        assert len({(one.task_id, one.seed) for one in group}) == 1
        assert len({one.policy_seed for one in group}) == 4
    assert len({one.task_id for one in planned}) == 3
    assert [one.task_id for one in planned[::4]] == [one.task_id for one in plan(BILLING, EXPERT, run="r", episodes=3, seed=1)]
    with pytest.raises(UsageProblem, match="group: 10 episodes make no whole groups of 4"):
        plan(BILLING, EXPERT, run="r", episodes=10, seed=1, group=4)


def test_training_batches_are_stratified_and_hold_nothing_out() -> None:
    first, second = islice(training_batches(BILLING, seed=0, groups=24, size=2), 2)
    for batch in (first, second):
        counts = Counter(group.task_id.family for group in batch)
        assert max(counts.values()) - min(counts.values()) <= 3
        assert {split_of(group.task_id) for group in batch} == {"train"}
    assert not {group.task_id for group in first} & {group.task_id for group in second}


def test_what_there_is_nothing_of_is_said() -> None:
    with pytest.raises(UsageProblem, match=r"statement-reconciliation has no easy task of the split 'heldout'; give another --split"):
        pairs_of(BILLING, Split.HELDOUT, "statement-reconciliation", "easy")
    with pytest.raises(UsageProblem, match="split: no 'test'; there are train, eval, heldout, and all"):
        split_asked("test")
    pair = pairs_of(TOY, Split.TRAIN)[0]
    with pytest.raises(UsageProblem, match="found no further easy task"):
        fresh((TOY.families[1], pair[1]), 0, Split.HELDOUT, set())


def test_a_longer_draw_begins_like_a_shorter_one() -> None:
    one, other = (list(islice(groups_of(TOY, seed=9, size=1), count)) for count in (3, 9))
    assert other[:3] == one
