"""What scripted policies of a family are expected to come to, where the usual does not hold."""

from dataclasses import dataclass, fields
from typing import TypeAlias

Shares: TypeAlias = tuple[float, float]
"""Lowest and highest share of solved episodes."""


@dataclass(frozen=True, slots=True)
class Expected:
    """By default the reference solves every task, carelessness at most half of them, and idleness hardly any."""

    expert: Shares = (1.0, 1.0)
    careless: Shares = (0.0, 0.5)
    idle: Shares = (0.0, 0.05)
    reason: str = ""
    """Why something else is expected, such as chance that no policy can beat."""

    def __post_init__(self) -> None:
        for one in fields(self):
            shares = getattr(self, one.name)
            if one.name != "reason" and not 0 <= shares[0] <= shares[1] <= 1:
                raise ValueError(f"{one.name}: two shares from 0 to 1, the lower one first; got {shares}")
            if one.name != "reason" and shares != one.default and not self.reason.strip():
                raise ValueError(f"reason: say why {one.name} is expected to solve {shares} of the tasks")
