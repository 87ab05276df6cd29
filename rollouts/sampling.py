"""Which tasks are drawn of a world's families: of one split, balanced or by a mixture, and in groups that play one task several times.

Whatever draws tasks for training draws them here, with the split `train`: a task of another split is never given.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from wardian.envs.definition import WorldDefinition
from wardian.envs.errors import TaskError
from wardian.envs.family import Family
from wardian.envs.splits import Split, split_named
from wardian.envs.task import Difficulty, TaskId
from wardian.rollouts.errors import UsageProblem
from wardian.sandbox.streams import stream

TASK_SEEDS = 1_000_000
PROBED = 200
"""Seeds that are looked at to see whether a family has tasks of a split at a difficulty."""
TRIES = 5_000
"""Seeds that are looked at for one task."""
ALL = "all"
"""In place of a split: whatever comes."""

Pair: TypeAlias = tuple[Family, Difficulty]


@dataclass(frozen=True, slots=True)
class Mixture:
    """How often each family is drawn, against the others. Families that it does not name are left out."""

    weights: Mapping[str, float]
    cap: float = 1.0
    """The largest share that one family may have; what it cuts goes to the others by their weights."""

    def __post_init__(self) -> None:
        if not self.weights or any(not math.isfinite(weight) or weight <= 0 for weight in self.weights.values()):
            raise UsageProblem(f"mix: every weight must be above 0, as in family=2,other=1; got {dict(self.weights)}")
        if not 0 < self.cap <= 1:
            raise UsageProblem(f"cap: a share above 0 and up to 1 is needed; got {self.cap}")
        if self.cap * len(self.weights) < 1 - 1e-9:
            raise UsageProblem(
                f"cap: {len(self.weights)} families of at most {self.cap} each make no whole; give at least {1 / len(self.weights):.3f}"
            )

    @classmethod
    def parse(cls, text: str, cap: float = 1.0) -> "Mixture":
        """Read `family=2,other=1`.

        Raises:
            UsageProblem: it is not of that form.
        """
        weights: dict[str, float] = {}
        for part in text.split(","):
            name, _, number = part.partition("=")
            try:
                weights[name.strip()] = float(number)
            except ValueError:
                raise UsageProblem(f"mix: {part!r} is not of the form family=weight") from None
        return cls(weights, cap)

    def shares(self) -> dict[str, float]:
        """The share of each family; together 1."""
        free, left, found = dict(self.weights), 1.0, dict[str, float]()
        while over := [name for name, weight in free.items() if left * weight / sum(free.values()) > self.cap + 1e-12]:
            for name in over:
                found[name] = self.cap
            left -= self.cap * len(over)
            free = {name: weight for name, weight in free.items() if name not in over}
        return found | {name: left * weight / sum(free.values()) for name, weight in free.items()}


@dataclass(frozen=True, slots=True)
class Group:
    """One task that is played several times, so that only what the policy did differs."""

    task_id: TaskId
    seed: int
    """Of the episodes' streams: the same events and faults for all."""
    policy_seeds: tuple[int, ...]
    """One for each episode."""


def split_asked(name: str) -> Split | None:
    """The split of that name; `None` for `all`.

    Raises:
        UsageProblem: there is none.
    """
    if name == ALL:
        return None
    try:
        return split_named(name)
    except TaskError as error:
        raise UsageProblem(f"{error}, and {ALL}") from error


def pairs_of(world: WorldDefinition, split: Split | None, family: str | None = None, difficulty: str | None = None) -> list[Pair]:
    """Families and difficulties that have tasks of `split`; `None` is any split.

    Raises:
        UsageProblem: there is no such family or difficulty, or nothing of that split.
    """
    families = world.families if family is None else (_family(world, family),)
    pairs = [(one, level) for level in _difficulties(difficulty) for one in families if level in one.difficulties]
    if not pairs:
        raise UsageProblem(f"difficulty: no task of {family or world.name} is {difficulty}; leave it out, or name another one")
    found = [pair for pair in pairs if split is None or any(pair[0].split_at(pair[1], seed) == split for seed in range(PROBED))]
    if not found:
        what = family or f"the world {world.name}"
        raise UsageProblem(
            f"split: {what} has no {f'{difficulty} ' if difficulty else ''}task of the split '{split}'; give another --split"
        )
    return found


