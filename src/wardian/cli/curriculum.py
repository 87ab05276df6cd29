"""`wardian curriculum`: set one up, look at it, and fill its pool of hard negatives."""

import json
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from wardian.cli import database, grounds, options
from wardian.cli.console import errors_end_the_command, find_modules_here, run_until_signal, stderr
from wardian.envs.taskfile.opening import kept_copy, world_named
from wardian.rollouts.curriculum import fatal
from wardian.rollouts.curriculum.curriculum import Curriculum, open_curriculum, world_of
from wardian.rollouts.curriculum.harvest import Failed, Harvest
from wardian.rollouts.curriculum.placement import Placement
from wardian.rollouts.curriculum.pool import Failure
from wardian.rollouts.curriculum.report import Line, Report
from wardian.rollouts.curriculum.settings import CurriculumSettings, PoolSettings
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.trajectory import TrajectoryLog

PLACED, POOLED, DEFAULT = Placement(), PoolSettings(), CurriculumSettings()
WIDTH = 220
File = Annotated[str, typer.Argument(metavar="FILE", help="SQLite file of the curriculum, or the URL of a Postgres database.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")]


def register(app: typer.Typer) -> None:
    """Add this module's commands to `app`."""
    curriculum = typer.Typer(no_args_is_help=True, help="Which tasks to train on: a sampler that outcomes steer, and a pool of failures.")
    curriculum.command()(create)
    curriculum.command()(report)
    curriculum.command()(add)
    curriculum.command()(pool)
    app.add_typer(curriculum, name="curriculum")


def create(
    file: File,
    world: options.World,
    group: Annotated[int, typer.Option(help="Episodes of one task.")] = DEFAULT.group,
    low: Annotated[float, typer.Option(help="Least success of the tasks to be chosen.")] = PLACED.low,
    high: Annotated[float, typer.Option(help="Most success of them.")] = PLACED.high,
    explore: Annotated[float, typer.Option(help="Share of the draws that goes to all families and difficulties alike.")] = PLACED.explore,
    floor: Annotated[float, typer.Option(help="Least share of a family.")] = PLACED.floor,
    half_life: Annotated[float, typer.Option(help="Groups after which an older one counts half.")] = PLACED.half_life,
    pool_share: Annotated[float, typer.Option(help="Share of the draws that come from the pool, while it has any.")] = POOLED.share,
    pool_most: Annotated[int, typer.Option(help="Failures in the pool; the oldest go.")] = POOLED.most,
    pool_age: Annotated[int, typer.Option(help="Draws after which a failure goes that did not happen again.")] = POOLED.age,
    seed: Annotated[int, typer.Option(help="Tasks and seeds follow from it and from the outcomes.")] = DEFAULT.seed,
) -> None:
    """Make a curriculum. What is chosen here stays with it."""
    find_modules_here()
    with errors_end_the_command():
        if "://" not in file and Path(file).exists():
            raise UsageProblem(f"curriculum: {file} is there already; name another file, or remove it")
        placement, pooled = Placement(low, high, explore, floor, half_life), PoolSettings(pool_share, pool_most, pool_age)
        made = open_curriculum(file, world_named(world, None), world, CurriculumSettings(placement, pooled, group, seed))
        print(f"{made.store.name}: a curriculum of {len(made.shares())} families and difficulties of {world}, groups of {group}")


def report(file: File, as_json: AsJson = False) -> None:
    """Success, variance within groups and groups without any, by family and difficulty, and how often each is drawn from now on."""
    find_modules_here()
    with errors_end_the_command():
        found = _opened(file, None).report()
    if as_json:
        print(json.dumps(found.as_json()))
    else:
        _print(found)


def pool(file: File, as_json: AsJson = False) -> None:
    """List the pool of hard negatives, the one that is played next first."""
    find_modules_here()
    with errors_end_the_command():
        found = _opened(file, None).failures()
    if as_json:
        print(json.dumps([_entry(one) for one in found]))
        return
    table = Table(Column("task", overflow="fold"), "seed", "faults", "failed by", "ended by", "step", Column("snapshot", overflow="fold"))
    for one in found:
        cells = (str(one.task_id), str(one.seed), one.faults.name, one.policy, one.end_cause, str(one.step or "-"), one.snapshot or "-")
        table.add_row(*cells)
    _console().print(table if found else "the pool is empty: wardian curriculum add FILE DIR")


