"""Reward is named components, computed from a verdict and from costs, each logged.

A verifier knows nothing of it: what a verdict is worth is the family's `RewardSpec`, which is data, so that two runs with
different rewards can be compared on equal verdicts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from wardian.envs.verifier import Verdict

COMPONENTS = ("task", "invalid_call", "step_cost")
"""Present in every step of every family; a family's own components come beside them."""


@dataclass(frozen=True, slots=True)
class RewardSpec:
    success: float = 1.0
    """`task` when every check passed."""
    partial: float = 0.0
    """`task` otherwise: this times the share of checks that passed."""
    hard_failure: float = 0.0
    """`task` when a hard check failed, whatever else passed."""
    invalid_call: float = -0.05
    """For each malformed or invalid call, under the policy `penalise` only."""
    step_cost: float = 0.0
    """For each call or message."""
    checks: Mapping[str, float] = field(default_factory=dict)
    """The family's own components: name of a check, and what it gives when it passed."""
    effects: Mapping[str, float] = field(default_factory=dict)
    """And: kind of an effect in the event log, and what each such effect gives in the step that it happens in."""

    def __post_init__(self) -> None:
        own = ("checks", "effects")
        numbers = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in own} | dict(self.checks) | dict(self.effects)
        for name, value in numbers.items():
            if not math.isfinite(value):
                raise ValueError(f"{name}: a reward must be a finite number, got {value}")
        for field_name, names in (("checks", set(self.checks)), ("effects", set(self.effects))):
            for name in sorted(names & set(COMPONENTS)):
                raise ValueError(f"{field_name}: {name!r} is the name of a built-in component; rename it")
        for name in sorted(set(self.checks) & set(self.effects)):
            raise ValueError(f"effects: {name!r} is the name of a check too; rename one of them")

    def costs(self, turns: int, invalid_calls: int, effects: Sequence[str] = ()) -> dict[str, float]:
        """Components of one step: `turns` calls or messages, of which `invalid_calls` are charged as invalid, and kinds of `effects`."""
        own = {kind: value * count if (count := effects.count(kind)) else 0.0 for kind, value in self.effects.items()}
        # A rate below zero times none is -0.0; adding 0.0 takes the sign.
        return {"task": 0.0, "invalid_call": self.invalid_call * invalid_calls + 0.0, "step_cost": self.step_cost * turns + 0.0, **own}

    def earned(self, verdict: Verdict) -> dict[str, float]:
        """Components of the end of an episode: `task`, and the family's own.

        Raises:
            ValueError: a component names a check that the verdict does not have.
        """
        passed = {check.name: check.passed for check in verdict.checks}
        missing = sorted(set(self.checks) - set(passed))
        if missing:
            raise ValueError(f"checks: the verdict has no {', '.join(missing)}; it has {', '.join(passed)}")
        own = {name: value if passed[name] else 0.0 for name, value in self.checks.items()}
        return {"task": self._task(verdict), **own}

    def _task(self, verdict: Verdict) -> float:
        if verdict.hard_failure:
            return self.hard_failure
        if verdict.succeeded:
            return self.success
        return self.partial * verdict.share
