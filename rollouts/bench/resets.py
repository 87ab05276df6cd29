"""A verified reset, as a lease pays for it.

It begins when an episode gives its cell back, and ends when the next one holds a proven start: the pool's restore (chamber ended,
made, verified), a fresh clone of the template, and the proof that the whole world is as it was sealed. The old clone is closed
within it as well.
"""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

import anyio
from anyio.abc import TaskGroup
from sqlalchemy import MetaData

from wardian.envs.resuming import unblocked
from wardian.rollouts.bench import episodes
from wardian.rollouts.bench.samples import Numbers, Rate, Samples
from wardian.sandbox.cell import ResetReceipt
from wardian.sandbox.database.base import Template
from wardian.sandbox.errors import LeakDetected
from wardian.sandbox.lease import Lease
from wardian.sandbox.pool import CellPool
from wardian.sandbox.world import World

START = datetime(2026, 3, 2, 9, tzinfo=UTC)


@dataclass(slots=True)
class Place:
    """One cell of a pool with the world of its episode."""

    pool: CellPool
    template: Template
    lease: Lease
    world: World
    leaks: int = 0
    """Worlds whose proof failed. Leaks of cells stand in the pool's statistics."""

    @classmethod
    async def take(cls, pool: CellPool, template: Template) -> "Place":
        """Lease a cell and make the first world on it."""
        lease = await pool.acquire()
        return cls(pool, template, lease, World(start=START, seed=0, database=await unblocked(template, template.clone), cell=lease.cell))

    async def reset(self, parts: "Parts | None" = None) -> None:
        """Give the cell back and take it again, with a new world that is proven."""
        began = time.perf_counter()
        self.world.close()
        uid = self.lease.cell.agent_uid
        self.pool.release(self.lease)
        self.lease = await self.pool.acquire(uid)
        leased = time.perf_counter()
        database = await unblocked(self.template, self.template.clone)
        cloned = time.perf_counter()
        self.world = World(start=START, seed=0, database=database, cell=self.lease.cell)
        try:
            self.world.verify_start(self.template.fingerprint)
        except LeakDetected:
            self.leaks += 1
        if parts is not None:
            parts.add(self.lease.receipt, (began, leased, cloned, time.perf_counter()))

    async def live(self, episode: episodes.Episode, metadata: MetaData, running: TaskGroup) -> None:
        """Let an episode happen in it; see `episodes.live`."""
        await episodes.live(episode, self.lease.cell, self.world.database, metadata, running)

    async def play(self, episode: episodes.Episode, metadata: MetaData, parts: "Parts | None" = None) -> None:
        """An episode and the reset after it."""
        async with anyio.create_task_group() as running:
            await self.live(episode, metadata, running)
            running.cancel_scope.cancel()
        await self.reset(parts)

    def leave(self) -> None:
        """Give all back."""
        self.world.close()
        self.pool.release(self.lease)


@dataclass(slots=True)
class Parts:
    """Where the time of resets goes, in milliseconds."""

    total: Samples = field(default_factory=Samples)
    ended: Samples = field(default_factory=Samples)
    made: Samples = field(default_factory=Samples)
    verified: Samples = field(default_factory=Samples)
    frames: Samples = field(default_factory=Samples)
    """What the pool, the frames and the engine's stream take beyond the supervisor's own work."""
    clone: Samples = field(default_factory=Samples)
    proof: Samples = field(default_factory=Samples)
    """Comparing the world's fingerprint with the template's."""

    def add(self, receipt: ResetReceipt, times: tuple[float, float, float, float]) -> None:
        """Keep one reset; `times` are its begin, the lease, the clone, and its end, in seconds."""
        began, leased, cloned, ended = times
        self.total.add((ended - began) * 1e3)
        self.ended.add(receipt.ended_ms)
        self.made.add(receipt.made_ms)
        self.verified.add(receipt.verified_ms)
        self.frames.add((leased - began) * 1e3 - receipt.total_ms)
        self.clone.add((cloned - leased) * 1e3)
        self.proof.add((ended - cloned) * 1e3)

    def numbers(self) -> Numbers:
        """Of the whole reset, and the median of each part."""
        parts = ("ended", "made", "verified", "frames", "clone", "proof")
        return {**self.total.numbers(), "parts_p50_ms": {name: getattr(self, name).numbers()["p50_ms"] for name in parts}}


@asynccontextmanager
async def places(pool: CellPool, template: Template, count: int) -> AsyncIterator[Sequence[Place]]:
    """Hold `count` cells for the body."""
    found: list[Place] = []
    try:
        for _ in range(count):
            found.append(await Place.take(pool, template))
        yield found
    finally:
        for place in found:
            place.leave()


@dataclass(slots=True)
class ResetBench:
    """Resets after ordinary and vandal episodes, alone and many at once."""

    pool: CellPool
    template: Template
    metadata: MetaData
    rng: Random = field(default_factory=lambda: Random(7))
    leaks: int = 0
    ordinary: Parts = field(default_factory=Parts)
    vandal: Parts = field(default_factory=Parts)
    rates: dict[int, Rate] = field(default_factory=dict)
    cycles: dict[int, Rate] = field(default_factory=dict)

    async def alone(self, count: int) -> None:
        """`count` resets after each kind of episode, in turns, on one cell."""
        async with places(self.pool, self.template, 1) as (place,):
            for _ in range(count):
                await place.play(episodes.ordinary(), self.metadata, self.ordinary)
                await place.play(episodes.vandal(self.rng), self.metadata, self.vandal)
            self.leaks += place.leaks

    async def at_once(self, cells: int, batches: int) -> None:
        """Batches of `cells` resets begun together, half after ordinary and half after vandal episodes.

        `rates` counts the resets' time only; `cycles` also the time in which the episodes made their dirt.
        """
        rate, whole = self.rates.setdefault(cells, Rate()), self.cycles.setdefault(cells, Rate())
        async with places(self.pool, self.template, cells) as held:
            for batch in range(batches * max(1, 4 // cells)):
                with whole.timed(cells):
                    await self._dirty(held, batch)
                    with rate.timed(cells):
                        async with anyio.create_task_group() as group:
                            for place in held:
                                group.start_soon(place.reset)
            self.leaks += sum(place.leaks for place in held)

    async def _dirty(self, held: Sequence[Place], batch: int) -> None:
        """An episode in each cell, at once; their last commands are given up when the slowest is done."""
        async with anyio.create_task_group() as running:
            async with anyio.create_task_group() as group:
                for index, place in enumerate(held):
                    group.start_soon(place.live, self._mixed(index + batch), self.metadata, running)
            running.cancel_scope.cancel()

    def _mixed(self, number: int) -> episodes.Episode:
        return episodes.vandal(self.rng) if number % 2 else episodes.ordinary()
