"""Worlds on a database of one's own: the options that name one, and `wardian tasks`."""

from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from wardian.cli import database, options
from wardian.cli.console import errors_end_the_command, log_to, stderr
from wardian.envs import environment
from wardian.envs.definition import WorldDefinition
from wardian.envs.registry import load_world
from wardian.envs.settings import MalformedPolicy, Settings
from wardian.envs.taskfile.family import WrittenTask
from wardian.envs.taskfile.opening import PREFIX, own_world
from wardian.envs.taskfile.trial import Trial, try_task
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.ground import open_ground
from wardian.sandbox.cell import Tier
from wardian.tools.faults import NONE

Template = Annotated[str | None, typer.Option(help="In place of a world: a database of `wardian template import`, with --tasks.")]
TasksFile = Annotated[Path | None, typer.Option(help="YAML file of the tasks to play on --template.")]


def register(app: typer.Typer) -> None:
    """Add this module's commands to `app`."""
    tasks = typer.Typer(no_args_is_help=True, help="Tasks of your own, in YAML.")
    tasks.command()(check)
    # With one command alone, typer would leave its name out.
    tasks.callback()(lambda: None)
    app.add_typer(tasks, name="tasks")


def settle(parameters: dict[str, Any]) -> WorldDefinition:
    """The world that the options of a run name; writes its full name, the place of its tasks and its engine into them.

    Raises:
        UsageProblem: they name none, or two.
        TaskError: there is no such world or template, or the tasks are wrong.
    """
    world, template, tasks, db = (parameters[name] for name in ("world", "template", "tasks", "db"))
    if (template is None) != (tasks is None):
        raise UsageProblem("template: --template NAME and --tasks FILE go together; give both, or the name of a world")
    if (world is None) == (template is None):
        raise UsageProblem("world: give either the name of a world, or --template NAME and --tasks FILE")
    if template is None:
        parameters["db"] = db or "sqlite"
        return load_world(world)
    found = own_world(template, Path(tasks))
    assert found.imported is not None, "own worlds are on an imported database"
    if db not in (None, found.imported.engine):
        raise UsageProblem(f"db: the template {template} is on {found.imported.engine}, and runs on that alone; leave --db out")
    parameters.update(world=f"{PREFIX}{template}", tasks=str(Path(tasks).absolute()), db=found.imported.engine)
    return found


def check(
    tasks: Annotated[Path, typer.Argument(metavar="FILE", help="YAML file of tasks.")],
    template: Annotated[str, typer.Option(help="The database that they are for, of `wardian template import`.")],
    image: options.Image = None,
    db_url: database.Url = None,
) -> None:
    """Check a file of tasks: that all is well formed, that each reference solution passes, and that doing nothing does not.

    Prints a line for each task, and one for each thing that is wrong. Exits with 1 where something is.
    """
    log_to(stderr(), told=environment.__name__)
    with errors_end_the_command():
        world = own_world(template, tasks)
        results = anyio.run(_try, world, image, db_url)
    for trial in results:
        print(f"{'wrong' if trial.problems else 'right'}: {trial.task_id} ({trial.steps} steps)")
        for problem in trial.problems:
            print(f"  {problem}")
        if trial.idle_passes:
            print(f"  note: passes before anything is done, and so only guards: {', '.join(trial.idle_passes)}")
        if trial.slow_patterns:
            slow = ", ".join(trial.slow_patterns)
            print(f"  note: the pattern is slow for some texts; one that takes longer than a second does not pass: {slow}")
    wrong = sum(bool(trial.problems) for trial in results)
    print(f"{len(results)} tasks, {wrong} wrong")
    raise typer.Exit(1 if wrong else 0)


async def _try(world: WorldDefinition, image: str | None, db_url: str | None) -> list[Trial]:
    assert world.imported is not None, "own worlds are on an imported database"
    choice = database.choice_of(world.imported.engine, db_url)
    tier = None if world.needs_cell else Tier.CHAMBER
    async with (
        open_ground(world, cells=1, tier=tier, image=image, database=choice) as ground,
        ground.environment(NONE, MalformedPolicy.RECOVER, Settings()) as env,
    ):
        return [await try_task(env, family) for family in world.families if isinstance(family, WrittenTask)]
