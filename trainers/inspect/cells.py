"""One pool of cells for all samples of one configuration.

Inspect imports this in every evaluation of everybody, so engine and worlds are loaded where the first pool is opened.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio.to_thread

from wardian.sandbox.cell import CellSpec, Limits, Tier
from wardian.sandbox.pool import CellPool
from wardian.sandbox.timeouts import Timeouts
from wardian.trainers.inspect.config import CellConfig
from wardian.trainers.inspect.held import Shared

WAIT_S = 24 * 3600.0
"""For a free cell: a sample that waits is Inspect's to give up, by its own limits."""

POOLS: Shared[CellPool] = Shared()
"""By configuration and size."""


@asynccontextmanager
async def open_cells(config: CellConfig, size: int) -> AsyncIterator[CellPool]:
    """Make `size` cells. What dead runs left in the engine is removed first; all is gone when the block ends.

    Raises:
        SandboxError: the engine or a cell cannot be had.
        TaskError: there is no such world.
    """
    from wardian.sandbox.engine import Engine
    from wardian.sandbox.probe import best_tier
    from wardian.sandbox.reap import reap

    engine = await Engine.open()
    try:
        await reap(engine)
        spec = await anyio.to_thread.run_sync(_spec, config)
        if config.tier is None:
            spec = replace(spec, tier=await best_tier(engine, spec.image, config.runtime))
        async with CellPool(spec, size, engine=engine) as pool:
            yield pool
    finally:
        engine.close()


def _spec(config: CellConfig) -> CellSpec:
    from wardian.envs.registry import cell_spec, load_world
    from wardian.sandbox.adoption.adopted import cell_image

    tier = config.tier or Tier.CHAMBER
    if config.world is not None:
        spec = cell_spec(load_world(config.world), tier, config.runtime, config.image)
    else:
        found = cell_image(config.image)
        spec = CellSpec(found.reference, tier, shell=found.shell, environment=found.environment, runtime=config.runtime)
    limits = Limits(
        memory_mib=config.memory_mib,
        disk_mib=config.disk_mib,
        file_size_mib=config.disk_mib,
        processes=config.processes,
        cpus=config.cpus,
    )
    return replace(spec, limits=limits, timeouts=Timeouts(pool_s=WAIT_S))
