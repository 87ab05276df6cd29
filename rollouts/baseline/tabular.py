"""Tabular Q-learning (Watkins, 1989) on model routing: action values by what the observation shows, from sampled queries alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from wardian.envs.worlds.routing.exact import Policy, states
from wardian.envs.worlds.routing.model import Move, Moved, Parameters, Query, Seen
from wardian.sandbox.streams import stream


@dataclass(frozen=True, slots=True)
class Learning:
    """How long, and how."""

    episodes: int = 40_000
    explore: float = 0.3
    """Chance of a move at random."""
    decay: float = 0.85
    """The step size of the n-th visit is n to the power of minus this. From above 0.5 to 1 it satisfies Robbins and Monro."""

    def __post_init__(self) -> None:
        if self.episodes < 1:
            raise ValueError(f"episodes: at least 1, got {self.episodes}")
        if not 0 < self.explore <= 1:
            raise ValueError(f"explore: above 0 and at most 1, got {self.explore}")
        if not 0.5 < self.decay <= 1:
            raise ValueError(f"decay: above 0.5 and at most 1, got {self.decay}")


@dataclass(slots=True)
class Table:
    """Action values. States without moves left have a row too, which stays zero: no move is ever made from them."""

    values: dict[Seen, list[float]] = field(default_factory=dict)
    visits: dict[Seen, list[int]] = field(default_factory=dict)

    def row(self, seen: Seen) -> list[float]:
        """The values of all moves in one state."""
        return self.values.setdefault(seen, [0.0] * len(Move))

    def move(self, seen: Seen) -> Move:
        """The best one; at equal values the cheaper."""
        row = self.row(seen)
        return Move(row.index(max(row)))

    def update(self, seen: Seen, move: Move, moved: Moved, following: Seen, decay: float) -> None:
        """Learn from one move. A truncated episode was cut off and goes on in value; a terminated one has none left."""
        later = 0.0 if moved.terminated else max(self.row(following))
        visits = self.visits.setdefault(seen, [0] * len(Move))
        visits[move] += 1
        row = self.row(seen)
        row[move] += visits[move] ** -decay * (moved.reward + later - row[move])


def learn(parameters: Parameters, seed: int, learning: Learning = Learning()) -> Table:
    """Play queries and learn from each move. Equal arguments give equal tables."""
    rng = Random(stream(seed, "baseline/q-learning").getrandbits(64))
    table = Table()
    for _ in range(learning.episodes):
        query = Query(parameters, rng.random)
        moved = Moved(0.0)
        while not (moved.terminated or moved.truncated):
            seen = query.seen
            move = Move(rng.randrange(len(Move))) if rng.random() < learning.explore else table.move(seen)
            moved = query.move(move)
            table.update(seen, move, moved, query.seen, learning.decay)
    return table


def policy_of(table: Table) -> Policy:
    """What was learned, as a policy that explores no more."""
    return lambda seen: {table.move(seen): 1.0}


def rows(parameters: Parameters, table: Table) -> list[tuple[Seen, Mapping[Move, float], list[int]]]:
    """The table by state, earlier ones first: values and visits."""
    found = sorted(states(parameters), key=lambda seen: (sum(seen), -seen[0]))
    return [(seen, dict(zip(Move, table.row(seen), strict=True)), table.visits.get(seen, [0] * len(Move))) for seen in found]
