"""Worker processes that play the episodes of one run, and whoever hands the episodes out.

    parent ── one JSON line for each message ──► worker (`wardian work`): its order, episodes, `finish`
           ◄── starts, ends, statistics ──────

A worker holds nothing that is not in its file or its messages. One that dies loses its cells with its connection to the engine; its
unfinished episodes go to the worker that takes its place, and what it finished without saying so is found in its file. So nothing is lost
or played twice. A worker whose standard input ends without `finish` gives its episodes up: its parent is gone.
"""

import contextlib
import json
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from subprocess import DEVNULL, PIPE

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from wardian.rollouts.errors import RolloutError, UsageProblem
from wardian.rollouts.folder import next_file
from wardian.rollouts.plan import Planned
from wardian.rollouts.records import ADAPTER, EpisodeEnd, Json
from wardian.rollouts.resume import is_final, played
from wardian.rollouts.summary import Tally

IN_VAIN = 10
"""Workers of one place that may die in a row without an episode done; more do not die by chance."""
AHEAD = 2
"""Episodes that wait in a worker, so that its cells do not."""
LINE_BYTES = 64 << 20
STOP_S = 30.0


class CrewLost(RolloutError):
    """A worker's place could not be kept."""


class CrewRefused(CrewLost, UsageProblem):
    """A worker was asked for what there is not, and said so."""


@dataclass(slots=True)
class Place:
    """One place in the crew: a worker, and after its death the next one."""

    number: int
    mine: dict[str, Planned] = field(default_factory=dict)
    """Episodes that were handed to it and have no final end."""
    done: int = 0
    """Episodes that were played to their end here."""
    restores_ms: list[float] = field(default_factory=list)
    """Of the living worker, which has not said its statistics yet."""


