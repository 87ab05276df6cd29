"""How a reset grows: with the world, with what an episode changed, with the number of cells, with the number of episodes."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import anyio.to_thread
from sqlalchemy import MetaData

from wardian.rollouts.bench import episodes, worlds
from wardian.rollouts.bench.resets import Parts, places
from wardian.rollouts.bench.samples import Numbers
from wardian.rollouts.bench.scale import Scale
from wardian.sandbox.cell import CellSpec
from wardian.sandbox.database.base import Template
from wardian.sandbox.engine import Engine
from wardian.sandbox.pool import CellPool


async def neighbours(engine: Engine, spec: CellSpec, template: Template, metadata: MetaData, scale: Scale) -> "Neighbours":
    """One cell's resets after ordinary episodes while so many cells stand, the others idle; all numbers of cells in turns."""
    found = Neighbours()
    for _ in range(scale.passes):
        for count in scale.cells:
            async with CellPool(spec, count, engine=engine) as pool:
                await pool.settle()
                async with places(pool, template, 1) as (place,):
                    await place.play(episodes.ordinary(), metadata)
                    for _ in range(scale.growth):
                        await place.play(episodes.ordinary(), metadata, found.by_cells.setdefault(count, Parts()))
                    found.leaks += place.leaks
                found.leaks += len(pool.statistics().leaks)
    return found


@dataclass(slots=True)
class Neighbours:
    by_cells: dict[int, Parts] = field(default_factory=dict)
    leaks: int = 0


@dataclass(slots=True)
class GrowthBench:
    pool: CellPool
    template: Template
    metadata: MetaData
    scale: Scale
    neighbours: Neighbours
    templates: dict[float, Template] = field(default_factory=dict)
    leaks: int = 0
    by_world: dict[float, Parts] = field(default_factory=dict)
    by_files: dict[int, Parts] = field(default_factory=dict)
    young: Parts = field(default_factory=Parts)
    old: Parts = field(default_factory=Parts)

    async def build_worlds(self) -> None:
        """Make the templates of all sizes."""
        with tempfile.TemporaryDirectory(prefix="wardian-bench-") as directory:
            for size in self.scale.world_mb:
                self.templates[size] = await anyio.to_thread.run_sync(worlds.sized_template, size, Path(directory))

    async def sizes(self) -> None:
        """Ordinary episodes in worlds of each size, in turns."""
        async with places(self.pool, self.template, 1) as (place,):
            for _ in range(self.scale.growth):
                for size, template in self.templates.items():
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

    async def many_episodes(self, engine: Engine) -> None:
        """The last of hundreds of ordinary episodes on one cell against the first ones on a new cell, in turns.

        In turns, since the load of the machine may change between the begin and the end of hundreds of episodes.
        """
        scale = self.scale
        async with CellPool(self.pool.spec, 1, engine=engine) as aged, CellPool(self.pool.spec, 1, engine=engine) as new:
            async with places(aged, self.template, 1) as (old,):
                for _ in range(scale.episodes - scale.edge):
                    await old.play(episodes.ordinary(), self.metadata)
                async with places(new, self.template, 1) as (young,):
                    for _ in range(scale.edge):
                        await young.play(episodes.ordinary(), self.metadata, self.young)
                        await old.play(episodes.ordinary(), self.metadata, self.old)
                    self.leaks += young.leaks
                self.leaks += old.leaks
            self.leaks += len(aged.statistics().leaks) + len(new.statistics().leaks)

    def numbers(self) -> Numbers:
        """All four, by size."""
        return {
            "world": {
                f"{size:g} MB": {**parts.numbers(), "image_bytes": self.templates[size].size_bytes} for size, parts in self.by_world.items()
            },
            "files": {str(count): parts.numbers() for count, parts in self.by_files.items()},
            "cells": {str(count): parts.numbers() for count, parts in self.neighbours.by_cells.items()},
            "episodes": {
                f"first {self.scale.edge} of a cell": self.young.numbers(),
                f"last {self.scale.edge} of {self.scale.episodes}": self.old.numbers(),
            },
        }
