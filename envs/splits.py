"""What is learned from and what is only measured on: splits of a family's space into whole regions and whole scenario types.

The split of a task follows from its parameters alone: the strictest that its family, a region that holds it, or its scenario type says.
`train` may be learned from. `eval` is for choosing between checkpoints. `heldout` is for the last word, and nothing else.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from wardian.envs.errors import HeldOut, TaskError
from wardian.envs.parameters import Where, holds
from wardian.tools.contract import Json


class Split(StrEnum):
    """Least strict first."""

    TRAIN = "train"
    EVAL = "eval"
    HELDOUT = "heldout"


@dataclass(frozen=True, slots=True)
class Region:
    """A named part of a family's space, which is of one split as a whole."""

    name: str
    meaning: str
    where: Where
    split: Split = Split.TRAIN


REST = "rest"
"""The region of what no named one holds; it is for training."""


@dataclass(frozen=True, slots=True)
class Scenarios:
    """Scenario types: the values of one parameter. Those that are named here are not for training."""

    parameter: str
    eval: tuple[str, ...] = ()
    heldout: tuple[str, ...] = ()

    def split_of(self, scenario: Json) -> Split:
        """The split of a scenario type."""
        if scenario in self.heldout:
            return Split.HELDOUT
        return Split.EVAL if scenario in self.eval else Split.TRAIN


def strictest(splits: Iterable[Split]) -> Split:
    """The one that allows least; `train` of none."""
    order = list(Split)
    return max(splits, key=order.index, default=Split.TRAIN)


def region_of(regions: Sequence[Region], values: Mapping[str, Json]) -> str:
    """The first region that holds values."""
    return next((region.name for region in regions if holds(region.where, values)), REST)


def split_in(regions: Sequence[Region], scenarios: Scenarios | None, values: Mapping[str, Json]) -> Split:
    """The strictest split of all regions that hold values, and of their scenario type."""
    found = [region.split for region in regions if holds(region.where, values)]
    if scenarios is not None:
        found.append(scenarios.split_of(values.get(scenarios.parameter)))
    return strictest(found)


def split_named(name: str) -> Split:
    """The split of that name.

    Raises:
        TaskError: there is none.
    """
    if name not in list(Split):
        raise TaskError(f"split: no {name!r}; there are {', '.join(Split)}")
    return Split(name)


def must_be(wanted: str | None, task_id: object, split: str) -> None:
    """Refuse a task of another split than `wanted`; `None` takes any.

    Raises:
        HeldOut: it is of another split.
    """
    if wanted is not None and split != wanted:
        raise HeldOut(f"{task_id}: its task is of the split '{split}', and only '{wanted}' may be played here")
