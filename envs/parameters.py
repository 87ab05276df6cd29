"""What a family varies from task to task, as data: one table from which tasks are drawn and pages are written.

A parameter has a range for each difficulty. The drawn values stand in `Task.parameters` under the same names. Constraints say what two
parameters have to do with each other; a draw keeps them. How hard values are is a function of them: see `difficulty_of`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from wardian.envs.task import Difficulty
from wardian.tools.contract import Json


@dataclass(frozen=True, slots=True)
class Between:
    """Whole numbers from `low` to `high`, both included, each as likely."""

    low: int
    high: int

    def draw(self, rng: Random) -> Json:
        """One of them."""
        return rng.randint(self.low, self.high)

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high

    def as_json(self) -> Json:
        """For programs."""
        return {"from": self.low, "to": self.high}

    def __str__(self) -> str:
        return f"{self.low} to {self.high}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """Values to choose from; one that stands twice is twice as likely."""

    values: tuple[Json, ...]

    def draw(self, rng: Random) -> Json:
        """One of them."""
        return rng.choice(self.values)

    def __contains__(self, value: object) -> bool:
        return any(type(value) is type(one) and value == one for one in self.values)

    def as_json(self) -> Json:
        """For programs: each value once, with its share of the draws."""
        different = [value for at, value in enumerate(self.values) if value not in self.values[:at]]
        return {"one_of": [{"value": value, "share": round(self.values.count(value) / len(self.values), 4)} for value in different]}

    def __str__(self) -> str:
        different = list(dict.fromkeys(self.values))
        counts = [self.values.count(one) for one in different]
        if len(set(counts)) == 1:
            return ", ".join(_text(one) for one in different)
        shares = [count * 100 / len(self.values) for count in counts]
        return ", ".join(f"{_text(one)} {share:.0f} %" for one, share in zip(different, shares, strict=True))


Range: TypeAlias = Between | OneOf
Where: TypeAlias = Mapping[str, Range]
"""Part of a family's space: the values of these parameters are in these ranges. Empty is the whole of it."""


def holds(where: Where, values: Mapping[str, Json]) -> bool:
    """Whether values are in that part of the space."""
    return all(values.get(name) in inside for name, inside in where.items())


def where_text(where: Where) -> str:
    """A part of a space in words."""
    return " and ".join(f"{name} is {inside}" for name, inside in where.items()) or "everything else"


def where_json(where: Where) -> Json:
    """A part of a space for programs."""
    return {name: inside.as_json() for name, inside in where.items()}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One line of a family's table."""

    name: str
    meaning: str
    easy: Range
    medium: Range
    hard: Range

    def at(self, difficulty: Difficulty) -> Range:
        """What it is drawn from."""
        return {Difficulty.EASY: self.easy, Difficulty.MEDIUM: self.medium, Difficulty.HARD: self.hard}[difficulty]


@dataclass(frozen=True, slots=True)
class Constraint:
    """Where `when` holds, `parameter` is within `within`."""

    parameter: str
    within: Range
    when: Where
    why: str

    def kept(self, values: Mapping[str, Json]) -> bool:
        """Whether values keep it."""
        return not holds(self.when, values) or values.get(self.parameter) in self.within


def always(value: Json) -> OneOf:
    """The range of one value."""
    return OneOf((value,))


def everywhere(name: str, meaning: str, values: Range) -> Parameter:
    """A parameter of the same range at each difficulty."""
    return Parameter(name, meaning, values, values, values)


def draw(parameters: Iterable[Parameter], difficulty: Difficulty, rng: Random, constraints: Iterable[Constraint] = ()) -> dict[str, Json]:
    """A value for each parameter, in the order of the table, which is part of a task's identity.

    A value that breaks a constraint is drawn again from what the constraint allows, after all others; constraints are gone through once,
    in their order.
    """
    drawn = {one.name: one.at(difficulty).draw(rng) for one in parameters}
    for constraint in constraints:
        if not constraint.kept(drawn):
            drawn[constraint.parameter] = constraint.within.draw(rng)
    return drawn


def difficulty_of(parameters: Sequence[Parameter], values: Mapping[str, Json]) -> Difficulty | None:
    """How hard values are: the easiest difficulty whose ranges hold them all; `None` where none does."""
    return next((level for level in Difficulty if all(values.get(one.name) in one.at(level) for one in parameters)), None)


def describe(parameters: Sequence[Parameter]) -> str:
    """The table as Markdown."""
    lines = ["| parameter | meaning | easy | medium | hard |", "| --- | --- | --- | --- | --- |"]
    lines += [f"| `{one.name}` | {one.meaning} | {one.easy} | {one.medium} | {one.hard} |" for one in parameters]
    return "\n".join(lines)


def _text(value: Json) -> str:
    if value is None:
        return "none"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
