"""`wardian work`: one worker of a run, started by `wardian run --workers`; see `wardian.rollouts.crew`."""

import asyncio
import json
import os
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TextIO

import anyio
import typer
from anyio.streams.memory import MemoryObjectSendStream

from wardian.cli import database
from wardian.cli.console import errors_end_the_command, find_modules_here, log_to, run_until_signal, stderr
from wardian.cli.run import Order, order_of
from wardian.rollouts.errors import RolloutError
from wardian.rollouts.ground import open_ground
from wardian.rollouts.plan import Planned
from wardian.rollouts.policies.lifetime import opened
from wardian.rollouts.recording import log_at
from wardian.rollouts.records import EpisodeEnd, EpisodeStart, Json
from wardian.rollouts.resume import restore_ms
from wardian.rollouts.runner import EpisodePool

LINE_BYTES = 1 << 24
LOOK_S = 1.0
GRACE_S = 20.0
"""For giving episodes up and letting cells go."""
ORPHANED = "worker: the process of its run is gone, so it gives its episodes up; what is written stands, and the same command goes on"


def register(app: typer.Typer) -> None:
    """Add this module's command to `app`."""
    app.command(hidden=True)(work)


def work() -> None:
    """Play episodes that come on stdin, for a run of another process. Not for people."""
    find_modules_here()
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    worker = Worker(_messages())
    with errors_end_the_command():
        run_until_signal(worker.play, worker.interrupt)


def _end_with(parent: int) -> None:
    """End this process some time after its parent, also where a policy never lets its event loop run again."""
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    time.sleep(GRACE_S)
    os._exit(1)


def _messages() -> TextIO:
    """The way to the parent. What policies print goes to stderr."""
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    return out


@dataclass(slots=True)
class Worker:
    out: TextIO
    pool: EpisodePool | None = None
    known: dict[str, Planned] = field(default_factory=dict)
    orphaned: bool = False
    """Whether the parent is gone."""

    def interrupt(self) -> bool:
        """Give running episodes up; gives whether `play` ends by itself then."""
        if self.pool is None:
            return False
        self.pool.interrupt()
        return True

    async def play(self) -> None:
        """Take the order, then play what comes."""
        reader = asyncio.StreamReader(limit=LINE_BYTES)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
        asked = json.loads(await reader.readline() or b"{}")
        if not asked:
            return
        order = order_of(asked["parameters"], None, run=asked["run"])
        log_to(order.progress.console)
        self.known = {planned.episode_id: planned for planned in order.episodes}
        await self._play(order, asked, reader)

    async def _play(self, order: Order, asked: dict[str, Json], reader: asyncio.StreamReader) -> None:
        cells, image = asked["cells"], order.parameters["image"]
        async with open_ground(
            order.world, cells=cells, tier=order.tier, deep_checks=True, image=image, database=database.asked(order.parameters)
        ) as ground:
            setting = order.setting(ground, asked["versions"])
            file = Path(asked["file"]) if asked["file"] else None
            with log_at(file, setting, order.run, {**order.parameters, "worker": asked["worker"]}) as writer:
                pool = self.pool = EpisodePool(ground, setting, writer, order.parameters["attempts"], self._ended, self._begun)
                async with opened(planned.policy for planned in order.episodes):
                    await self._run(pool, reader, cells)
            statistics = asdict(replace(ground.cells.statistics(), leaks=())) if ground.cells else None
            tier = ground.tier.value if ground.tier else None
            self._say({"statistics": statistics, "starts_leaked": pool.tally.starts_leaked, "tier": tier})

    async def _run(self, pool: EpisodePool, reader: asyncio.StreamReader, cells: int) -> None:
        """Play what comes. Raises what the pool raises, as it is."""
        send, receive = anyio.create_memory_object_stream[Planned](float("inf"))
        failure: RolloutError | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._feed, reader, send)
            with receive:
                try:
                    await pool.run(receive, workers=cells)
                except RolloutError as error:  # carried out of the task group, which would wrap it
                    failure = error
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _feed(self, reader: asyncio.StreamReader, send: MemoryObjectSendStream[Planned]) -> None:
        """Pass on what comes. An end without `finish` says that the parent is gone."""
        with send:
            while line := await reader.readline():
                message = json.loads(line)
                if message.get("finish"):
                    return
                planned = self.known[message["episode"]]
                send.send_nowait(replace(planned, first_attempt=message["first_attempt"]))
            self._end_alone()

    def _begun(self, start: EpisodeStart) -> None:
        self._say({"episode": start.episode_id, "start_ms": start.reset_ms, "restore_ms": restore_ms(start)})

    def _ended(self, end: EpisodeEnd) -> None:
        self._say({"end": end.model_dump(mode="json")})

    def _say(self, message: dict[str, Json]) -> None:
        if self.orphaned:
            return
        try:
            self.out.write(json.dumps(message) + "\n")
            self.out.flush()
        except BrokenPipeError:
            self._end_alone()

    def _end_alone(self) -> None:
        """Give running episodes up, once the parent is gone; what is written stands."""
        if self.orphaned:
            return
        self.orphaned = True
        with suppress(OSError):
            self.out.close()  # what it holds could never be sent
        with suppress(OSError):
            stderr().print(ORPHANED, style="yellow", markup=False)
        self.interrupt()
