"""`wardian diff`: what lies between two moments of recorded episodes."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from wardian.cli import database, grounds, options
from wardian.cli.console import errors_end_the_command, find_modules_here, log_to, run_until_signal, stderr, visible
from wardian.cli.grounds import Where
from wardian.envs.diff import FileDiff, Look, StateDiff, between, moment_of
from wardian.envs.saving import MANIFEST, load
from wardian.envs.snapshot import Snapshot
from wardian.envs.taskfile.opening import kept_copy
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.moments import Stop, difference, stop_at
from wardian.rollouts.replay import Replay
from wardian.rollouts.trajectory import TrajectoryLog
from wardian.sandbox.changes import row_line
from wardian.sandbox.differing import Part

SHOWN_LINES = 100
"""Of one file's difference."""


def register(app: typer.Typer) -> None:
    """Add this module's command to `app`."""
    app.command()(diff)


def diff(
    where: Annotated[Path, typer.Argument(metavar="DIR", help="Folder or file of a trajectory, or a saved snapshot.")],
    episode: Annotated[str, typer.Argument(help="Id of an episode, the end of one, or its number; or the other snapshot.")],
    other: Annotated[str | None, typer.Argument(help="Another episode of the same world: compare its moment `--to` then.")] = None,
    begin: Annotated[int | None, typer.Option("--from", min=0, help="Step; 0 is the start. Default: 0; of two episodes the end.")] = None,
    end: Annotated[int | None, typer.Option("--to", min=0, help="Step. Default: the end.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    tier: options.TierName = "auto",
    image: grounds.Image = None,
    db: grounds.Engine = None,
    db_url: database.Url = None,
    force: grounds.Force = False,
) -> None:
    """Say what differs between two moments: rows by table and key, files by path with their text, clock, streams, memory, budgets.

    Moments of an episode are reached by running it again, and every step on the way is compared with the log. Two saved snapshots are
    compared as they are.
    """
    log_to(stderr())
    find_modules_here()
    with errors_end_the_command():
        if (where / MANIFEST).exists():
            if other is not None or begin is not None or end is not None:
                raise UsageProblem(f"OTHER, --from, --to: {where} is a snapshot; give it and another one alone")
            found = between(*(moment_of(_snapshot(path), str(path)) for path in (where, Path(episode))))
        else:
            found = _reached(where, (episode, begin), (other, end), Where(tier, image, db, db_url, kept_copy(where)), force)
    print(json.dumps(found.as_json()) if as_json else visible("\n".join(_lines(found))))


def _snapshot(path: Path) -> Snapshot:
    if not (path / MANIFEST).exists():
        is_run = path.suffix == ".jsonl" or any(path.glob("*.jsonl"))
        what = "that is a run" if is_run else "there is no snapshot"
        raise UsageProblem(f"{path}: {what}; a snapshot is compared with another snapshot, a folder that holds {MANIFEST}")
    return load(path)


def _reached(where: Path, one: tuple[str, int | None], two: tuple[str | None, int | None], on: Where, force: bool) -> StateDiff:
    """Run episodes again up to the two moments; of a second one that is not named it is the first."""
    log = TrajectoryLog.open(where)
    first = stop_at(log, one[0], 0 if one[1] is None and two[0] is None else one[1], "--from")
    last = stop_at(log, two[0] or one[0], two[1], "--to")
    found: list[StateDiff] = []

    async def look() -> None:
        found.append(await _difference(log, first, last, on, force))

    if signal := run_until_signal(look):
        raise typer.Exit(128 + signal)
    return found[0]


async def _difference(log: TrajectoryLog, first: Stop, last: Stop, where: Where, force: bool) -> StateDiff:
    async with where.open([first.attempt, last.attempt], cells=1) as ground:
        return await difference(Replay(log, ground, force), first, last)


def _lines(found: StateDiff) -> Iterator[str]:
    yield f"{found.before} -> {found.after}"
    if found.same:
        yield "the same"
    for change in found.rows:
        yield f"row {row_line(change)}"
    for file in found.files:
        yield from _file(file)
    one, two = found.clock_ms
    if one != two:
        yield f"clock {_instant(one)} -> {_instant(two)}, {(two - one) / 1000:+.3f} s"
    if found.streams:
        yield f"streams that are elsewhere: {', '.join(name for name, _, _ in found.streams)}"
    for name, parts in (("memory", found.memory), ("spent", found.spent)):
        yield from (_part(name, part) for part in parts)


def _part(name: str, part: Part) -> str:
    return f"{name} {part[0]}: {part[1]!r} -> {part[2]!r}"


def _file(file: FileDiff) -> Iterator[str]:
    yield f"file {file.path} {file.change}: {_look(file.before)} -> {_look(file.after)}"
    text = file.text() or []
    yield from (f"  {line}" for line in text[:SHOWN_LINES])
    if len(text) > SHOWN_LINES:
        yield f"  [... {len(text) - SHOWN_LINES} more lines; --json has them]"


def _look(look: Look | None) -> str:
    if look is None:
        return "as at the start"
    entry = look.entry
    if entry is None or entry.kind is None:
        return "nothing"
    digest = f" {entry.content[:12]}" if entry.content else ""
    return f"{entry.kind} {entry.mode:04o} uid {entry.uid}, {entry.size_bytes} bytes{digest}"


def _instant(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
