"""`wardian families`: what the families of a world vary, what of it is held out, and what success takes."""

import json
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table

from wardian.cli import options
from wardian.cli.console import errors_end_the_command, find_modules_here
from wardian.envs.family import Family
from wardian.envs.parameters import where_text
from wardian.envs.registry import load_world
from wardian.envs.task import Difficulty
from wardian.rollouts.distribution import DRAWN, distribution
from wardian.rollouts.records import Json


def register(app: typer.Typer) -> None:
    """Add this module's command to `app`."""
    app.command()(families)


def families(
    world: options.World,
    family: Annotated[str | None, typer.Option(help="This family only.")] = None,
    tasks: Annotated[
        int, typer.Option(min=0, max=10_000, help="Make so many tasks of each difficulty and count duplicates; 0: none.")
    ] = 30,
    as_json: Annotated[bool, typer.Option("--json", help="All of it as one line of JSON.")] = False,
) -> None:
    """Show each family of a world as a distribution: parameters, constraints, regions, scenario types, splits, conditions."""
    find_modules_here()
    with errors_end_the_command():
        found = load_world(world)
        chosen = (found.family(family),) if family else found.families
        report = distribution(found, chosen, tasks)
    if as_json:
        print(json.dumps(report))
        return
    for one, told in zip(chosen, report["families"], strict=True):
        _print(one, told)
    print(f"canary of {found.name}: {report['canary']}:<first 16 of the task's hash>")


def _print(family: Family, told: dict[str, Json]) -> None:
    console = Console(highlight=False)
    only = ", for evaluation only" if family.evaluation_only else ""
    console.print(f"{family.name}, version {family.version}{only}", style="bold", markup=False)
    if family.parameters:
        _print_parameters(console, family)
        _print_parts(console, told)
    for one in family.constraints:
        console.print(f"  {one.parameter} is {one.within} where {where_text(one.when)}: {one.why}", markup=False, soft_wrap=True)
    console.print(f"  difficulty: {told['difficulty_is']}", markup=False)
    console.print("  success: all of these; a hard failure where one is marked", markup=False)
    for condition in family.conditions:
        mark = " (hard)" if condition.hard else ""
        console.print(f"    {condition.check}{mark}: {condition.meaning}", markup=False, soft_wrap=True)
    if family.ends_on_effects:
        console.print(f"  ends at once on: {', '.join(family.ends_on_effects)}", markup=False)
    if told["sampled"]:
        sampled = told["sampled"]
        console.print(
            f"  {sampled['tasks']} tasks made, {sampled['distinct']} distinct: {sampled['duplicate_rate']:.2%} duplicates", markup=False
        )
    console.print()


def _print_parameters(console: Console, family: Family) -> None:
    """A line for each parameter, and one for each range that it has."""
    for one in family.parameters:
        console.print(f"  {one.name}: {one.meaning}", markup=False, soft_wrap=True)
        ranges: dict[str, list[str]] = {}
        for level in family.difficulties:
            ranges.setdefault(str(one.at(level)), []).append(level.value)
        for text, levels in ranges.items():
            console.print(f"    {'any' if len(ranges) == 1 else ', '.join(levels)}: {text}", markup=False, soft_wrap=True)


def _print_parts(console: Console, told: dict[str, Json]) -> None:
    """Regions, scenario types and splits, with their shares of what was drawn."""
    table = Table("region or type", "split", "share", Column("is", overflow="fold"), box=SIMPLE_HEAD)
    for one in told["regions"]:
        table.add_row(one["name"], one["split"], f"{one['share']:.1%}", one["meaning"])
    if told["scenarios"]:
        table.add_section()
        for name, one in told["scenarios"]["types"].items():
            table.add_row(name, one["split"], f"{one['share']:.1%}", f"{told['scenarios']['parameter']} is {name}")
    table.add_section()
    for level in (one.value for one in Difficulty if one.value in told["splits"]):
        shares = ", ".join(f"{split} {share:.0%}" for split, share in told["splits"][level].items())
        table.add_row(level, "", "", f"{shares} of {DRAWN} draws")
    console.print(table)
