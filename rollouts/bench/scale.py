"""How much is measured: everything in two to four minutes, or a little of each in some seconds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    rounds: int
    """Each round takes some of every measurement, so that noise of the machine meets all alike."""
    cells: tuple[int, ...] = (1, 4, 16)
    resets: int = 8
    """Of each kind of episode, per round."""
    batches: int = 2
    """Batches of resets at once, per round and number of cells."""
    containers: int = 3
    commands: int = 12
    """Per round, and per cell where cells work at once."""
    engine_execs: int = 4
    calls: int = 15
    """Of each tool, per round."""
    growth: int = 3
    """Resets per size, and round or pass."""
    passes: int = 4
    """Over the numbers of standing cells; each starts them anew."""
    world_mb: tuple[float, ...] = (0.2, 2.0, 20.0)
    files: tuple[int, ...] = (0, 100, 10_000)
    episodes: int = 400
    """One after another on one cell, the last ones included."""
    edge: int = 50
    """So many last ones are compared with as many first ones on a new cell."""


FULL = Scale(rounds=12)
QUICK = Scale(
    rounds=1, cells=(1, 2), resets=4, batches=1, containers=1, commands=4, engine_execs=2, calls=4, growth=2, passes=1,
    world_mb=(0.2, 2.0), files=(0, 100), episodes=12, edge=4,
)  # fmt: skip
