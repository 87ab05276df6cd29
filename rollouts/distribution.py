"""A world's families as data, and what a sample shows: how much is of which split, region and type, and which tasks occur twice."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict

from wardian.envs.definition import WorldDefinition
from wardian.envs.family import Family
from wardian.envs.parameters import where_json
from wardian.envs.splits import REST, Split
from wardian.envs.task import CANARY
from wardian.rollouts.records import Json

DRAWN = 300
"""Draws of parameters at each difficulty, from which shares are told."""
RULE = "the easiest difficulty whose ranges hold every value"


def distribution(world: WorldDefinition, families: tuple[Family, ...], tasks: int) -> dict[str, Json]:
    """All of it. `tasks` of each family and difficulty are made and compared; 0 makes none."""
    return {"world": world.name, "version": world.version, "canary": CANARY, "families": [declared(one, tasks) for one in families]}


def declared(family: Family, tasks: int) -> dict[str, Json]:
    """One family: what it declares, and what a sample shows."""
    levels = family.difficulties
    sample = {level: [family.drawn(level, seed) for seed in range(DRAWN if family.parameters else 0)] for level in levels}
    every = [values for drawn in sample.values() for values in drawn]
    return {
        "name": family.name,
        "version": family.version,
        "evaluation_only": family.evaluation_only,
        "difficulties": [level.value for level in levels],
        "difficulty_is": RULE,
        "parameters": [
            {"name": one.name, "meaning": one.meaning, **{level.value: one.at(level).as_json() for level in levels}}
            for one in family.parameters
        ],
        "constraints": [
            {"parameter": one.parameter, "within": one.within.as_json(), "when": where_json(one.when), "why": one.why}
            for one in family.constraints
        ],
        "regions": list(_regions(family, every)),
        "scenarios": _scenarios(family, every),
        "splits": {
            level.value: _shares([family.split_of(values).value for values in drawn], list(Split)) for level, drawn in sample.items()
        },
        "conditions": [asdict(one) for one in family.conditions],
        "ends_on_effects": list(family.ends_on_effects),
        "reward": asdict(family.reward),
        "sampled": _made(family, tasks),
    }


def _regions(family: Family, every: list[dict[str, Json]]) -> Iterator[dict[str, Json]]:
    counted = Counter(family.region_of(values) for values in every)
    for one in family.regions:
        split = Split.HELDOUT if family.evaluation_only else one.split
        where = {"where": where_json(one.where), "split": split.value, "share": _share(counted[one.name], len(every))}
        yield {"name": one.name, "meaning": one.meaning, **where}
    rest = Split.HELDOUT if family.evaluation_only else Split.TRAIN
    yield {
        "name": REST,
        "meaning": "what no other region holds",
        "where": {},
        "split": rest.value,
        "share": _share(counted[REST], len(every)),
    }


def _scenarios(family: Family, every: list[dict[str, Json]]) -> dict[str, Json] | None:
    if family.scenarios is None:
        return None
    name = family.scenarios.parameter
    counted = Counter(str(values[name]) for values in every)
    types = {
        value: {
            "split": (Split.HELDOUT if family.evaluation_only else family.scenarios.split_of(value)).value,
            "share": _share(count, len(every)),
        }
        for value, count in sorted(counted.items())
    }
    return {"parameter": name, "types": types}


def _made(family: Family, tasks: int) -> dict[str, Json] | None:
    """How many of the first tasks are the same but for their id."""
    if not tasks:
        return None
    contents = [family.generate(level, seed).content for level in family.difficulties for seed in range(tasks)]
    return {"tasks": len(contents), "distinct": len(set(contents)), "duplicate_rate": round(1 - len(set(contents)) / len(contents), 4)}


def _shares(values: list[str], names: list[Split]) -> Mapping[str, float | None]:
    counted = Counter(values)
    return {name.value: _share(counted[name.value], len(values)) for name in names}


def _share(count: int, whole: int) -> float | None:
    return round(count / whole, 3) if whole else None
