"""Policies of graded skill play groups that a curriculum draws, and groups drawn evenly, so that both can be compared.

Only the play is simulated: the tasks are those of a real world, and the curriculum is the one that runs use, with its database. A task is
solved with the chance `logistic(skill - hardness)`. Hardness is that of the family, of the difficulty, and of the task itself.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from wardian.envs.definition import WorldDefinition
from wardian.envs.task import Difficulty, TaskId
from wardian.rollouts.curriculum.curriculum import Curriculum, Outcome, open_curriculum
from wardian.rollouts.curriculum.settings import CurriculumSettings
from wardian.rollouts.sampling import groups_of
from wardian.sandbox.streams import stream

Skill: TypeAlias = Callable[[float], float]
"""By the share of the run that is over."""
LEVELS = {Difficulty.EASY: -2.0, Difficulty.MEDIUM: 0.0, Difficulty.HARD: 2.0}
FAMILIES = 1.5
"""The hardness of families lies within so much of 0, in equal steps."""
TASKS = 0.7
"""Standard deviation of the hardness of one task within its arm."""


@dataclass(frozen=True, slots=True)
class Played:
    """One run of groups."""

    mixed: tuple[bool, ...]
    """Of each group: some episodes were solved and some were not."""
    success: tuple[float, ...]
    """Of each group."""

    @property
    def signal(self) -> float:
        """Share of the groups that are mixed."""
        return sum(self.mixed) / len(self.mixed)


@dataclass(frozen=True, slots=True)
class Simulation:
    world: WorldDefinition
    asked_for: str
    """As the world was loaded."""
    groups: int = 300
    settings: CurriculumSettings = field(default_factory=CurriculumSettings)

    def steered(self, skill: Skill, seed: int, file: Path) -> Played:
        """Groups that a new curriculum in `file` draws, told after each how it went."""
        curriculum = open_curriculum(file, self.world, self.asked_for, self.settings)
        return self._play(self._drawn(curriculum), skill, seed, curriculum)

    def even(self, skill: Skill, seed: int) -> Played:
        """The same number of groups as runs draw them without a curriculum: from each family and difficulty in turn."""
        drawn = islice(groups_of(self.world, seed=seed, size=self.settings.group), self.groups)
        return self._play(((0, group.task_id) for group in drawn), skill, seed, None)

    def _drawn(self, curriculum: Curriculum) -> Iterator[tuple[int, TaskId]]:
        for _ in range(self.groups):
            draw = curriculum.draw()
            yield draw.number, draw.task_id

    def _play(self, drawn: Iterator[tuple[int, TaskId]], skill: Skill, seed: int, told: Curriculum | None) -> Played:
        mixed, success, size = [], [], self.settings.group
        for number, (group, task_id) in enumerate(drawn):
            chance = self.chance(task_id, skill(number / self.groups), seed)
            rng = stream(seed, f"play/{number}")
            solved = [rng.random() < chance for _ in range(size)]
            if told is not None:
                told.record(Outcome(group, f"{number}-{member}", one, float(one)) for member, one in enumerate(solved))
            mixed.append(0 < sum(solved) < size)
            success.append(sum(solved) / size)
        return Played(tuple(mixed), tuple(success))

    def chance(self, task_id: TaskId, skill: float, seed: int) -> float:
        """How likely a policy of that skill solves a task."""
        return 1 / (1 + math.exp(self._hardness(task_id, seed) - skill))

    def _hardness(self, task_id: TaskId, seed: int) -> float:
        names = sorted(family.name for family in self.world.families)
        place = names.index(task_id.family) / max(1, len(names) - 1)
        own = stream(seed, f"hardness/{task_id}").gauss(0, TASKS)
        return LEVELS[task_id.difficulty] + FAMILIES * (2 * place - 1) + own


def constant(level: float) -> Skill:
    """A policy that does not learn."""
    return lambda done: level


def rising(low: float, high: float) -> Skill:
    """A policy that learns evenly from `low` to `high`."""
    return lambda done: low + (high - low) * done


def mean(values: Sequence[float]) -> float:
    """Of at least one."""
    return sum(values) / len(values)