def in_order(pairs: Sequence[Pair], mixture: Mixture | None = None) -> Iterator[Pair]:
    """The pairs without end: one after another, or families by the mixture, each going through its difficulties.

    Raises:
        UsageProblem: the mixture names a family that is not among the pairs.
    """
    if mixture is None:
        while True:
            yield from pairs
    levels = {name: [pair for pair in pairs if pair[0].name == name] for name in mixture.weights}
    if missing := [name for name, own in levels.items() if not own]:
        raise UsageProblem(f"mix: nothing to draw of {', '.join(missing)}; there are {', '.join(sorted({one.name for one, _ in pairs}))}")
    shares, taken = mixture.shares(), dict.fromkeys(mixture.weights, 0)
    for number in range(1, TASK_SEEDS * TRIES):
        # Whoever is furthest behind its share: so any stretch of the order has nearly the mixture.
        name = max(taken, key=lambda one: shares[one] * number - taken[one])
        yield levels[name][taken[name] % len(levels[name])]
        taken[name] += 1


def fresh(pair: Pair, seed: int, split: Split | None, used: set[TaskId]) -> TaskId:
    """A task of `split` that is not in `used` yet, from `seed` upwards; it is put there.

    Raises:
        UsageProblem: none was found.
    """
    family, level = pair
    for number in range(seed, seed + TRIES):
        found = TaskId(family.name, level, number)
        if found not in used and (split is None or family.split_at(level, number) == split):
            used.add(found)
            return found
    raise UsageProblem(f"split: found no further {level.value} task of {family.name} of the split '{split}'; play fewer episodes")


def groups_of(
    world: WorldDefinition,
    *,
    seed: int,
    size: int,
    split: Split | None = Split.TRAIN,
    family: str | None = None,
    difficulty: str | None = None,
    mixture: Mixture | None = None,
) -> Iterator[Group]:
    """Groups without end, each of another task. A longer draw begins like a shorter one.

    Raises:
        UsageProblem: there is no such family or difficulty, or nothing of that split.
    """
    used: set[TaskId] = set()
    for number, pair in enumerate(in_order(pairs_of(world, split, family, difficulty), mixture)):
        rng = stream(seed, f"episode/{number}")
        task_id = fresh(pair, rng.randrange(TASK_SEEDS), split, used)
        episode_seed = rng.getrandbits(32)
        yield Group(task_id, episode_seed, tuple(rng.getrandbits(32) for _ in range(size)))


def training_batches(
    world: WorldDefinition, *, seed: int, groups: int, size: int, mixture: Mixture | None = None
) -> Iterator[tuple[Group, ...]]:
    """Batches without end for methods that compare episodes of one task: `groups` tasks, each `size` times.

    Each batch has nearly the mixture of families, or all families and difficulties in turn. Only of the split `train`.
    """
    drawn = groups_of(world, seed=seed, size=size, mixture=mixture)
    while True:
        yield tuple(next(drawn) for _ in range(groups))


def _family(world: WorldDefinition, name: str) -> Family:
    try:
        return world.family(name)
    except TaskError as error:
        raise UsageProblem(str(error)) from error


def _difficulties(difficulty: str | None) -> list[Difficulty]:
    known = list(Difficulty)
    if difficulty is None:
        return known
    if difficulty not in [one.value for one in known]:
        raise UsageProblem(f"difficulty: no {difficulty!r}; there are {', '.join(one.value for one in known)}")
    return [Difficulty(difficulty)]
