"""`wardian mcp`: one episode as a tool server on stdin and stdout, for any agent program."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wardian.cli import database, options
from wardian.cli.console import errors_end_the_command, find_modules_here, folder, log_to, run_until_signal, stderr
from wardian.envs.definition import WorldDefinition
from wardian.envs.registry import load_world, profile
from wardian.envs.settings import MalformedPolicy, Settings
from wardian.envs.splits import Split
from wardian.envs.task import TaskId
from wardian.rollouts.errors import LogBroken, UsageProblem
from wardian.rollouts.folder import folder_for_a_run, next_file
from wardian.rollouts.ground import Ground, open_ground
from wardian.rollouts.plan import new_run_id
from wardian.rollouts.recording import AttemptRecorder, Setting, log_at, versions_of
from wardian.rollouts.records import EpisodeEnd, Json
from wardian.rollouts.sampling import split_asked
from wardian.rollouts.trajectory import TrajectoryWriter
from wardian.sandbox.cell import Tier
from wardian.sandbox.database.choice import DatabaseChoice
from wardian.tools.faults import FaultProfile

if TYPE_CHECKING:
    from wardian.trainers.mcp.stdio import Line, Serving, Wire

POLICY = "mcp"
"""What logs call whoever plays; `--checkpoint` says more."""
STEM = "mcp"
"""Of the files that episodes are written to."""


def register(app: typer.Typer) -> None:
    """Add this module's command to `app`."""
    app.command()(mcp)


def mcp(
    world: options.World,
    task: Annotated[str, typer.Argument(help="Id of a task, such as lending-desk/easy/seed-3.")],
    seed: Annotated[int, typer.Option(min=0, help="Of the episode's streams: faults, latencies, background events.")] = 0,
    faults: options.Faults = "none",
    malformed: options.Malformed = "recover",
    split: Annotated[str, typer.Option(help="What the task must be of: train, eval, heldout, or all.")] = Split.TRAIN.value,
    tier: options.TierName = "auto",
    image: options.Image = None,
    checkpoint: Annotated[str, typer.Option(help="Which program or weights play, for the trajectory.")] = "",
    out: Annotated[
        Path | None, typer.Option(help="Folder for the trajectory; each episode adds a file.", parser=folder, metavar="DIR")
    ] = None,
    db: Annotated[str, typer.Option(help=f"Engine of the world's database: {database.NAMES}.")] = "sqlite",
    db_url: database.Url = None,
) -> None:
    """Serve one episode over the Model Context Protocol on stdin and stdout. An agent program starts this command by itself.

    The episode ends when the agent sends its last message, when a budget ends it, or when the program closes stdin. The verdict goes to
    stderr. Exits with 1 when the episode was not judged. Needs the extra `mcp`.
    """
    parameters = {name: str(value) if isinstance(value, Path) else value for name, value in locals().items() if name != "db_url"}
    find_modules_here()
    with errors_end_the_command():
        wire = _wire()
        log_to(stderr())
        database.keep(db_url, db)
        command = Command.checked(parameters, out, wire)
        with folder_for_a_run(out):
            number = run_until_signal(command.play, command.interrupt)
    raise typer.Exit(command.exit_code(number))


def _wire() -> "Wire":
    if find_spec("mcp_types") is None:  # since mcp 2
        raise UsageProblem("mcp: the package mcp is needed, 2.3 or later: pip install 'wardian[mcp]'")
    from wardian.trainers.mcp.stdio import Wire

    return Wire.take()


@dataclass(slots=True)
class Command:
    """The episode as it was asked for, checked; plays it once."""

    world: WorldDefinition
    faults: FaultProfile
    malformed: MalformedPolicy
    split: Split | None
    tier: Tier | None
    choice: DatabaseChoice
    parameters: dict[str, Json]
    out: Path | None
    wire: "Wire"
    serving: "Serving | None" = None

    @classmethod
    def checked(cls, parameters: dict[str, Json], out: Path | None, wire: "Wire") -> "Command":
        """Read the options.

        Raises:
            UsageProblem, TaskError: one names what there is not.
        """
        world = load_world(parameters["world"])
        world.family(TaskId.parse(parameters["task"]).family)
        return cls(
            world,
            profile(parameters["faults"], world),
            options.malformed_named(parameters["malformed"]),
            split_asked(parameters["split"]),
            options.tier_of(parameters["tier"]),
            database.asked(parameters),
            parameters,
            out,
            wire,
        )

    @property
    def end(self) -> EpisodeEnd | None:
        """The last line of the episode; `None` before there is one."""
        return self.serving.episode.end if self.serving else None

    def exit_code(self, signal: int) -> int:
        """Of the command."""
        if self.end is not None and self.end.mask:
            return 0
        return 128 + signal if signal else 1

    def interrupt(self) -> bool:
        """Whether it ends by itself: clients first close stdin, and soon after send a signal, while what was done is being judged."""
        return self.serving is not None and self.serving.leaving

    async def play(self) -> None:
        """Play the episode and say how it ended.

        Raises:
            TaskError: the world does not take the task, or it is of another split.
            SandboxError: the cell or the template cannot be had.
            UsageProblem: stdin or stdout is no pipe.
            LogBroken: the trajectory cannot be written.
        """
        line = await self.wire.open()
        image = self.parameters["image"]
        async with open_ground(self.world, cells=1, tier=self.tier, image=image, database=self.choice) as ground:
            try:
                await self._play(ground, line)
            except OSError as error:
                raise LogBroken(f"{self.out}: cannot be written: {error.strerror or error}") from error

    async def _play(self, ground: Ground, line: "Line") -> None:
        from wardian.trainers.episode_log import EpisodeLog
        from wardian.trainers.mcp.local import LocalEpisode
        from wardian.trainers.mcp.stdio import Serving

        settings = Settings(split=self.split)
        setting = Setting(
            world=self.world,
            asked_for=self.parameters["world"],
            versions=versions_of(ground),
            faults=self.faults,
            malformed=self.malformed.value,
            recompute_every=settings.recompute_every,
            split=self.split,
        )
        run, task, seed = new_run_id(), self.parameters["task"], self.parameters["seed"]
        recorder = AttemptRecorder(setting, f"{run}-00000", task, seed, POLICY, self.parameters["checkpoint"], attempt=1)
        with log_at(next_file(self.out, STEM) if self.out else None, setting, run, self.parameters) as writer:
            async with ground.environment(self.faults, self.malformed, settings) as env:
                episode = LocalEpisode(env, EpisodeLog(recorder, writer.write if writer else lambda line: None))
                await episode.begin(task, seed)
                self.serving = Serving(episode, line)
                try:
                    await self.serving.run()
                finally:
                    self._say(writer)
                if episode.unwritable is not None:
                    raise episode.unwritable

    def _say(self, writer: TrajectoryWriter | None) -> None:
        if self.end is None:
            return
        reward = "not scored" if self.end.reward is None else f"reward {self.end.reward:.3f}"
        succeeded = {True: "succeeded, ", False: "did not succeed, ", None: ""}[self.end.succeeded]
        where = f"; {writer.path}" if writer else ""
        line = f"{self.parameters['task']}: {self.end.outcome} ({self.end.end_cause}), {succeeded}{reward}, {self.end.steps} steps{where}"
        stderr().print(line, markup=False)
