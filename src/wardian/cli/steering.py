"""Runs whose tasks a curriculum chooses: their options, and what they come to."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from wardian.envs.definition import WorldDefinition
from wardian.envs.splits import Split
from wardian.rollouts.curriculum.curriculum import open_curriculum
from wardian.rollouts.curriculum.episodes import CurriculumRun
from wardian.rollouts.curriculum.settings import CurriculumSettings
from wardian.rollouts.curriculum.store import shown_url
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.policies.base import Policy
from wardian.rollouts.records import Json
from wardian.rollouts.resume import Played
from wardian.tools.faults import FaultProfile

Where = Annotated[
    str | None,
    typer.Option(help="Tasks are chosen by the curriculum in this SQLite file or at this URL, which is told how each went; made if new."),
]
FromPool = Annotated[bool, typer.Option("--from-pool", help="With --curriculum: play its pool of hard negatives alone.")]
ONE_AT_A_TIME = "start the same command several times, with other --out, and they share the curriculum"
APART = {
    "workers": (1, f"one process plays for it; {ONE_AT_A_TIME}"),
    "twin": (False, "twins are no part of what it chose"),
    "family": (None, "it chooses families itself"),
    "difficulty": (None, "it chooses difficulties itself"),
    "split": (Split.TRAIN.value, "it chooses of the split 'train' alone"),
    "mix": (None, "it weighs families itself"),
    "group": (1, "it was made with the size of its groups"),
}
"""Options that do not go with a curriculum: what they must be left at, and why."""


def shown(where: str | None) -> str | None:
    """As it may stand in logs: a file by its whole path, a URL without its password."""
    if where is None:
        return None
    return shown_url(where) if "://" in where else str(Path(where).absolute())


def steered(
    where: str,
    asked: Mapping[str, Json],
    world: WorldDefinition,
    policies: Sequence[Policy],
    run: str,
    faults: FaultProfile,
    before: Played | None,
) -> CurriculumRun:
    """The episodes of a run that the curriculum at `where` chooses.

    Raises:
        UsageProblem: an option does not go with it, or it cannot be used.
    """
    for name, (free, why) in APART.items():
        if asked[name] != free:
            raise UsageProblem(f"{name}: does not go with --curriculum: {why}; leave it out")
    if len(policies) > 1:
        raise UsageProblem("policy: a curriculum follows one policy; name one, and another curriculum for each other one")
    curriculum = open_curriculum(where, world, asked["world"], CurriculumSettings(seed=asked["seed"]))
    return CurriculumRun(curriculum, run, policies[0], asked["episodes"], faults.hash, asked["from_pool"], before)
