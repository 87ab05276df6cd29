"""What model routing is worth, exactly: the best plan by dynamic programming, and any policy's value by summing over what may happen."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from wardian.envs.worlds.routing.model import Move, Parameters, Seen

MODELS = (Move.CHEAP, Move.STRONG)
Chances: TypeAlias = Mapping[Move, float]
Policy: TypeAlias = Callable[[Seen], Chances]
"""Chance of each move after what was seen."""


@dataclass(frozen=True, slots=True)
class Best:
    """The best that can be done, by what the observation shows."""

    values: Mapping[Seen, Mapping[Move, float]]
    """Of each move in each state, if all later moves are the best ones."""

    def move(self, seen: Seen) -> Move:
        """The best one; at equal values the cheaper."""
        return max(self.values[seen], key=lambda move: (self.values[seen][move], -move))

    @property
    def value(self) -> float:
        """Of a query from its start."""
        return max(self.values[0, 0].values())


def states(p: Parameters) -> list[Seen]:
    """Everything that can be seen while moves are left, later ones first."""
    return [(cheap, used - cheap) for used in reversed(range(p.attempts)) for cheap in range(used + 1)]


def after(seen: Seen, move: Move) -> Seen:
    """What is seen when the answer of a model was rejected."""
    return (seen[0] + 1, seen[1]) if move is Move.CHEAP else (seen[0], seen[1] + 1)


def hard_chance(p: Parameters, seen: Seen) -> float:
    """Chance that the query is hard, after the rejections that were seen."""
    weights = [share * _rejected(p, seen, hard) for hard, share in ((False, 1 - p.hard_share), (True, p.hard_share))]
    return weights[1] / sum(weights) if sum(weights) else p.hard_share


def _rejected(p: Parameters, seen: Seen, hard: bool) -> float:
    chance = 1.0
    for move, count in zip(MODELS, seen, strict=True):
        chance *= (1 - p.success(move, hard)) ** count
    return chance


def best_by_observation(p: Parameters) -> Best:
    """Backwards over what the observation shows. What comes after the last attempt is worth nothing."""
    found: dict[Seen, dict[Move, float]] = {}
    for seen in states(p):
        hard = hard_chance(p, seen)
        values = {Move.ESCALATE: p.escalation}
        for move in MODELS:
            success = (1 - hard) * p.success(move, False) + hard * p.success(move, True)
            later = found.get(after(seen, move))
            values[move] = success * p.accepted - p.cost(move) + (1 - success) * (max(later.values()) if later else 0.0)
        found[seen] = values
    return Best(found)


def best_by_belief(p: Parameters, hard: float | None = None, left: int | None = None) -> float:
    """The same over the belief that the query is hard, carried forward by Bayes' rule; no plan, of any memory, is worth more."""
    belief = p.hard_share if hard is None else hard
    attempts = p.attempts if left is None else left
    if attempts == 0:
        return 0.0
    worths = [p.escalation]
    for move in MODELS:
        success = (1 - belief) * p.success(move, False) + belief * p.success(move, True)
        rejected = belief * (1 - p.success(move, True))
        later = best_by_belief(p, rejected / (1 - success), attempts - 1) if success < 1 else 0.0
        worths.append(success * p.accepted - p.cost(move) + (1 - success) * later)
    return max(worths)


def value_of(p: Parameters, policy: Policy) -> float:
    """What a policy is worth: for a query of either kind, summed over everything that may happen."""
    return sum(share * _value(p, policy, (0, 0), hard) for hard, share in ((False, 1 - p.hard_share), (True, p.hard_share)))


def _value(p: Parameters, policy: Policy, seen: Seen, hard: bool) -> float:
    if sum(seen) == p.attempts:
        return 0.0
    total = 0.0
    for move, chance in policy(seen).items():
        if move is Move.ESCALATE:
            total += chance * p.escalation
        elif chance:
            success = p.success(move, hard)
            total += chance * (success * p.accepted - p.cost(move) + (1 - success) * _value(p, policy, after(seen, move), hard))
    return total


def always(move: Move) -> Policy:
    """The policy that makes one move whatever it sees."""
    return lambda seen: {move: 1.0}


def at_random(seen: Seen) -> Chances:
    """Each move as likely as any other."""
    return dict.fromkeys(Move, 1 / len(Move))
