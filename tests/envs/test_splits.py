"""What is held out: whole regions, whole scenario types and whole families, by the parameters of a task alone."""

from collections.abc import Iterable

import pytest

from wardian.envs.definition import WorldDefinition
from wardian.envs.errors import HeldOut
from wardian.envs.family import Family
from wardian.envs.parameters import Between, Constraint, OneOf, Parameter, always, difficulty_of, draw, everywhere
from wardian.envs.registry import load_world
from wardian.envs.splits import REST, Region, Scenarios, Split, must_be, region_of, split_in
from wardian.envs.task import CANARY, Difficulty
from wardian.envs.verifier import FinalState
from wardian.sandbox.files import FileChanges
from wardian.sandbox.streams import stream

WORLDS = [load_world(name) for name in ("toy", "billing")]
FAMILIES = [family for world in WORLDS for family in world.families]
SEEDS = range(60)
every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)

REGIONS = (
    Region("few", "x", {"count": Between(0, 1)}, Split.EVAL),
    Region("few_and_red", "x", {"count": Between(0, 1), "colour": always("red")}, Split.HELDOUT),
)
TYPES = Scenarios("colour", eval=("blue",), heldout=("black",))


@pytest.mark.parametrize(
    ("values", "split", "region"),
    [
        ({"count": 5, "colour": "red"}, Split.TRAIN, REST),
        ({"count": 1, "colour": "green"}, Split.EVAL, "few"),
        ({"count": 1, "colour": "red"}, Split.HELDOUT, "few"),
        ({"count": 5, "colour": "blue"}, Split.EVAL, REST),
        ({"count": 0, "colour": "black"}, Split.HELDOUT, "few"),
        ({"count": True, "colour": "green"}, Split.TRAIN, REST),
    ],
)
def test_a_task_is_of_the_strictest_split_that_anything_says_of_it(values: dict[str, object], split: Split, region: str) -> None:
    assert (split_in(REGIONS, TYPES, values), region_of(REGIONS, values)) == (split, region)


def test_another_split_than_the_one_that_may_be_played_raises() -> None:
    must_be(None, "a", "heldout")
    must_be("train", "a", "train")
    with pytest.raises(HeldOut, match=r"a/hard/seed-1: its task is of the split 'heldout', and only 'train' may be played here"):
        must_be("train", "a/hard/seed-1", "heldout")


TABLE = (everywhere("size", "x", Between(0, 9)), Parameter("limit", "x", always(0), Between(1, 4), Between(3, 9)))
RULE = Constraint("limit", always(4), {"size": Between(5, 9)}, "big ones have one limit")


def test_a_draw_keeps_constraints_and_changes_nothing_else() -> None:
    for seed in SEEDS:
        free, bound = (draw(TABLE, Difficulty.MEDIUM, stream(seed, "x"), rules) for rules in ((), (RULE,)))
        assert RULE.kept(bound)
        assert bound == (free if RULE.kept(free) else {**free, "limit": 4})


def test_difficulty_is_a_function_of_the_parameters() -> None:
    found = [difficulty_of(TABLE, {"size": 1, "limit": limit}) for limit in (0, 2, 3, 7, 10)]
    assert found == [Difficulty.EASY, Difficulty.MEDIUM, Difficulty.MEDIUM, Difficulty.HARD, None]


@every_family
def test_what_is_drawn_keeps_the_constraints_and_tells_the_difficulty(family: Family) -> None:
    for level in family.difficulties:
        for seed in SEEDS:
            drawn = family.drawn(level, seed)
            assert all(rule.kept(drawn) for rule in family.constraints)
            assert difficulty_of(family.parameters, drawn) is level


@every_family
def test_a_task_is_made_of_what_is_drawn_and_is_of_its_split(family: Family) -> None:
    for level in family.difficulties:
        for seed in SEEDS[:6]:
            task, drawn = family.generate(level, seed), family.drawn(level, seed)
            assert {name: task.parameters[name] for name in drawn} == drawn
            assert task.split == family.split_of(drawn) == family.split_at(level, seed)


@every_family
def test_declarations_name_parameters_and_values_that_there_are(family: Family) -> None:
    table = {one.name: [one.at(level) for level in family.difficulties] for one in family.parameters}
    wheres = [region.where for region in family.regions] + [rule.when for rule in family.constraints]
    wheres += [{rule.parameter: rule.within} for rule in family.constraints]
    for where in wheres:
        assert set(where) <= set(table)
    if family.scenarios is not None:
        values = {value for one in table[family.scenarios.parameter] for value in _values(one)}
        out = {*family.scenarios.eval, *family.scenarios.heldout}
        assert out <= values
        assert family.evaluation_only or out < values


def _values(one: object) -> Iterable[object]:
    return one.values if isinstance(one, OneOf) else ()


@every_family
def test_conditions_are_the_checks_of_the_verdict(family: Family) -> None:
    task = family.generate(Difficulty.EASY, 1)
    if family in WORLDS[0].families:
        pytest.skip("the toy verifier reads a database")
    checks = family.verify(FinalState(task, None, (), FileChanges({}), {}, (), "message")).checks
    assert [(one.check, one.hard) for one in family.conditions] == [(check.name, check.hard) for check in checks]


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_every_world_holds_regions_out_and_leaves_most_for_training(world: WorldDefinition) -> None:
    splits = [family.split_at(level, seed) for family in world.families for level in family.difficulties for seed in range(100)]
    assert set(splits) == {"train", "eval", "heldout"}
    assert splits.count("train") > len(splits) / 2


def test_a_canary_names_its_task_and_can_be_searched_for() -> None:
    task, other = (FAMILIES[0].generate(Difficulty.EASY, seed) for seed in (1, 2))
    assert task.canary == f"{CANARY}:{task.hash[:16]}" != other.canary
    assert CANARY not in task.instruction + str(task.rows) + str([entry.data for entry in task.files.entries.values()])


def test_equal_content_is_a_duplicate_whatever_the_id() -> None:
    family = FAMILIES[0]
    one, other = (family.generate(Difficulty.EASY, seed) for seed in (1, 2))
    assert one.content != other.content
    assert one.content == family.generate(Difficulty.EASY, 1).content != one.hash
