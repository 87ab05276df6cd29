"""How a reset grows: with the world, with what an episode changed, with the number of cells, with the number of episodes."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio.to_thread
from sqlalchemy import MetaData

from wardian.rollouts.bench import episodes, worlds
from wardian.rollouts.bench.resets import Parts, Place, places
from wardian.rollouts.bench.samples import Numbers
from wardian.rollouts.bench.scale import Scale
from wardian.sandbox.cell import CellSpec
from wardian.sandbox.database.base import Template
from wardian.sandbox.engine import Engine
from wardian.sandbox.pool import CellPool


@dataclass(slots=True)
class GrowthBench:
    pool: CellPool
    template: Template
    metadata: MetaData
    scale: Scale
    leaks: int = 0
    by_world: dict[float, Parts] = field(default_factory=dict)
    world_bytes: dict[float, int] = field(default_factory=dict)
    by_files: dict[int, Parts] = field(default_factory=dict)
    by_cells: dict[int, Parts] = field(default_factory=dict)
    first: Parts = field(default_factory=Parts)
    last: Parts = field(default_factory=Parts)

    async def sizes(self) -> None:
        """Ordinary episodes in worlds of each size, in turns."""
        with tempfile.TemporaryDirectory(prefix="wardian-bench-") as directory:
            templates = {size: await anyio.to_thread.run_sync(worlds.sized_template, size, Path(directory)) for size in self.scale.world_mb}
        self.world_bytes = {size: template.size_bytes for size, template in templates.items()}
        async with places(self.pool, self.template, 1) as (place,):
            for _ in range(self.scale.growth):
                for size, template in templates.items():
                    place.template = template
                    await place.reset()
                    await place.play(episodes.ordinary(), worlds.Base.metadata, self.by_world.setdefault(size, Parts()))
            self.leaks += place.leaks

    async def dirt(self) -> None:
        """Episodes that changed so many files, in turns."""
        async with places(self.pool, self.template, 1) as (place,):
            for _ in range(self.scale.growth):
                for count in self.scale.files:
                    await place.play(episodes.files(count), self.metadata, self.by_files.setdefault(count, Parts()))
            self.leaks += place.leaks

    async def neighbours(self, engine: Engine, spec: CellSpec) -> None:
        """One cell's resets while so many cells stand, the others idle; the last number is the pool's own."""
        for count in self.scale.cells[:-1]:
            async with CellPool(spec, count, engine=engine) as pool:
                await pool.settle()
                await self._beside(pool, count)
        await self._beside(self.pool, self.scale.cells[-1])

    async def _beside(self, pool: CellPool, count: int) -> None:
        async with places(pool, self.template, 1) as (place,):
            await self._ordinary(place, self.scale.growth, lambda _: self.by_cells.setdefault(count, Parts()))
            self.leaks += place.leaks
        self.leaks += 0 if pool is self.pool else len(pool.statistics().leaks)

    async def many_episodes(self) -> None:
        """Hundreds of ordinary episodes on one cell; its first resets against its last."""
        scale = self.scale
        async with places(self.pool, self.template, 1) as (place,):

            def kept(index: int) -> Parts | None:
                return self.first if index < scale.edge else self.last if index >= scale.episodes - scale.edge else None

            await self._ordinary(place, scale.episodes, kept)
            self.leaks += place.leaks

    async def _ordinary(self, place: Place, count: int, kept: Callable[[int], Parts | None]) -> None:
        for index in range(count):
            await place.play(episodes.ordinary(), self.metadata, kept(index))

    def numbers(self) -> Numbers:
        """All four, by size."""
        return {
            "world": {f"{size:g} MB": {**parts.numbers(), "image_bytes": self.world_bytes[size]} for size, parts in self.by_world.items()},
            "files": {str(count): parts.numbers() for count, parts in self.by_files.items()},
            "cells": {str(count): parts.numbers() for count, parts in self.by_cells.items()},
            "episodes": {
                f"first {self.scale.edge}": self.first.numbers(),
                f"last {self.scale.edge} of {self.scale.episodes}": self.last.numbers(),
            },
        }
