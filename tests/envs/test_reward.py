"""Components of reward."""

import math

import pytest

from wardian.envs.reward import RewardSpec
from wardian.envs.verifier import Check, Verdict

GOOD = Verdict((Check("a", True), Check("b", True)))
HALF = Verdict((Check("a", True), Check("b", False)))
DAMAGE = Verdict((Check("a", True), Check("b", False, hard=True)))


def test_success_partial_and_damage_are_worth_what_the_family_says() -> None:
    spec = RewardSpec(success=1.0, partial=0.5, hard_failure=-1.0)
    assert [spec.earned(verdict)["task"] for verdict in (GOOD, HALF, DAMAGE)] == [1.0, 0.25, -1.0]


def test_costs_are_charged_per_call() -> None:
    spec = RewardSpec(invalid_call=-0.1, step_cost=-0.01)
    assert spec.costs(turns=3, invalid_calls=2) == {"task": 0.0, "invalid_call": -0.2, "step_cost": -0.03}
    assert str(spec.costs(turns=0, invalid_calls=0)) == "{'task': 0.0, 'invalid_call': 0.0, 'step_cost': 0.0}", "no zero has a sign"


def test_own_components_come_by_the_name_of_their_check() -> None:
    assert RewardSpec(checks={"b": 0.25}).earned(GOOD) == {"task": 1.0, "b": 0.25}
    assert RewardSpec(checks={"b": 0.25}).earned(HALF) == {"task": 0.0, "b": 0.0}


def test_a_component_of_no_check_is_an_error() -> None:
    with pytest.raises(ValueError, match="the verdict has no c"):
        RewardSpec(checks={"c": 1.0}).earned(GOOD)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_reward_is_finite(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        RewardSpec(success=value)
    with pytest.raises(ValueError, match="finite"):
        RewardSpec(checks={"own": value})


def test_a_built_in_component_cannot_be_taken() -> None:
    with pytest.raises(ValueError, match="step_cost"):
        RewardSpec(checks={"step_cost": 1.0})
