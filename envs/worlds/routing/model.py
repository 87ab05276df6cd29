"""The decision behind the world: its numbers, and one query that is worked on. Tools, Gymnasium environment and baselines stand on it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias


class Move(IntEnum):
    CHEAP = 0
    STRONG = 1
    ESCALATE = 2


Seen: TypeAlias = tuple[int, int]
"""What an observation shows: rejected answers of the cheap and of the strong model. Their order tells nothing more."""


@dataclass(frozen=True, slots=True)
class Parameters:
    cheap_cost: float = 0.02
    strong_cost: float = 0.20
    cheap_success: float = 0.55
    """Chance that an answer to a query that is not hard is accepted."""
    strong_success: float = 0.90
    hard_factor: float = 0.5
    """What those chances are multiplied by when the query is hard."""
    hard_share: float = 0.4
    """Share of hard queries."""
    attempts: int = 3
    accepted: float = 1.0
    """Reward for an accepted answer, beside the cost of its call."""
    escalation: float = -0.5

    def __post_init__(self) -> None:
        for name in ("cheap_success", "strong_success", "hard_factor", "hard_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: a share from 0 to 1, got {getattr(self, name)}")
        if self.attempts < 1:
            raise ValueError(f"attempts: at least 1, got {self.attempts}")

    def cost(self, move: Move) -> float:
        """Of one call of a model."""
        return self.cheap_cost if move is Move.CHEAP else self.strong_cost

    def success(self, move: Move, hard: bool) -> float:
        """Chance that a model's answer is accepted."""
        chance = self.cheap_success if move is Move.CHEAP else self.strong_success
        return chance * self.hard_factor if hard else chance


@dataclass(frozen=True, slots=True)
class Moved:
    """What one move gave."""

    reward: float
    accepted: bool = False
    terminated: bool = False
    truncated: bool = False


@dataclass(slots=True)
class Query:
    """One query. `draw` gives numbers from 0 to below 1, uniformly; the first one decides whether the query is hard."""

    parameters: Parameters
    draw: Callable[[], float]
    seen: Seen = (0, 0)
    _hard: bool = field(init=False)

    def __post_init__(self) -> None:
        self._hard = self.draw() < self.parameters.hard_share

    def move(self, move: Move) -> Moved:
        """Call a model, or hand the query over. The cost of a call is charged at the call."""
        p = self.parameters
        if move is Move.ESCALATE:
            return Moved(p.escalation, terminated=True)
        if self.draw() < p.success(move, self._hard):
            return Moved(p.accepted - p.cost(move), accepted=True, terminated=True)
        cheap, strong = self.seen
        self.seen = (cheap + 1, strong) if move is Move.CHEAP else (cheap, strong + 1)
        return Moved(-p.cost(move), truncated=sum(self.seen) == p.attempts)
