"""An episode goes on from a snapshot: cell and database in the state that was sealed, and proved, and everything else as it was."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread

from wardian.envs.changes import Ledger
from wardian.envs.episode import Episode
from wardian.envs.snapshot import Snapshot
from wardian.sandbox.database.base import FrozenDatabase, Template, WorldDatabase
from wardian.sandbox.errors import LeakDetected
from wardian.sandbox.files import FileChanges
from wardian.sandbox.lease import Lease
from wardian.sandbox.world import World
from wardian.tools.events import EventLog
from wardian.tools.replicas import HeldCopy
from wardian.tools.toolbox import Toolbox

Made = TypeVar("Made")


async def restored(
    template: Template, snapshot: Snapshot, lease: Lease | None, used: bool, held: ExitStack
) -> tuple[WorldDatabase, tuple[FrozenDatabase, ...]]:
    """Bring the leased cell into the snapshot's state, and beside it make the database; what was made is closed by `held`.

    `used`: an episode was in the cell since it was handed out.

    Raises:
        LeakDetected: what was made is not what was sealed.
        SandboxError: the infrastructure failed.
    """
    made: list[tuple[WorldDatabase, tuple[FrozenDatabase, ...]]] = []

    async def cell() -> None:
        files = snapshot.sealed_files
        if lease is not None and (used or (files is not None and not files.empty)):
            lease.receipt = await lease.cell.restore(files)

    async def database() -> None:
        sealed = snapshot.database
        assert sealed is not None, "every world of an environment has a database"
        found, copies = await unblocked(template, partial(template.restore, sealed))
        held.callback(found.close)
        for copy in copies:
            held.callback(copy.close)
        made.append((found, copies))

    await all_of(cell, database)
    return made[0]


async def unblocked(template: Template, work: Callable[[], Made]) -> Made:
    """Run what makes a database of `template`, in a thread where that blocks."""
    if not template.blocks:
        return work()
    # A thread beyond those that all share: clones may wait for others to end, which needs threads too.
    return await anyio.to_thread.run_sync(work, limiter=anyio.CapacityLimiter(1))


async def all_of(*works: Callable[[], Awaitable[object]]) -> None:
    """Run all at once; the first error, as it is, after all have ended."""
    errors: list[Exception] = []

    async def one(work: Callable[[], Awaitable[object]]) -> None:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - raised again below, and not in a group
            errors.append(error)

    async with anyio.create_task_group() as group:
        for work in works:
            group.start_soon(one, work)
    if errors:
        raise errors[0]


async def go_on(
    world: World, toolbox: Toolbox, snapshot: Snapshot, copies: Sequence[FrozenDatabase], found_files: FileChanges | None
) -> None:
    """Bring everything else to where it was, and prove the whole state. `found_files`: what the cell has found changed when it laid them.

    Raises:
        LeakDetected: it has another fingerprint than the snapshot; names what differs.
        SandboxError: the cell is lost.
    """
    world.resume(snapshot.clock_ms, snapshot.streams, snapshot.memory, found_files or FileChanges({}))
    held = [HeldCopy(copy, step, copy.fingerprint().root) for copy, step in zip(copies, snapshot.copy_steps, strict=True)]
    toolbox.adopt(held)
    if found_files is None:
        await world.refresh_files()
    found = world.fingerprint()
    if found.root != snapshot.fingerprint.root:
        raise LeakDetected(f"snapshot of {snapshot.task_id} at step {snapshot.step}", found.differences(snapshot.fingerprint))


def remember(episode: Episode, snapshot: Snapshot) -> None:
    """Give an episode the past of the one that the snapshot was taken of."""
    past = snapshot.past
    episode.start_rows, episode.start_files = past.start_rows, past.start_files
    episode.start_fingerprint, episode.schema_tokens = past.start_fingerprint, past.schema_tokens
    episode.log, episode.background, episode.ledger = EventLog(past.log), list(past.background), Ledger.of(past.ledger)
    episode.step, episode.spent, episode.seen, episode.used_cell = snapshot.step, snapshot.spent, past.observation, past.used_cell
    episode.answer, episode.ended = past.answer, past.ended
