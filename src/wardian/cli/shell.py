"""`wardian shell`: a person in the world as it was after a step of a recorded episode."""

import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn, Protocol, TypeVar

import typer
from anyio.from_thread import BlockingPortal, start_blocking_portal

from wardian.cli import database, grounds, options
from wardian.cli.console import errors_end_the_command, find_modules_here, log_to, stderr, visible
from wardian.cli.grounds import Where
from wardian.cli.prompts import ShellPrompt, SqlPrompt
from wardian.envs.taskfile.opening import kept_copy
from wardian.rollouts.actions import action_text
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.moments import Stop, standing_at, stop_at
from wardian.rollouts.replay import Replay
from wardian.rollouts.trajectory import TrajectoryLog
from wardian.sandbox.session import ShellSession
from wardian.sandbox.world import World

ACTION_CHARS = 100
T = TypeVar("T")


def register(app: typer.Typer) -> None:
    """Add this module's command to `app`."""
    app.command()(shell)


def shell(
    where: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that `wardian run --out` made, or one of its files.")],
    episode: Annotated[str, typer.Argument(help="Id of an episode, the end of one, or its number.")],
    step: Annotated[int | None, typer.Option(min=0, help="After which step; 0 is right after the reset. Default: the end.")] = None,
    sql: Annotated[bool, typer.Option("--sql", help="A prompt for read-only SQL on the world's database.")] = False,
    tier: options.TierName = "auto",
    image: grounds.Image = None,
    db: grounds.Engine = None,
    db_url: database.Url = None,
    force: grounds.Force = False,
) -> None:
    """Enter the world as it was after a step: a shell in the cell as the agent's user, or SQL on its database.

    The episode is run again up to that step and compared on the way. What is piped in is run as one script, whose exit code is the
    command's. Nothing that is done here is kept.
    """
    log_to(stderr())
    find_modules_here()
    with errors_end_the_command(), _signals_leave(), start_blocking_portal() as portal:
        log = TrajectoryLog.open(where)
        stop = stop_at(log, episode, step, "--step")
        with portal.wrap_async_context_manager(_scene(log, stop, Where(tier, image, db, db_url, kept_copy(where)), force)) as scene:
            prompt = scene.prompt(sql)
            scene.introduce(prompt)
            code = _converse(portal, prompt) if sys.stdin.isatty() else _run_piped(portal, prompt, sys.stdin.read())
    raise typer.Exit(code)


class Prompt(Protocol):
    """What a person types to."""

    hint: str
    """One line on how it is used."""

    @property
    def ready(self) -> str:
        """What stands before the next line."""

    async def is_incomplete(self, text: str) -> bool:
        """Whether more lines belong to it."""

    async def run(self, text: str) -> "tuple[int, bool]":
        """Run it and print what it gives; its exit code, and whether the person has left."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A world as it stands at a moment."""

    stop: Stop
    world: World
    tables: dict[str, list[str]]
    """Columns by table."""
    tier: str
    inexact: int

    def prompt(self, sql: bool) -> Prompt:
        """What was asked for.

        Raises:
            UsageProblem: this world has no such thing.
        """
        if sql:
            if self.world.database is None:
                raise UsageProblem("--sql: this world has no database")
            return SqlPrompt(self.world.database, self.tables)
        if self.world.cell is None:
            raise UsageProblem(
                "shell: there is no cell at this step: the world has none, or its agent ended it; --sql looks at the database"
            )
        try:
            return ShellPrompt(ShellSession(self.world.cell), self.stop.step)
        except ValueError as problem:
            raise UsageProblem(f"{problem}; --sql looks at the database") from problem

    def introduce(self, prompt: Prompt) -> None:
        """Say on stderr where the person is."""
        start, console = self.stop.attempt.start, stderr()
        assert start is not None, "only started attempts are selected"
        last = action_text(self.stop.attempt.steps[self.stop.step - 1].action, ACTION_CHARS) if self.stop.step else "the reset"
        now = datetime.fromtimestamp(self.world.clock.now_ms / 1000, UTC).isoformat(timespec="seconds")
        lines = [
            f"{self.stop.label}, after {last}",
            f"task {start.task_id}, policy {start.policy}; tier {self.tier}; world time {now}",
            "Rows and files are as they were then; processes of that time are not alive. Nothing that you do here is kept.",
            prompt.hint,
        ]
        if self.inexact:
            lines.insert(2, f"inexact: {self.inexact} steps up to here had an outcome of the machine's; files may be other than they were")
        for line in lines:
            console.print(visible(line), style="dim", markup=False)


@asynccontextmanager
async def _scene(log: TrajectoryLog, stop: Stop, where: Where, force: bool) -> AsyncIterator[Scene]:
    async with (
        where.open([stop.attempt], cells=1) as ground,
        standing_at(Replay(log, ground, force), stop) as (env, replayed),
    ):
        tables = {table.name: [column.name for column in table.columns] for table in ground.world.template.metadata.sorted_tables}
        yield Scene(stop, env.live, tables, ground.tier.value if ground.tier else "no cell", replayed.inexact)


def _run_piped(portal: BlockingPortal, prompt: Prompt, text: str) -> int:
    return _interruptible(portal, prompt.run, text)[0] if text.strip() else 0


def _converse(portal: BlockingPortal, prompt: Prompt) -> int:
    """Read lines and run them until the person leaves; Ctrl-C ends what runs, Ctrl-D leaves."""
    import readline  # noqa: F401 - editing and history in `input`, for this session alone

    code, text = 0, ""
    while True:
        try:
            text += input("> " if text else prompt.ready)
            if not text.strip():
                text = ""
            elif _interruptible(portal, prompt.is_incomplete, text):
                text += "\n"
            else:
                whole, text = text, ""
                code, left = _interruptible(portal, prompt.run, whole)
                if left:
                    return code
        except KeyboardInterrupt:
            code, text = 128 + signal.SIGINT, ""
            print("^C")
        except EOFError:
            print()
            return code


def _interruptible(portal: BlockingPortal, work: Callable[[str], Awaitable[T]], text: str) -> T:
    """Run `work` in the event loop; Ctrl-C cancels it."""
    future: Future[T] = portal.start_task_soon(work, text)
    try:
        return future.result()
    except KeyboardInterrupt:
        future.cancel()
        raise


@contextmanager
def _signals_leave() -> Iterator[None]:
    """SIGTERM, and SIGINT that nothing else takes, end the command by way of its teardown."""
    before = signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(128 + signal.SIGINT) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _leave(number: int, _: FrameType | None) -> NoReturn:
    raise typer.Exit(128 + number)
