"""A snapshot is taken: everything that an episode's later course depends on, at one boundary between two steps."""

import json
from collections.abc import Mapping

from wardian.envs.episode import Episode
from wardian.envs.snapshot import Past, Snapshot
from wardian.sandbox.errors import SnapshotTooLarge
from wardian.sandbox.sealed import SealedFiles


async def take(episode: Episode, versions: Mapping[str, str], most_bytes: int) -> Snapshot:
    """Take a snapshot of `episode`, which nobody steps meanwhile. The episode is as before, whatever comes of it.

    Raises:
        SnapshotTooLarge: files and database would be more than `most_bytes`.
        SnapshotRefused: a file cannot be read as it is now.
        SandboxError: the cell is lost.
    """
    world, older = episode.world, episode.toolbox.older
    files = await _files(episode, most_bytes)
    database = world.database.seal([copy.database for copy in older]) if world.database else None
    snapshot = Snapshot(
        task_id=str(episode.task.id),
        seed=episode.seed,
        step=episode.step,
        epoch=episode.epoch,
        fingerprint=world.fingerprint(),
        template_key=database.template_key if database else "",
        rows=world.database.changes_since_start() if world.database else (),
        files=dict(world.files.changes),
        clock_ms=world.clock.now_ms,
        streams=world.streams.positions(),
        memory=json.loads(world.memory.dump()),
        spent=episode.spent,
        past=_past(episode),
        versions=versions,
        database=database,
        copy_steps=tuple(copy.step for copy in older),
        sealed_files=files,
    )
    if snapshot.held_bytes > most_bytes:
        raise SnapshotTooLarge(f"a snapshot of {episode.task.id} would hold {snapshot.held_bytes} bytes, and {most_bytes} are allowed")
    return snapshot


async def _files(episode: Episode, most_bytes: int) -> SealedFiles | None:
    if episode.world.cell is None:
        return None
    files = await episode.world.cell.seal_files(most_bytes)
    if files.left_out.processes:  # they may have written since the last call
        await episode.world.refresh_files()
    return files


def _past(episode: Episode) -> Past:
    return Past(
        observation=episode.seen,
        log=tuple(episode.log),
        background=tuple(episode.background),
        ledger=episode.ledger.rows(),
        start_rows=episode.start_rows,
        start_files=episode.start_files,
        start_fingerprint=episode.start_fingerprint,
        schema_tokens=episode.schema_tokens,
        answer=episode.answer,
        used_cell=episode.used_cell,
        ended=episode.ended,
        lost=episode.lost,
    )
