"""`wardian replay`: run the action logs of a trajectory again and compare every step."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from wardian.cli import database, grounds, options
from wardian.cli.console import errors_end_the_command, find_modules_here, log_to, run_until_signal, say_damage, stderr
from wardian.cli.grounds import Where, ground_of
from wardian.cli.report import EpisodeProgress
from wardian.envs.taskfile.opening import kept_copy
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.lines import well_formed
from wardian.rollouts.replay import Replay, Selection, select, uids_of
from wardian.rollouts.rerun import Replayed
from wardian.rollouts.trajectory import AttemptLog, TrajectoryLog

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
    tier: options.TierName = "auto",
    image: grounds.Image = None,
    db: grounds.Engine = None,
    db_url: database.Url = None,
    tasks: grounds.TasksFile = None,
    force: grounds.Force = False,
    progress: options.Progress = True,
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
        say_damage(console, where)
        chosen = select(log, episode)
        _check_step(chosen, to_step)
        shown = EpisodeProgress(console, len(chosen.episodes), shown=progress, verb="replaying")
        order = Order(log, chosen.episodes, Where(tier, image, db, db_url, tasks or kept_copy(where)), cells, to_step, force, shown)
        signal = run_until_signal(order.play)
    for warning in log.warnings:
        shown.note(f"warning: {warning}")
    if signal:
        raise typer.Exit(128 + signal)
    raise typer.Exit(_report(chosen.broken + order.results, chosen))


def _check_step(chosen: Selection, to_step: int | None) -> None:
    most = max((one.end.steps for one in chosen.episodes if one.end is not None), default=None)
    if to_step is not None and most is not None and to_step > most:
        raise UsageProblem(f"to_step: no episode here has so many steps; give at most {most}, got {to_step}")


@dataclass(slots=True)
class Order:
    """A replay as it was asked for; `play` once."""

    log: TrajectoryLog
    episodes: list[AttemptLog]
    where: Where
    cells: int | None
    to_step: int | None
    force: bool
    progress: EpisodeProgress
    results: list[Replayed] = field(default_factory=list)

    async def play(self) -> None:
        """Run all episodes again, world by world; sets `results`.

        Raises:
            LogForeign, LogBroken: as `Replay.run`.
            SandboxError: cells or template cannot be had.
        """
        for found in dict.fromkeys(ground_of(episode) for episode in self.episodes):
            await self._play([episode for episode in self.episodes if ground_of(episode) == found])

    async def _play(self, episodes: list[AttemptLog]) -> None:
        cells = self.cells or max(1, len(uids_of(episodes)))
        async with self.where.open(episodes, cells) as ground:
            with self.progress:
                again = Replay(self.log, ground, self.force, self.to_step, self._watch)
                self.results += await again.run(episodes, workers=cells)

    def _watch(self, replayed: Replayed) -> None:
        self.progress.advance("" if replayed.identical else f"differs: {replayed.episode_id}")


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