@dataclass(slots=True)
class Crew:
    """Plays a list of episodes by `workers` processes. `run` once; `interrupt` from the same event loop."""

    order: Mapping[str, Json]
    """What a worker must know to play: parameters, run id."""
    workers: int
    cells: int
    """Of all workers together; each has at least one."""
    out: Path | None
    watch: Callable[[EpisodeEnd], None]
    tally: Tally = field(default_factory=Tally)
    statistics: list[dict[str, Json]] = field(default_factory=list)
    """Of the workers' pools; of a worker that died there are none, and the resets of its episodes stand in the tally."""
    lost: int = 0
    """Workers that died."""
    tier: str | None = None
    """The restore tier of their cells."""
    interrupted: bool = False
    _todo: deque[Planned] = field(default_factory=deque)
    _living: set[Process] = field(default_factory=set)

    async def run(self, episodes: Sequence[Planned]) -> Tally:
        """Play all.

        Raises:
            CrewLost: a worker died again and again, or said that it cannot play.
        """
        self._todo.extend(episodes)
        try:
            async with anyio.create_task_group() as group:
                for number in range(min(self.workers, len(episodes))):
                    group.start_soon(self._keep, Place(number))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        return self.tally

    def interrupt(self) -> None:
        """Have every worker give its episodes up; `run` returns once they have said what they wrote."""
        self.interrupted = True
        for process in self._living:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)

    async def _keep(self, place: Place) -> None:
        """Keep one worker at work until there is nothing left to play."""
        in_vain = 0
        while (self._todo or place.mine) and not self.interrupted:
            if in_vain == IN_VAIN:
                raise CrewLost(f"worker {place.number}: died {IN_VAIN} times without an episode done; run with --workers 1 to see why")
            before = place.done
            code = await self._employ(place)
            if code > 0 and not self.interrupted:
                error = CrewRefused if code == 2 else CrewLost
                raise error(f"worker {place.number}: ended with exit code {code}; what it said stands above")
            if place.mine and not self.interrupted:
                self.lost += 1
                in_vain = 0 if place.done > before else in_vain + 1

    async def _employ(self, place: Place) -> int:
        """Start a worker and talk to it to its end; gives its exit code, or minus the signal that ended it.

        What it left undone stands in `place.mine`.
        """
        cells = max(1, self.cells // self.workers + (place.number < self.cells % self.workers))
        file = next_file(self.out, f"worker-{place.number}") if self.out else None
        command = [sys.executable, "-m", "wardian.cli", "work"]
        process = await anyio.open_process(command, stdin=PIPE, stdout=PIPE, stderr=None if sys.stderr else DEVNULL, start_new_session=True)
        self._living.add(process)
        try:
            name = f"{place.number}: {file.name if file else ''}"
            await self._say(process, {**self.order, "cells": cells, "file": str(file) if file else None, "worker": name})
            for planned in place.mine.values():
                await self._give(process, planned)
            await self._listen(process, place, cells + AHEAD)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, BrokenPipeError):
            pass
        finally:
            self._living.discard(process)
            with anyio.CancelScope(shield=True):
                await _end(process)
            if file is not None and file.exists():
                self._look_up(file, place)
            self.tally.restores_ms += place.restores_ms
            place.restores_ms = []
        return process.returncode or 0

    async def _listen(self, process: Process, place: Place, most: int) -> None:
        """Hand episodes out and take what comes back, until the worker has said its last or is dead."""
        assert process.stdout is not None
        lines, finishing = BufferedByteReceiveStream(process.stdout), False
        while True:
            while not finishing and not self.interrupted and len(place.mine) < most and self._todo:
                planned = self._todo.popleft()
                place.mine[planned.episode_id] = planned
                await self._give(process, planned)
            if not finishing and not place.mine and not self.interrupted:
                finishing = True
                await self._say(process, {"finish": True})
            try:
                message = json.loads(await lines.receive_until(b"\n", LINE_BYTES))
            except (anyio.IncompleteRead, anyio.EndOfStream, ValueError):
                return
            if "start_ms" in message:
                self.tally.begin(message["episode"], message["start_ms"])
                place.restores_ms += [] if message["restore_ms"] is None else [message["restore_ms"]]
            elif "end" in message:
                end = ADAPTER.validate_python(message["end"])
                assert isinstance(end, EpisodeEnd)
                self._take(end, place)
            else:
                self.statistics.append(message["statistics"])
                self.tier = message["tier"]
                self.tally.starts_leaked += message["starts_leaked"]
                place.restores_ms = []
                return

    def _take(self, end: EpisodeEnd, place: Place) -> None:
        self.tally.add(end)
        self.watch(end)
        if is_final(end) and end.episode_id in place.mine:
            del place.mine[end.episode_id]
            place.done += 1

    def _look_up(self, file: Path, place: Place) -> None:
        """Take from a worker's file what it did not say; what it left undone begins with the next attempt. An empty file goes."""
        if not file.stat().st_size:
            file.unlink()
            return
        found = played([file]) if place.mine else None
        if found is None:
            return
        for name, end in found.final.items():
            if name in place.mine:
                self._take(end, place)
        for name, planned in place.mine.items():
            if name in found.attempts:
                self.tally.unfinished.add(name)
            place.mine[name] = replace(planned, first_attempt=max(planned.first_attempt, found.attempts.get(name, 0) + 1))

    async def _give(self, process: Process, planned: Planned) -> None:
        await self._say(process, {"episode": planned.episode_id, "first_attempt": planned.first_attempt})

    @staticmethod
    async def _say(process: Process, message: Mapping[str, Json]) -> None:
        assert process.stdin is not None
        await process.stdin.send(json.dumps(message).encode() + b"\n")


async def _end(process: Process) -> None:
    """Wait for a worker that was told to end, or is dead; kill it where it does not."""
    if process.stdin is not None:
        await process.stdin.aclose()
    with anyio.move_on_after(STOP_S):
        await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()
    if process.stdout is not None:
        await process.stdout.aclose()
