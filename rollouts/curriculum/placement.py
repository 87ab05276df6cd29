"""How often each arm is drawn. An arm is a family at a difficulty; pure functions of what is known of the arms.

Shares follow the signal that an arm's groups are likely to carry, among the arms whose success is inside the band. A part goes to all arms
alike, and each family has a floor. Which arm comes next is then no matter of chance: each draw pays every arm its share, and the arm with
most credit is drawn and pays 1. So any stretch of draws has nearly the shares, and no arm waits without end.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from wardian.rollouts.errors import UsageProblem

Arm: TypeAlias = tuple[str, str]
"""Family and difficulty."""
PRIOR = 2.0
"""Outcomes, half of them successes, that count beside those of an arm; and groups that count beside its groups."""


@dataclass(frozen=True, slots=True)
class Placement:
    """What a curriculum aims at."""

    low: float = 0.15
    high: float = 0.85
    """The band that success is kept in."""
    explore: float = 0.1
    """Share of draws that goes to all arms alike."""
    floor: float = 0.05
    """The least share of a family."""
    half_life: float = 4.0
    """After so many groups of an arm an older group counts half: the policy moves."""

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high <= 1:
            raise UsageProblem(f"band: needs 0 <= low < high <= 1; got {self.low} and {self.high}")
        if not 0 < self.explore <= 1:
            raise UsageProblem(f"explore: a share above 0 and up to 1, or an arm could wait without end; got {self.explore}")
        if not 0 <= self.floor < 1:
            raise UsageProblem(f"floor: a share from 0 to below 1; got {self.floor}")
        if not (math.isfinite(self.half_life) and self.half_life > 0):
            raise UsageProblem(f"half_life: a number of groups above 0; got {self.half_life}")

    def check_floor(self, families: int) -> None:
        """Refuse a floor that so many families cannot have.

        Raises:
            UsageProblem: together they would need more than what is not explored.
        """
        if self.floor * families > 1 - self.explore + 1e-9:
            raise UsageProblem(
                f"floor: {families} families of at least {self.floor} each leave nothing; give at most {(1 - self.explore) / families:.3f}"
            )

    @property
    def decay(self) -> float:
        """What a group still counts after the next one of its arm."""
        return float(0.5 ** (1 / self.half_life))


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of an arm lately; each number fades with every further group."""

    succeeded: float = 0.0
    judged: float = 0.0
    mixed: float = 0.0
    """Groups in which some succeeded and some did not."""
    groups: float = 0.0
    """Groups with at least two judged episodes."""

    @property
    def rate(self) -> float:
        """Success to be expected; 0.5 of an arm that nothing is known of."""
        return (self.succeeded + PRIOR / 2) / (self.judged + PRIOR)

    def signal(self, size: int) -> float:
        """The chance that a group of `size` is mixed: from its rate at first, and from its groups as they come."""
        return (self.mixed + PRIOR * mixed_chance(self.rate, size)) / (self.groups + PRIOR)

    def fed(self, judged: int, succeeded: int, decay: float) -> "Seen":
        """With one more group."""
        many = judged > 1
        return Seen(
            self.succeeded * decay + succeeded,
            self.judged * decay + judged,
            self.mixed * decay + (0 < succeeded < judged) if many else self.mixed,
            self.groups * decay + 1 if many else self.groups,
        )


def mixed_chance(rate: float, size: int) -> float:
    """How often `size` episodes of a task of that success are neither all solved nor all failed; of one episode: how open it is."""
    return 1 - rate**size - (1 - rate) ** size if size > 1 else 4 * rate * (1 - rate)


def shares(seen: Mapping[Arm, Seen], placement: Placement, size: int) -> dict[Arm, float]:
    """The share of each arm; together 1."""
    wanted = _wanted(seen, placement, size)
    whole = sum(wanted.values())
    even = placement.explore / len(seen)
    found = {arm: even + (1 - placement.explore) * weight / whole for arm, weight in wanted.items()}
    return _with_floor(found, placement.floor)


def _wanted(seen: Mapping[Arm, Seen], placement: Placement, size: int) -> dict[Arm, float]:
    """Signal inside the band; where no arm is inside, the nearer ones."""
    inside = {arm: one.signal(size) for arm, one in seen.items() if placement.low <= one.rate <= placement.high}
    if any(inside.values()):
        return {arm: inside.get(arm, 0.0) for arm in seen}
    away = {arm: max(placement.low - one.rate, one.rate - placement.high, 0.0) for arm, one in seen.items()}
    return {arm: 1 / (0.01 + distance) for arm, distance in away.items()}


def _with_floor(found: Mapping[Arm, float], floor: float) -> dict[Arm, float]:
    """Raise families below the floor, at the cost of those above it."""
    families = _by_family(found)
    raised = {name for name, share in families.items() if share < floor}
    while True:
        rest = sum(share for name, share in families.items() if name not in raised)
        scale = (1 - floor * len(raised)) / rest if rest else 1.0
        below = {name for name, share in families.items() if name not in raised and share * scale < floor - 1e-12}
        if not below:
            break
        raised |= below
    factor = {name: floor / share if name in raised else scale for name, share in families.items()}
    return {arm: share * factor[arm[0]] for arm, share in found.items()}


def _by_family(found: Mapping[Arm, float]) -> dict[str, float]:
    families: dict[str, float] = {}
    for (family, _), share in found.items():
        families[family] = families.get(family, 0.0) + share
    return families


def pay(credit: Mapping[Arm, float], shares_: Mapping[Arm, float], order: Sequence[Arm]) -> tuple[Arm, dict[Arm, float]]:
    """The next arm, and the credit after it. Of equals the first in `order`."""
    paid = {arm: credit.get(arm, 0.0) + shares_[arm] for arm in order}
    chosen = max(order, key=lambda arm: round(paid[arm], 9))
    return chosen, {**paid, chosen: paid[chosen] - 1}
