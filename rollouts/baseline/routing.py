"""The baselines of model routing: fixed and learned policies, valued exactly, against the exact optimum; and a sweep of one cost."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wardian.envs.worlds.routing.exact import Best, always, at_random, best_by_belief, best_by_observation, value_of
from wardian.envs.worlds.routing.model import Move, Parameters, Seen
from wardian.rollouts.baseline.tabular import Learning, Table, learn, policy_of, rows
from wardian.tools.contract import Json

AFTER_CHEAP: Seen = (1, 0)
"""The state in which the sweep asks what is best."""
COSTS = tuple(number / 100 for number in range(2, 11))
"""Of the cheap model: 0.02 to 0.10."""
CLOSE = 0.005
"""How far from the optimum a learned policy may be."""
BISECTIONS = 60


@dataclass(frozen=True, slots=True)
class Learned:
    seed: int
    table: Table
    value: float
    """Of the learned policy, exactly."""


@dataclass(frozen=True, slots=True)
class At:
    """One cost of the cheap model."""

    cost: float
    cheap: float
    """What the cheap model is worth after one cheap rejection, if all later moves are the best ones."""
    strong: float
    learned: tuple[Move, ...]
    """What each seed learned to do there."""


@dataclass(frozen=True, slots=True)
class Baselines:
    parameters: Parameters
    fixed: dict[str, float]
    """Value by name of the policy."""
    best: Best
    by_belief: float
    learned: tuple[Learned, ...]
    sweep: tuple[At, ...]
    flips_at: float | None
    """Cost of the cheap model at which the strong one becomes the better choice after a cheap rejection; `None`: not within the sweep."""

    @property
    def close(self) -> int:
        """Learned policies that are as good as the optimum, within `CLOSE`."""
        return sum(abs(self.best.value - one.value) <= CLOSE for one in self.learned)

    def as_json(self) -> dict[str, Json]:
        """All figures."""
        return {
            "optimum": {"by_belief": self.by_belief, "by_observation": self.best.value},
            "fixed": self.fixed,
            "learned": [{"seed": one.seed, "value": one.value, "gap": self.best.value - one.value} for one in self.learned],
            "close": self.close,
            "table": [
                {
                    "rejected": {"cheap": seen[0], "strong": seen[1]},
                    "learned": {move.name.lower(): value for move, value in values.items()},
                    "exact": {move.name.lower(): value for move, value in self.best.values[seen].items()},
                    "visits": {move.name.lower(): count for move, count in zip(Move, visits, strict=True)},
                }
                for seen, values, visits in rows(self.parameters, self.learned[0].table)
            ],
            "sweep": [
                {"cost": at.cost, "cheap": at.cheap, "strong": at.strong, "learned": [move.name.lower() for move in at.learned]}
                for at in self.sweep
            ],
            "flips_at": self.flips_at,
        }


def baselines(parameters: Parameters, seeds: Sequence[int], learning: Learning, sweep_seeds: int = 3) -> Baselines:
    """Value all of them. Each cost of the sweep is learned with the first `sweep_seeds` of `seeds`.

    Raises:
        ValueError: there is no seed.
    """
    if not seeds:
        raise ValueError("seeds: at least one is needed")
    fixed = {"random": at_random, "always cheap": always(Move.CHEAP), "always strong": always(Move.STRONG)}
    tables = [(seed, learn(parameters, seed, learning)) for seed in seeds]
    return Baselines(
        parameters=parameters,
        fixed={name: value_of(parameters, policy) for name, policy in fixed.items()},
        best=best_by_observation(parameters),
        by_belief=best_by_belief(parameters),
        learned=tuple(Learned(seed, table, value_of(parameters, policy_of(table))) for seed, table in tables),
        sweep=tuple(_at(replace(parameters, cheap_cost=cost), seeds[:sweep_seeds], learning) for cost in COSTS),
        flips_at=flips_at(parameters),
    )


def _at(parameters: Parameters, seeds: Sequence[int], learning: Learning) -> At:
    values = best_by_observation(parameters).values[AFTER_CHEAP]
    moves = tuple(learn(parameters, seed, learning).move(AFTER_CHEAP) for seed in seeds)
    return At(parameters.cheap_cost, values[Move.CHEAP], values[Move.STRONG], moves)


def flips_at(parameters: Parameters) -> float | None:
    """Where the two models are worth the same after a cheap rejection, by bisection."""
    low, high = COSTS[0], COSTS[-1]
    if _lead(parameters, low) <= 0 or _lead(parameters, high) >= 0:
        return None
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if _lead(parameters, middle) > 0 else (low, middle)
    return low


def _lead(parameters: Parameters, cost: float) -> float:
    """By how much the cheap model is worth more there."""
    values = best_by_observation(replace(parameters, cheap_cost=cost)).values[AFTER_CHEAP]
    return values[Move.CHEAP] - values[Move.STRONG]
