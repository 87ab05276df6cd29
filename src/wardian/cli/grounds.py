"""What recorded episodes are run again on: the options that say so, and the ground that they and the log come to."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from wardian.cli import database, options
from wardian.envs.taskfile.opening import world_named
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.ground import Ground, open_ground
from wardian.rollouts.replay import uids_of
from wardian.rollouts.trajectory import AttemptLog
from wardian.sandbox.adoption.build import REPOSITORY

Image = Annotated[str | None, typer.Option(help="What cells run. Default: the image that was recorded.")]
Engine = Annotated[str | None, typer.Option(help=f"Engine of the database: {database.NAMES}. Default: the one that was recorded.")]
TasksFile = Annotated[
    Path | None, typer.Option("--tasks", help="Of a run with --template: its tasks. Default: the copy that stands beside the log.")
]
Force = Annotated[bool, typer.Option("--force", help="Run a log of other versions too, and see what differs.")]


@dataclass(frozen=True, slots=True)
class Where:
    """The options as given."""

    tier: str
    image: str | None
    db: str | None
    db_url: str | None
    tasks: Path | None
    """Of a run with `--template`: its file of tasks."""

    @asynccontextmanager
    async def open(self, episodes: Sequence[AttemptLog], cells: int) -> AsyncIterator[Ground]:
        """A ground on which all of `episodes` can be run.

        Raises:
            UsageProblem: they were made on different grounds, or an option names what there is not.
            TaskError: there is no such world or template, or its file of tasks is missing or wrong.
            SandboxError: cells or template cannot be had.
        """
        found = {ground_of(episode) for episode in episodes}
        if len(found) > 1:
            raise UsageProblem(f"episodes: they are of different worlds, images or engines: {sorted(map(str, found))}")
        world, recorded, engine = found.pop()
        choice = database.choice_of(self.db or engine, self.db_url)
        async with open_ground(
            world_named(world, self.tasks),
            cells=cells,
            tier=options.tier_of(self.tier),
            uids=uids_of(episodes),
            image=self.image or recorded,
            database=choice,
        ) as ground:
            yield ground


def ground_of(attempt: AttemptLog) -> tuple[str, str | None, str]:
    """World, image where it was an adopted one (the agent image's tag is a version, and compared as such), and engine of its database."""
    assert attempt.start is not None, "only started attempts are selected"
    image = attempt.start.versions.image
    return attempt.start.world, image if image and image.startswith(f"{REPOSITORY}:") else None, attempt.start.versions.database
