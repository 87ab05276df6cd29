"""`wardian/task`, as Inspect finds it. What it is made of is loaded when it is asked for: this module is imported in every evaluation."""

from inspect_ai import Task, task
from inspect_ai.agent import Agent
from inspect_ai.solver import Solver


@task(name="task")
def wardian_task(
    world: str = "billing",
    split: str = "eval",
    faults: str = "none",
    family: str | None = None,
    difficulty: str | None = None,
    tasks: int = 5,
    limit: int | None = None,
    seed: int = 0,
    malformed: str = "recover",
    cells: int | None = None,
    tier: str | None = None,
    image: str | None = None,
    step_s: float = 60.0,
    solver: Solver | Agent | None = None,
) -> Task:
    """Tasks of a world, which is a built-in one or `package.module:function`.

    Args:
        world: Its name.
        split: `eval` or `heldout`; what is trained on is refused.
        faults: A fault profile, or a file of one.
        family: Only tasks of this family.
        difficulty: Only tasks of this difficulty.
        tasks: How many of each family and difficulty; with the same seed they are those of `wardian eval`.
        limit: At most so many in all; families and difficulties take turns.
        seed: Of the set of tasks.
        malformed: What comes of invalid calls: `recover`, `penalise` or `terminate`.
        cells: Episodes at once, for worlds that need a cell; two for each processor by default.
        tier: `chamber` or `fresh`; by default the best that works.
        image: An adopted image for the cells.
        step_s: A step that takes longer is a failure of ours.
        solver: In place of `wardian_agent`; it finds the tools in `TaskState.tools`, or by `EpisodeTools`.
    """
    from wardian.trainers.inspect.making import Asked, make_task

    return make_task(Asked(world, split, faults, family, difficulty, tasks, limit, seed, malformed, cells, tier, image, step_s), solver)