def add(
    file: File,
    where: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that `wardian run --out` made, or one of its files.")],
    snapshots: Annotated[
        Path | None, typer.Option(help="Find the fatal step of each failure by playing, and keep the state before it in this folder.")
    ] = None,
    variants: Annotated[int, typer.Option(min=0, max=20, help="Add so many variants of each failed task, each seen to be solvable.")] = 0,
    tier: options.TierName = "auto",
    image: grounds.Image = None,
    db: grounds.Engine = None,
    db_url: database.Url = None,
) -> None:
    """Put the failures of a run into the pool. Held-out tasks never get there, nor what failed by the infrastructure."""
    find_modules_here()
    with errors_end_the_command():
        curriculum = _opened(file, kept_copy(where))
        gathering = Gathering(Harvest(TrajectoryLog.open(where), curriculum.world), snapshots, variants)
        if not gathering.failed:
            stderr().print(f"{where}: holds no failure to learn from", style="yellow", markup=False)
        elif snapshots is not None or variants:
            options = grounds.Where(tier, image, db, db_url, kept_copy(where))
            if signal := run_until_signal(lambda: gathering.play(options)):
                raise typer.Exit(128 + signal)
        new, refused = curriculum.add_failures(gathering.entries)
    harvest = gathering.harvest
    print(
        f"{new} new in the pool, {len(gathering.entries) - new - refused} there before; left out: {harvest.again} of the same task, "
        f"{harvest.held_out} held out, {harvest.gone + refused} whose task is no longer made so"
    )


@dataclass(slots=True)
class Gathering:
    """What becomes of the failures of a log on their way into the pool."""

    harvest: Harvest
    snapshots: Path | None
    variants: int
    failed: list[Failed] = field(init=False)
    entries: list[Failure] = field(init=False)

    def __post_init__(self) -> None:
        self.failed = list(self.harvest)
        self.entries = [one.failure for one in self.failed]

    async def play(self, options: grounds.Where) -> None:
        """Find fatal steps, and make variants; adds to `entries`."""
        async with options.open([one.attempt for one in self.failed], 1) as ground:
            for number, one in enumerate(self.failed):
                if self.snapshots is not None:
                    self.entries[number] = await fatal.with_snapshot(ground, self.harvest.log, one, self.snapshots)
                self.entries += await fatal.variants(ground, one, self.variants)


def _console() -> Console:
    """As wide as the tables, where nobody says how wide the terminal is."""
    return Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=WIDTH)


def _opened(file: str, tasks: Path | None) -> Curriculum:
    name = world_of(file)
    return open_curriculum(file, world_named(name, tasks), name)


def _entry(one: Failure) -> dict[str, object]:
    names = ("seed", "episode_id", "policy", "end_cause", "step", "parent", "snapshot", "task_hash")
    return {"task_id": str(one.task_id), "faults": one.faults.name, **{name: getattr(one, name) for name in names}}


def _print(found: Report) -> None:
    table = Table("family", "difficulty", "share", "groups", "episodes", "masked", "success", "variance", "without variance")
    for line in found.arms:
        table.add_row(*_cells(line))
    table.add_section()
    for line in found.families:
        table.add_row(*_cells(line))
    table.add_section()
    table.add_row(*_cells(found.hard))
    table.add_row(*_cells(replace(found.whole, family="all others")), style="bold")
    console = _console()
    console.print(table)
    console.print(f"{found.draws} groups drawn of {found.world}; {found.pool} failures in the pool")


def _cells(line: Line) -> list[str]:
    rates = (line.share, line.success, line.variance, line.without_variance)
    share, success, variance, without = ("-" if rate is None else f"{rate:.3f}" for rate in rates)
    return [line.family, line.difficulty, share, str(line.groups), str(line.judged), str(line.masked), success, variance, without]
