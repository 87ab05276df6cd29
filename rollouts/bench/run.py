"""The whole benchmark, in one run: how many cells stand, then some of everything else in each round."""

import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from wardian.envs.registry import cell_spec, load_world
from wardian.rollouts.bench.calls import CallBench
from wardian.rollouts.bench.commands import CommandBench
from wardian.rollouts.bench.containers import ContainerBench, plain_container
from wardian.rollouts.bench.growth import GrowthBench, neighbours
from wardian.rollouts.bench.machine import describe, load
from wardian.rollouts.bench.memory import memory_of, summary
from wardian.rollouts.bench.resets import ResetBench, places
from wardian.rollouts.bench.samples import Numbers
from wardian.rollouts.bench.scale import Scale
from wardian.rollouts.bench.targets import judged, ratios
from wardian.rollouts.ground import Ground, open_ground
from wardian.sandbox.cell import Tier
from wardian.sandbox.database import SqliteTemplate
from wardian.sandbox.engine import Engine
from wardian.sandbox.images import require_agent_image
from wardian.sandbox.pool import CellPool
from wardian.sandbox.probe import probe

Note = Callable[[str], None]


async def measure(scale: Scale, note: Note = lambda line: None) -> Numbers:
    """Measure everything at `scale`. All that it makes is gone when it returns or is cancelled.

    Raises:
        SandboxError: the engine, the cells or the template cannot be had.
    """
    world = load_world("billing")
    async with AsyncExitStack() as stack:
        engine = await Engine.open()
        stack.callback(engine.close)
        note("cells that stand beside one another")
        template = await anyio.to_thread.run_sync(SqliteTemplate.build, world.template)
        tier = (await probe(engine, await anyio.to_thread.run_sync(require_agent_image))).tier or Tier.CHAMBER
        spec = await anyio.to_thread.run_sync(cell_spec, world, tier)
        beside = await neighbours(engine, spec, template, world.template.metadata, scale)
        note("starting cells")
        ground = await stack.enter_async_context(open_ground(world, cells=max(scale.cells), tier=tier))
        assert ground.cells is not None, "billing needs cells"
        await ground.cells.settle()
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wardian-bench-")))
        plain = await stack.enter_async_context(plain_container(engine, spec))
        growth = GrowthBench(ground.cells, template, world.template.metadata, scale, beside)
        return await Bench.over(engine, ground, ground.cells, plain, directory, growth, note).run()


@dataclass(slots=True)
class Bench:
    engine: Engine
    pool: CellPool
    plain: str
    """A running container for `docker exec`."""
    scale: Scale
    note: Note
    resets: ResetBench
    containers: ContainerBench
    commands: CommandBench
    calls: CallBench
    growth: GrowthBench

    @classmethod
    def over(cls, engine: Engine, ground: Ground, pool: CellPool, plain: str, directory: Path, growth: GrowthBench, note: Note) -> "Bench":
        """Set all parts up over one ground."""
        template, metadata = ground.template, ground.world.template.metadata
        return cls(
            engine=engine,
            pool=pool,
            plain=plain,
            scale=growth.scale,
            note=note,
            resets=ResetBench(pool, template, metadata),
            containers=ContainerBench(engine, pool.spec),
            commands=CommandBench(pool, template),
            calls=CallBench(ground, directory),
            growth=growth,
        )

    async def run(self) -> Numbers:
        """Measure in the order that disturbs least: memory of fresh cells, rounds, hundreds of episodes on one cell."""
        began = time.perf_counter()
        machine = await describe(self.engine)
        memory = await self._memory()
        await self.growth.build_worlds()
        for number in range(self.scale.rounds):
            self.note(f"round {number + 1} of {self.scale.rounds}")
            await self._round()
        self.note(f"{self.scale.episodes} episodes on one cell")
        await self.growth.many_episodes(self.engine)
        await self.pool.settle()
        memory_after = await self._memory()
        found = self._numbers() | {"memory": memory | {"after_all_mib": memory_after["per_cell_mib"]}}
        return {
            "machine": machine | {"load_at_end": load()},
            "rounds": self.scale.rounds,
            "wall_s": round(time.perf_counter() - began, 1),
            **found,
            "ratios": ratios(found),
            "targets": judged(found),
        }

    async def _round(self) -> None:
        scale = self.scale
        await self.resets.alone(scale.resets)
        await self.containers.episodes(scale.containers)
        await self.commands.one(scale.commands)
        await self.containers.execs(self.plain, scale.engine_execs)
        await self.calls.run(scale.calls)
        for cells in scale.cells:
            await self.resets.at_once(cells, scale.batches)
            await self.commands.at_once(cells, scale.commands)
        await self.growth.sizes()
        await self.growth.dirt()

    async def _memory(self) -> Numbers:
        async with places(self.pool, self.resets.template, max(self.scale.cells)) as held:
            return summary([await memory_of(self.engine, place.lease.cell) for place in held])

    def _numbers(self) -> Numbers:
        statistics = self.pool.statistics()
        resets = self.resets
        return {
            "tier": self.pool.spec.tier.value,
            "leaks": len(statistics.leaks) + resets.leaks + self.growth.leaks + self.growth.neighbours.leaks,
            "verified_resets": statistics.verified,
            "cells_replaced": statistics.replaced,
            "world_bytes": getattr(resets.template, "size_bytes", None),
            "reset": {"ordinary": resets.ordinary.numbers(), "vandal": resets.vandal.numbers()},
            "resets_at_once": {
                str(cells): {**rate.numbers(), "episodes_per_s": resets.cycles[cells].numbers()["per_s"]}
                for cells, rate in resets.rates.items()
            },
            "container": {**self.containers.one.numbers(), "at_once": self.containers.rate.numbers()},
            "exec": self.commands.numbers(),
            "docker_exec": self.containers.exec.numbers(),
            "tool_call": self.calls.numbers(),
            "growth": self.growth.numbers(),
        }
