"""What commands share: where text goes, how errors end a command, and how signals reach a run.

Results go to stdout, everything else to stderr. Exit codes: 0 it worked, 1 it did not, 2 it was asked for wrongly, 130 and 143 it was
interrupted.
"""

import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import typer
from anyio.abc import TaskStatus
from rich.console import Console

from wardian.envs.errors import TaskError
from wardian.rollouts.errors import LogForeign, RolloutError, UsageProblem
from wardian.rollouts.lines import well_formed
from wardian.rollouts.trajectory import damage
from wardian.sandbox.errors import ImageUnfit, ImportRefused, SandboxError


def stderr() -> Console:
    """The console for progress, notes and errors."""
    return Console(stderr=True, soft_wrap=True, highlight=False)


@contextmanager
def errors_end_the_command() -> Iterator[None]:
    """Turn what this package raises on purpose into one line on stderr and an exit code."""
    try:
        yield
    except (UsageProblem, TaskError, LogForeign, ImageUnfit, ImportRefused) as error:
        raise _exit(error, 2) from error
    except (RolloutError, SandboxError) as error:
        raise _exit(error, 1) from error


def _exit(error: Exception, code: int) -> typer.Exit:
    stderr().print(str(error), style="red", markup=False)
    return typer.Exit(code)


def folder(text: str) -> Path:
    """The folder that an option names; an empty text is no name of the folder one is in.

    Raises:
        typer.BadParameter: it is empty.
    """
    if not text:
        raise typer.BadParameter("out: is empty; name a folder, or leave the option out")
    return Path(text)


def say_damage(console: Console, where: Path) -> None:
    """Warn on `console` where `wardian validate` would refuse the log.

    Raises:
        LogBroken: it cannot be read at all.
    """
    if (wrong := damage(where)) is not None:
        text = f"warning: this log is damaged: {wrong} (`wardian validate` names all)"
        console.print(well_formed(text), style="yellow", markup=False)


def find_modules_here() -> None:
    """Let `package.module:function` name modules of the working directory too. Last, so that a folder there hides nothing."""
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)


def log_to(console: Console, told: str = "") -> None:
    """Show warnings of the package on `console`, one line each; a traceback is cut to what was raised.

    `told` is the logger whose warnings the command's own results tell.
    """
    handler = _Lines(console)
    handler.addFilter(_one_line)
    handler.addFilter(lambda record: record.name != told)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler], force=True)


class _Lines(logging.Handler):
    """One line for each record, however long it is: it can be searched and copied."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        style = "red" if record.levelno >= logging.ERROR else "yellow"
        self._console.print(f"{record.levelname:<8} {' '.join(record.getMessage().split())}", style=style, markup=False)


def _one_line(record: logging.LogRecord) -> bool:
    if record.exc_info and record.exc_info[1] is not None:
        raised = record.exc_info[1]
        record.msg, record.args = f"{record.getMessage()}: {type(raised).__name__}: {raised}", ()
    record.exc_info = None
    return True


def run_until_signal(work: Callable[[], Awaitable[None]], interrupt: Callable[[], bool] = lambda: False) -> int:
    """Run `work` in an event loop; gives the number of the SIGINT or SIGTERM that ended it, or 0.

    The first signal calls `interrupt`, which says whether `work` will end by itself; if not, or at a second signal, it is
    cancelled. Teardown that is shielded is finished either way. What `work` raises arrives as it is.
    """
    return anyio.run(_run_until_signal, work, interrupt)


async def _run_until_signal(work: Callable[[], Awaitable[None]], interrupt: Callable[[], bool]) -> int:
    got = 0
    failure: Exception | None = None
    async with anyio.create_task_group() as group:

        async def listen(*, task_status: TaskStatus[None]) -> None:
            nonlocal got
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                task_status.started()
                async for number in signals:
                    again, got = bool(got), int(number)
                    if again or not interrupt():
                        group.cancel_scope.cancel()

        await group.start(listen)
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - carried out of the task group, which would wrap it
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return got


def visible(text: str) -> str:
    """`text` for a terminal: what an agent wrote must not move the cursor or command the terminal. Line ends and tabs stay."""
    return "".join(one if one in "\n\t" or one.isprintable() else one.encode("unicode_escape", "backslashreplace").decode() for one in text)
