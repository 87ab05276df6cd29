"""What is counted and what is allowed, without any world."""

from collections.abc import Callable

import pytest

from wardian.envs.attack import Allowance
from wardian.envs.task import Difficulty
from wardian.envs.verifier import Check, FinalState, Verdict
from wardian.envs.worlds.toy.families.requests import LendingDesk
from wardian.rollouts.redteam.log import mutants as log_mutants
from wardian.rollouts.redteam.mutants import Fate, Judged, Mutant, Score, judge, unused
from wardian.rollouts.redteam.rows import patched
from wardian.sandbox.database.base import RowChange
from wardian.sandbox.files import FileChanges
from wardian.tools.contract import CallEvent, Status

STATE = FinalState(LendingDesk().generate(Difficulty.EASY, 1), None, (), FileChanges({}), {}, (), "message")
MUTANT = Mutant("nudged own loans.returned_at", "", STATE)
CLOCK = Allowance("* own loans.returned_at", "the clock's")


def verdict(passed: bool) -> Callable[[FinalState], Verdict]:
    return lambda state: Verdict((Check("a", passed),))


def raising(state: FinalState) -> Verdict:
    raise KeyError("report")


@pytest.mark.parametrize(
    ("verify", "allowances", "fate"),
    [
        (verdict(False), (), Fate.KILLED),
        (verdict(False), (CLOCK,), Fate.KILLED),
        (verdict(True), (), Fate.SURVIVED),
        (verdict(True), (CLOCK,), Fate.ALLOWED),
        (verdict(True), (Allowance(CLOCK.mutants, "the clock's", ("at-the-counter",)),), Fate.SURVIVED),
        (raising, (CLOCK,), Fate.RAISED),
    ],
)
def test_fates(verify: Callable[[FinalState], Verdict], allowances: tuple[Allowance, ...], fate: Fate) -> None:
    assert judge(MUTANT, verify, allowances).fate is fate


def test_an_allowance_needs_a_reason() -> None:
    with pytest.raises(ValueError, match="reason: say why"):
        Allowance("*", " ")


def test_the_score_leaves_out_what_is_allowed_and_counts_what_raised_against() -> None:
    fates = [Fate.KILLED] * 6 + [Fate.SURVIVED, Fate.RAISED, Fate.ALLOWED]
    score = Score("lending-desk", [Judged("t", MUTANT.name, "", fate) for fate in fates])
    assert (score.score, len(score.survivors), Score("empty").score) == (0.75, 2, 0.0)
    assert unused((CLOCK, Allowance("file_added *", "scratch")), [score]) == [Allowance("file_added *", "scratch")]


def test_checks_are_counted_by_what_only_they_saw() -> None:
    failed = [("a",), ("a", "b"), ("a",)]
    score = Score("f", [Judged("t", "nudged own x.y", "", Fate.KILLED, failed=names) for names in failed])
    assert score.killed_by() == {"a": (3, 2), "b": (1, 0)}


def test_a_further_change_is_laid_over_those_that_were() -> None:
    def change(key: int, before: int | None, after: int | None) -> RowChange:
        return RowChange("t", (key,), *({"v": value} if value is not None else None for value in (before, after)))

    known = [change(1, None, 5), change(2, 3, 4), change(3, 7, None)]
    delta = [change(1, 5, None), change(2, 4, 3), change(3, None, 8), change(4, 1, 2)]
    assert patched(known, delta) == (change(3, 7, 8), change(4, 1, 2))


def test_the_log_is_mutated_where_it_says_what_was_done() -> None:
    acts = [event(0, "show", ()), event(1, "lend", ({"kind": "lent", "days": 3},)), event(2, "take", ({"kind": "returned"},))]
    made = list(log_mutants(FinalState(STATE.task, None, (), FileChanges({}), {}, tuple(acts), "message"), ["lend", "take"]))
    assert {mutant.name for mutant in made if mutant.name.startswith("effects_swapped")} == {"effects_swapped lend>take"}
    assert [one.tool for one in next(one for one in made if one.name == "effect_doubled lend").state.events] == [
        "show",
        "lend",
        "lend",
        "take",
    ]
    swapped = made[-1].state.events
    assert [(one.tool, one.index, one.at_ms) for one in swapped] == [("show", 0, 0), ("take", 1, 1), ("lend", 2, 2)]


def event(index: int, tool: str, effects: tuple[dict[str, str | int], ...]) -> CallEvent:
    return CallEvent(index, index, index, tool, {}, Status.OK, committed=True, fault=None, latency_ms=1, effects=effects)
