"""`wardian replay`: run the action logs of a trajectory again and compare every step."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from wardian.cli import database
from wardian.cli.console import errors_end_the_command, find_modules_here, log_to, run_until_signal, stderr
from wardian.cli.report import EpisodeProgress
from wardian.cli.run import tier_of
from wardian.envs.registry import load_world
from wardian.rollouts.ground import open_ground
from wardian.rollouts.lines import well_formed
from wardian.rollouts.replay import Replay, Replayed, Selection, select, uids_of
from wardian.rollouts.trajectory import AttemptLog, TrajectoryLog
from wardian.sandbox.adoption.build import REPOSITORY
from wardian.sandbox.cell import Tier

SHOWN_DIFFERENCES = 10


def register(app: typer.Typer) -> None:
    """Add this module's command to `app`."""
    app.command()(replay)


def replay(
    where: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that `wardian run --out` made, or one of its files.")],
    episode: Annotated[
        str | None, typer.Argument(help="Only this one: its id, the end of it, or its number. Default: all that ended.")
    ] = None,
    to_step: Annotated[int | None, typer.Option(min=0, help="Stop each episode after this step.")] = None,
    cells: Annotated[int | None, typer.Option(min=1, max=256, help="How many at once. Default: as many as it was recorded with.")] = None,
    tier: Annotated[str, typer.Option(help="Restore tier: chamber, fresh, or auto for the best that works here.")] = "auto",
    image: Annotated[str | None, typer.Option(help="What cells run. Default: the image that was recorded.")] = None,
    db: Annotated[str | None, typer.Option(help=f"Engine of the database: {database.NAMES}. Default: the one that was recorded.")] = None,
    db_url: database.Url = None,
    force: Annotated[bool, typer.Option("--force", help="Run a log of other versions too, and see what differs.")] = False,
    progress: Annotated[bool, typer.Option(help="Show progress on stderr, where that is a terminal.")] = True,
) -> None:
    """Take the recorded actions again on new cells; compare observation, result, reward and fingerprint at every step.

    When all are reproduced, the last line is `identical N/N` and the exit code 0. Else differences are named, and the exit code is 1; so it
    is where lines of an ended episode are missing, and where none could be run again. A log of other versions is refused with exit code 2.
    """
    console = stderr()
    log_to(console)
    find_modules_here()
    with errors_end_the_command():
        log = TrajectoryLog.open(where)
        chosen = select(log, episode)
        shown = EpisodeProgress(console, len(chosen.episodes), shown=progress, verb="replaying")
        order = Order(log, chosen.episodes, tier_of(tier), cells, to_step, force, shown, image, db, db_url)
        signal = run_until_signal(order.play)
    for warning in log.warnings:
        shown.note(f"warning: {warning}")
    if signal:
        raise typer.Exit(128 + signal)
    raise typer.Exit(_report(chosen.broken + order.results, chosen))


@dataclass(slots=True)
class Order:
    """A replay as it was asked for; `play` once."""

    log: TrajectoryLog
    episodes: list[AttemptLog]
    tier: Tier | None
    cells: int | None
    to_step: int | None
    force: bool
    progress: EpisodeProgress
    image: str | None
    db: str | None
    db_url: str | None
    results: list[Replayed] = field(default_factory=list)

    async def play(self) -> None:
        """Run all episodes again, world by world; sets `results`.

        Raises:
            LogForeign, LogBroken: as `Replay.run`.
            SandboxError: cells or template cannot be had.
        """
        for found in dict.fromkeys(_ground_of(episode) for episode in self.episodes):
            await self._play(*found, [episode for episode in self.episodes if _ground_of(episode) == found])

    async def _play(self, world: str, recorded: str | None, engine: str, episodes: list[AttemptLog]) -> None:
        uids = uids_of(episodes)
        cells = self.cells or max(1, len(uids))
        choice = database.choice_of(self.db or engine, self.db_url)
        async with open_ground(
            load_world(world), cells=cells, tier=self.tier, uids=uids, image=self.image or recorded, database=choice
        ) as ground:
            with self.progress:
                again = Replay(self.log, ground, self.force, self.to_step, self._watch)
                self.results += await again.run(episodes, workers=cells)

    def _watch(self, replayed: Replayed) -> None:
        self.progress.advance("" if replayed.identical else f"differs: {replayed.episode_id}")


def _ground_of(attempt: AttemptLog) -> tuple[str, str | None, str]:
    """World, engine of its database, and image where it was an adopted one: the agent image's tag is a version, and compared as such."""
    assert attempt.start is not None, "only started attempts are selected"
    image = attempt.start.versions.image
    return attempt.start.world, image if image and image.startswith(f"{REPOSITORY}:") else None, attempt.start.versions.database


def _report(results: list[Replayed], chosen: Selection) -> int:
    """Say what came of it; gives the exit code."""
    different = [replayed for replayed in results if not replayed.identical]
    for replayed in different[:SHOWN_DIFFERENCES]:
        print(f"not reproduced: {well_formed(str(replayed))}")
    if len(different) > SHOWN_DIFFERENCES:
        print(f"and {len(different) - SHOWN_DIFFERENCES} more")
    skipped = ", ".join(f"{count} {reason}" for reason, count in sorted(chosen.skipped.items()))
    if skipped:
        print(f"skipped: {skipped}")
    inexact = sum(replayed.inexact for replayed in results)
    if inexact:
        print(f"inexact: {inexact} steps, their recorded outcomes were applied")
    if not results:
        print("nothing was replayed: no episode of this log has an end that counts")
        return 1
    print(f"identical {len(results) - len(different)}/{len(results)}")
    return 1 if different else 0
