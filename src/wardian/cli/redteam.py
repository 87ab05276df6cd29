"""`wardian redteam` and `wardian mutate`: a world's verifiers under attack."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from rich.console import Console
from rich.table import Table

from wardian.cli import database, options
from wardian.cli.console import errors_end_the_command, find_modules_here
from wardian.cli.own import TasksFile, Template, settle
from wardian.envs.definition import WorldDefinition
from wardian.envs.family import Family
from wardian.envs.settings import MalformedPolicy, Settings
from wardian.rollouts.ground import open_ground
from wardian.rollouts.redteam.attacking import Attacked, attack_world
from wardian.rollouts.redteam.mutants import ENOUGH, Fate, Score, unused
from wardian.rollouts.redteam.mutating import MOST, mutate
from wardian.rollouts.redteam.solving import Witness
from wardian.tools.faults import NONE

FamilyName = Annotated[str | None, typer.Option("--family", help="Only this family.")]
AsJson = Annotated[bool, typer.Option("--json", help="Everything as one line of JSON.")]
SHOWN = 40
"""Survivors that are printed."""


def register(app: typer.Typer) -> None:
    """Add this module's commands to `app`."""
    app.command("redteam")(redteam)
    app.command("mutate")(mutants)


def redteam(
    world: options.WorldOrTemplate = None,
    family: FamilyName = None,
    template: Template = None,
    tasks: TasksFile = None,
    as_json: AsJson = False,
) -> None:
    """Play the attacks that a world declares on its verifiers: failures that look like success. Exits with 1 when one is not blocked."""
    find_modules_here()
    with errors_end_the_command():
        found, parameters = _world(world, template, tasks)
        results = anyio.run(_attack, found, _families(found, family), parameters)
    if as_json:
        print(json.dumps([{**asdict(one), "blocked": one.blocked} for one in results]))
    else:
        _print_attacks(results)
    raise typer.Exit(0 if all(one.blocked for one in results) else 1)


def mutants(
    world: options.WorldOrTemplate = None,
    family: FamilyName = None,
    template: Template = None,
    tasks: TasksFile = None,
    seeds: Annotated[int, typer.Option(min=1, help="Tasks of each difficulty.")] = 2,
    most: Annotated[int, typer.Option(min=1, help="Mutants of each task.")] = MOST,
    as_json: AsJson = False,
) -> None:
    """Change one thing at a time in solved states, and count what still passes. Exits with 1 below a score of 0.97."""
    find_modules_here()
    with errors_end_the_command():
        found, parameters = _world(world, template, tasks)
        scores = anyio.run(_mutate, found, _families(found, family), parameters, range(1, seeds + 1), most)
    idle = [] if family else unused(found.allowances, scores)
    if as_json:
        print(json.dumps({"families": [_json(score) for score in scores], "unused_allowances": [asdict(one) for one in idle]}))
    else:
        _print_scores(scores)
        for one in idle:
            print(f"unused allowance: {one.mutants}: no mutant needs it; take it out")
    raise typer.Exit(0 if all(score.score >= ENOUGH for score in scores) else 1)


def _world(world: str | None, template: str | None, tasks: Path | None) -> tuple[WorldDefinition, dict[str, Any]]:
    parameters: dict[str, Any] = {"world": world, "template": template, "tasks": tasks, "db": None, "db_url": None}
    return settle(parameters), parameters


def _families(world: WorldDefinition, name: str | None) -> tuple[Family, ...]:
    return (world.family(name),) if name else world.families


async def _attack(world: WorldDefinition, families: Sequence[Family], parameters: dict[str, Any]) -> list[Attacked]:
    async with (
        open_ground(world, cells=1, database=database.asked(parameters)) as ground,
        ground.environment(NONE, MalformedPolicy.RECOVER, Settings()) as env,
    ):
        return await attack_world(env, families)


async def _mutate(
    world: WorldDefinition, families: Sequence[Family], parameters: dict[str, Any], seeds: Sequence[int], most: int
) -> list[Score]:
    witness = Witness()
    async with (
        open_ground(world, cells=1, database=database.asked(parameters)) as ground,
        ground.environment(NONE, MalformedPolicy.RECOVER, Settings(hold_ended=True), witness.watch(world)) as env,
    ):
        return await mutate(env, witness, families, seeds, most)


def _print_attacks(results: Sequence[Attacked]) -> None:
    table = Table("family", "attack", "task", "failed checks", "", title="Attacks", title_justify="left")
    for one in results:
        table.add_row(one.family, one.attack, one.task_id, ", ".join(one.failed), one.problem or "blocked")
    _console().print(table)
    print(f"{len(results)} attacks, {sum(not one.blocked for one in results)} not blocked")


def _print_scores(scores: Sequence[Score]) -> None:
    table = Table("family", "score", "mutants", "killed", "survived", "raised", "allowed", "refused", title="Mutants", title_justify="left")
    for score in scores:
        fates = (score.count(fate) for fate in (Fate.KILLED, Fate.SURVIVED, Fate.RAISED, Fate.ALLOWED))
        table.add_row(score.family, f"{score.score:.3f}", str(len(score.judged)), *map(str, fates), str(score.impossible))
    _console().print(table)
    for score in scores:
        alone = ", ".join(f"{name} {many} ({only})" for name, (many, only) in score.killed_by().items())
        print(f"checks: {score.family}: mutants that each fails on (and it alone): {alone}")
        for one in score.survivors[:SHOWN]:
            print(f"{one.fate.value}: {one.task_id}: {one.name}: {one.detail} {one.note}".rstrip())
        for reason in sorted({one.note for one in score.judged if one.fate is Fate.ALLOWED}):
            count = sum(one.note == reason and one.fate is Fate.ALLOWED for one in score.judged)
            print(f"allowed: {score.family}: {count}: {reason}")


def _json(score: Score) -> dict[str, Any]:
    return {
        "family": score.family,
        "score": round(score.score, 4),
        "tasks": score.tasks,
        "unsolved_tasks": score.unsolved,
        "mutants": len(score.judged),
        **{fate.value: score.count(fate) for fate in Fate},
        "impossible": score.impossible,
        "operators": {name: {fate.value: number for fate, number in fates.items()} for name, fates in score.by_operator().items()},
        "checks": {name: {"failed": many, "failed_alone": alone} for name, (many, alone) in score.killed_by().items()},
        "survivors": [asdict(one) for one in score.survivors],
        "allowances": sorted({one.note for one in score.judged if one.fate is Fate.ALLOWED}),
    }


def _console() -> Console:
    return Console(highlight=False, width=None if sys.stdout.isatty() else 160)
