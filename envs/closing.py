"""The end of an episode: the last look at its state, and the verdict on it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from wardian.envs.ending import Ending
from wardian.envs.episode import Episode
from wardian.envs.judge import judge
from wardian.envs.task import Task
from wardian.envs.verifier import FinalState, Verdict
from wardian.sandbox.changes import files_between, rows_between
from wardian.sandbox.database.base import FrozenDatabase
from wardian.sandbox.errors import CellDied, DeathCause, FileProblem
from wardian.sandbox.files import FileChange, FileChanges, FileKind

MakeStart: TypeAlias = Callable[[Task], AbstractContextManager[FrozenDatabase]]
EVIDENCE_CAP_BYTES = 4 << 20
"""A file that is longer is no evidence."""


async def last_look(episode: Episode) -> None:
    """See what processes that the agent left running did to files since the last call.

    A cell that the agent killed is not looked at again: what was last seen of its files stands.

    Raises:
        SandboxError: the cell is lost through us.
    """
    if episode.world.cell is None or not episode.used_cell:
        return
    try:
        await episode.world.refresh_files()
    except CellDied as death:
        if death.cause is not DeathCause.POLICY:
            raise
        episode.lose_cell(death)


async def verdict_of(episode: Episode, ending: Ending, deadline_s: float, start: MakeStart) -> Verdict:
    """Freeze the final state and let the family judge it. `start` makes the database at the start of an episode of a task.

    Raises:
        VerifierBroken: there is no verdict.
        SandboxError: the state could not be read.
    """
    live = episode.world.database
    database = live.freeze() if live else None
    state = await _final_state(episode, ending, database)
    if database is not None:
        state = replace(state, start=partial(start, episode.task))
    return await judge(episode.family, state, live.fingerprint() if live else None, deadline_s)


async def _final_state(episode: Episode, ending: Ending, database: FrozenDatabase | None) -> FinalState:
    files = _file_changes(episode)
    episode.record_changes()
    return FinalState(
        task=episode.task,
        database=database,
        changes=rows_between(episode.start_rows, episode.world.database.changes_since_start()) if episode.world.database else (),
        files=files,
        file_contents=await _evidence(episode, files),
        events=tuple(episode.log),
        ended_by=ending.cause,
        agent_changes=episode.ledger.by_agent(),
        background=tuple(episode.background),
        answer=episode.answer,
    )


def _file_changes(episode: Episode) -> FileChanges:
    found = files_between(episode.start_files, episode.world.files.changes)
    return FileChanges({path: change or FileChange(None) for path, change in found.items()})


async def _evidence(episode: Episode, files: FileChanges) -> dict[str, bytes]:
    """Bytes of the changed files that the family asked for. Never through a link, never a part of a file."""
    contents: dict[str, bytes] = {}
    for path in episode.family.evidence_files:
        change = files.changes.get(path)
        if change is None or change.kind is not FileKind.FILE or episode.world.cell is None:
            continue
        try:
            found = await episode.world.cell.read_file(path, max_bytes=EVIDENCE_CAP_BYTES)
        except FileProblem:
            continue  # unreadable is the agent's doing, and no evidence
        except CellDied as death:
            if death.cause is not DeathCause.POLICY:
                raise
            episode.lose_cell(death)
            continue
        if found.size_bytes <= EVIDENCE_CAP_BYTES:
            contents[path] = found.data
    return contents
