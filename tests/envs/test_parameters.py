"""A family's table: what is drawn is in range, and a page can be written from it."""

import pytest

from wardian.envs.parameters import Between, OneOf, Parameter, Range, always, describe, draw, everywhere
from wardian.envs.task import Difficulty
from wardian.sandbox.streams import stream

TABLE = (Parameter("decoys", "Others", always(0), Between(1, 2), Between(2, 4)), everywhere("kind", "What", OneOf(("a", "b", "b"))))


@pytest.mark.parametrize("difficulty", Difficulty)
def test_a_draw_is_within_its_range_and_equal_twice(difficulty: Difficulty) -> None:
    drawn = [draw(TABLE, difficulty, stream(seed, "x")) for seed in range(50)]
    assert drawn == [draw(TABLE, difficulty, stream(seed, "x")) for seed in range(50)]
    assert all(values[one.name] in one.at(difficulty) for values in drawn for one in TABLE)
    assert {values["kind"] for values in drawn} == {"a", "b"}


@pytest.mark.parametrize(
    ("values", "value", "within"),
    [
        (Between(1, 3), 3, True),
        (Between(1, 3), 4, False),
        (Between(0, 1), True, False),
        (Between(0, 1), 0.5, False),
        (OneOf((0, 1)), True, False),
        (OneOf((False, True)), 1, False),
        (OneOf(("a",)), "a", True),
    ],
)
def test_a_range_knows_its_own(values: Range, value: object, within: bool) -> None:
    assert (value in values) == within


def test_the_table_can_be_printed() -> None:
    assert describe(TABLE).splitlines()[2:] == [
        "| `decoys` | Others | 0 | 1 to 2 | 2 to 4 |",
        "| `kind` | What | a 33 %, b 67 % | a 33 %, b 67 % | a 33 %, b 67 % |",
    ]
