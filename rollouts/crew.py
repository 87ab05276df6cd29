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

from wardian.rollouts.errors import RolloutError
from wardian.rollouts.plan import Planned
from wardian.rollouts.records import ADAPTER, EpisodeEnd, Json
from wardian.rollouts.resume import is_final, next_file, played
from wardian.rollouts.summary import Tally

RESTARTS = 10
"""Of one place in the crew; a worker that dies more often is not killed by chance."""
AHEAD = 2
"""Episodes that wait in a worker, so that its cells do not."""
LINE_BYTES = 64 << 20
STOP_S = 30.0


class CrewLost(RolloutError):
    """A worker's place could not be kept."""


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
    """Of the workers' pools; of a worker that died there are none."""
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
            CrewLost: a worker died again and again.
        """
        self._todo.extend(episodes)
        try:
            async with anyio.create_task_group() as group:
                for place in range(min(self.workers, len(episodes))):
                    group.start_soon(self._keep, place)
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        return self.tally

    def interrupt(self) -> None:
        """Have every worker give its episodes up; `run` returns once they have said what they wrote."""
        self.interrupted = True
        for process in self._living:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)

    async def _keep(self, place: int) -> None:
        """Keep one worker at work until there is none left."""
        mine: dict[str, Planned] = {}
        for _ in range(RESTARTS):
            if self.interrupted or not (self._todo or mine):
                return
            code = await self._employ(place, mine)
            if code == 0:
                return
            if code > 0:
                raise CrewLost(f"worker {place}: ended with exit code {code}; what it said stands above")
            self.lost += 1
        raise CrewLost(f"worker {place}: died {RESTARTS} times; run with --workers 1 to see why")

    async def _employ(self, place: int, mine: dict[str, Planned]) -> int:
        """Start a worker and talk to it to its end; gives 0 when it finished, its exit code, or minus the signal that ended it.

        What it left undone stands in `mine`.
        """
        cells = max(1, self.cells // self.workers + (place < self.cells % self.workers))
        file = next_file(self.out, f"worker-{place}") if self.out else None
        if file is not None:
            file.touch()
        command = [sys.executable, "-m", "wardian.cli", "work"]
        process = await anyio.open_process(command, stdin=PIPE, stdout=PIPE, stderr=None if sys.stderr else DEVNULL, start_new_session=True)
        self._living.add(process)
        try:
            await self._say(process, {**self.order, "cells": cells, "file": str(file) if file else None, "worker": f"{place}: {file}"})
            for planned in mine.values():
                await self._give(process, planned)
            if await self._listen(process, mine, cells + AHEAD):
                return 0
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, BrokenPipeError):
            pass
        finally:
            self._living.discard(process)
            with anyio.CancelScope(shield=True):
                await _end(process)
            if file is not None:
                self._look_up(file, mine)
        return process.returncode or -signal.SIGKILL  # one that ended well without its last message lost it

    async def _listen(self, process: Process, mine: dict[str, Planned], most: int) -> bool:
        assert process.stdout is not None
        lines, finishing = BufferedByteReceiveStream(process.stdout), False
        while True:
            while not finishing and not self.interrupted and len(mine) < most and self._todo:
                planned = self._todo.popleft()
                mine[planned.episode_id] = planned
                await self._give(process, planned)
            if not finishing and not mine and not self.interrupted:
                finishing = True
                await self._say(process, {"finish": True})
            try:
                message = json.loads(await lines.receive_until(b"\n", LINE_BYTES))
            except (anyio.IncompleteRead, anyio.EndOfStream, ValueError):
                return False
            if "start_ms" in message:
                self.tally.starts_ms.append(message["start_ms"])
            elif "end" in message:
                end = ADAPTER.validate_python(message["end"])
                assert isinstance(end, EpisodeEnd)
                self._take(end, mine)
            else:
                self.statistics.append(message["statistics"])
                self.tier = message["tier"]
                self.tally.starts_leaked += message["starts_leaked"]
                return True

    def _take(self, end: EpisodeEnd, mine: dict[str, Planned]) -> None:
        self.tally.add(end)
        self.watch(end)
        if is_final(end):
            mine.pop(end.episode_id, None)

    def _look_up(self, file: Path, mine: dict[str, Planned]) -> None:
        """Take from a worker's file what it did not say; what it left undone begins with the next attempt. An empty file goes."""
        if not file.stat().st_size:
            file.unlink()
            return
        found = played([file]) if mine else None
        if found is None:
            return
        for name, end in found.final.items():
            if name in mine:
                self._take(end, mine)
        for name, planned in mine.items():
            mine[name] = replace(planned, first_attempt=max(planned.first_attempt, found.attempts.get(name, 0) + 1))

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
