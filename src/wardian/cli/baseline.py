"""`wardian baseline`: what the best, the simplest and a learned policy of a small world are worth."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from wardian.cli.console import errors_end_the_command, find_modules_here, stderr
from wardian.envs.registry import load_world
from wardian.envs.worlds.routing.model import Move, Parameters
from wardian.rollouts.baseline.plot import NO_PLOT, can_plot, plot
from wardian.rollouts.baseline.routing import CLOSE, Baselines, baselines
from wardian.rollouts.baseline.tabular import Learning, rows
from wardian.rollouts.errors import UsageProblem

WORLD = "routing"
FILE = "baseline.json"
DEFAULT = Learning()


def register(app: typer.Typer) -> None:
    """Add this module's command to `app`."""
    app.command()(baseline)


def baseline(
    world: Annotated[str, typer.Argument(help=f"World: {WORLD}.")],
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Learners, each with a seed of its own, from 0 up.")] = 10,
    episodes: Annotated[int, typer.Option(min=1, help="That each of them plays.")] = DEFAULT.episodes,
    out: Annotated[Path | None, typer.Option(help="Folder for the plot of the sweep and baseline.json. Default: none is written.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
) -> None:
    """Random, always-cheap, always-strong and learned policies against the exact optimum, each valued exactly; no engine is needed.

    The exit code is 1 where a learned policy is not as good as the optimum.
    """
    find_modules_here()
    with errors_end_the_command():
        if world != WORLD:
            load_world(world)
            raise UsageProblem(f"world: baselines are there for {WORLD}; {world!r} is too large to be solved exactly")
        if out is not None and not can_plot():
            stderr().print(f"note: no plot will be drawn, {NO_PLOT}", style="yellow", markup=False)
        found = baselines(Parameters(), range(seeds), Learning(episodes=episodes))
        if out is not None:
            _write(found, out)
    if as_json:
        print(json.dumps(found.as_json()))
    else:
        _print(Console(highlight=False), found)
    raise typer.Exit(0 if found.close == len(found.learned) else 1)


def _write(found: Baselines, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    path = out / FILE
    path.write_text(json.dumps(found.as_json(), indent=2) + "\n")
    stderr().print(f"written to {path}", markup=False)
    if can_plot():
        stderr().print(f"written to {plot(found, out)}", markup=False)


def _print(console: Console, found: Baselines) -> None:
    table = Table("policy", "value", "below the optimum")
    named = {"optimum over the belief": found.by_belief, "optimum over the observation": found.best.value, **found.fixed}
    for name, value in named.items():
        table.add_row(name, f"{value:.4f}", f"{found.by_belief - value:.4f}")
    for one in found.learned:
        table.add_row(f"learned, seed {one.seed}", f"{one.value:.4f}", f"{found.best.value - one.value:.4f}")
    console.print(table)
    console.print(f"learned policies within {CLOSE} of the optimum: {found.close} of {len(found.learned)}")
    console.print(_learned(found))
    costs = found.sweep[0].cost, found.sweep[-1].cost
    where = "nowhere" if found.flips_at is None else f"at {found.flips_at:.4f}"
    console.print(
        f"after a cheap rejection the strong model becomes the better choice {where}, of cheap costs from {costs[0]} to {costs[1]}"
    )
    sweep = Table("cheap cost", "cheap again", "strong", "learned")
    for at in found.sweep:
        sweep.add_row(f"{at.cost:.2f}", f"{at.cheap:.4f}", f"{at.strong:.4f}", ", ".join(move.name.lower() for move in at.learned))
    console.print(sweep)


def _learned(found: Baselines) -> Table:
    table = Table(
        "rejected", *(move.name.lower() for move in Move), "visits", "move", title=f"learned, seed {found.learned[0].seed} (exact)"
    )
    for seen, values, visits in rows(found.parameters, found.learned[0].table):
        exact = found.best.values[seen]
        cells = (f"{values[move]:.3f} ({exact[move]:.3f})" for move in Move)
        move = found.learned[0].table.move(seen)
        table.add_row(f"{seen[0]}c {seen[1]}s", *cells, str(sum(visits)), move.name.lower())
    return table
