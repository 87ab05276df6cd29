"""The start of an episode: proof that the world is untouched, then the task's own rows and files; and what is told about it."""

from dataclasses import dataclass

from blake3 import blake3
from sqlalchemy import MetaData
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from wardian.envs.errors import SetupRefused, TaskError
from wardian.envs.task import Task, TaskId
from wardian.sandbox.cell import ResetReceipt
from wardian.sandbox.database.base import QueryLimits, RowChange, WorldDatabase
from wardian.sandbox.errors import DatabaseProblem, FileProblem, LeakDetected
from wardian.sandbox.files import FileKind
from wardian.sandbox.fingerprint import Fingerprint
from wardian.sandbox.world import World


@dataclass(frozen=True, slots=True)
class ResetInfo:
    """For the trajectory: how an episode began."""

    task: Task
    seed: int
    receipt: ResetReceipt | None
    """Proof of the cell's reset; `None` when the world needs no cell."""
    agent_uid: int | None
    """The agent's user in that cell."""
    template_key: str
    fingerprint: Fingerprint
    """The whole state right after the task's rows and files went in."""
    schema_tokens: int
    """Tokens of the tool schemas; with those of the first observation they are the prompt, which the budget counts."""
    leaks: tuple[tuple[str, ...], ...]
    """For each try that was thrown away before this start: the first differences."""
    resumed_step: int
    """Steps that were taken before this episode began from a snapshot of another one; 0 for one that began with a reset."""
    total_ms: float
    """Wall time of the reset, waiting for a free cell included."""


SETUP = QueryLimits(time_s=20.0, steps=400_000_000, changes=1_000_000)
"""Of one statement of a task's setup."""


def stream_seed(task_id: TaskId, episode_seed: int) -> int:
    """The seed of an episode's random streams."""
    return int.from_bytes(blake3(f"{task_id}\x00{episode_seed}".encode()).digest()[:8], "big")


def insert_rows(database: WorldDatabase, metadata: MetaData, task: Task) -> tuple[RowChange, ...]:
    """Add the rows of `task` and run its setup in one transaction; gives the changes that it made.

    Raises:
        SetupRefused: a statement of its setup is refused.
        TaskError: the world has no such table, or refuses a row; or rows of one table have different columns.
    """
    unknown = sorted(set(task.rows) - set(metadata.tables))
    if unknown:
        raise TaskError(f"rows: {task.id} adds to {', '.join(unknown)}; the world has {', '.join(metadata.tables)}")
    for table, rows in task.rows.items():  # inserted together, they would all get the first one's columns
        if len({frozenset(row) for row in rows}) > 1:
            raise TaskError(f"rows: those that {task.id} adds to {table} have different columns; give each row all of them")
    try:
        with database.transaction() as session:
            for table, rows in task.rows.items():
                if rows:
                    session.execute(metadata.tables[table].insert(), [dict(row) for row in rows])
            for sql in task.setup:
                _set_up(database, session, sql)
    except (DatabaseProblem, SQLAlchemyError) as error:
        raise TaskError(f"rows: the world's database refuses those of {task.id}: {error}") from error
    return database.take_changes()


def _set_up(database: WorldDatabase, session: Session, sql: str) -> None:
    try:
        database.execute(session, sql, SETUP)
    except DatabaseProblem as problem:
        raise SetupRefused(f"setup: {' '.join(sql.split())[:200]}: {problem}") from problem


async def place_files(world: World, task: Task) -> None:
    """Write the files of `task`, and look that nothing else in the cell differs from its start.

    Raises:
        TaskError: the files cannot be written.
        LeakDetected: the cell holds a change that is not of this task.
    """
    assert world.cell is not None, "a world without a cell has no place for files"
    if not task.files.entries:
        return  # the cell's receipt proves that nothing is written yet
    try:
        await world.cell.write_files(task.files, world.clock.now)
    except FileProblem as error:
        raise TaskError(f"files: those of {task.id} cannot be written: {error}") from error
    found = (await world.refresh_files()).changes
    # A folder above a task's file is new or touched; every other path must be as it was.
    foreign = {
        path: change
        for path, change in found.items()
        if path not in task.files.entries
        and not (change.kind is FileKind.DIRECTORY and any(entry.startswith(f"{path}/") for entry in task.files.entries))
    }
    if foreign:
        raise LeakDetected("files", tuple(f"{path}: {change}" for path, change in sorted(foreign.items())))
