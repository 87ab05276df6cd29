"""What many episodes of one world stand on: a sealed template and a pool of cells, made once and shared."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

import anyio.to_thread

from wardian.envs.definition import WorldDefinition
from wardian.envs.environment import ToolEnvironment
from wardian.envs.registry import cell_spec
from wardian.envs.settings import MalformedPolicy, Settings
from wardian.envs.tokens import ESTIMATE, Tokenizer
from wardian.sandbox.cell import CellSpec, Tier
from wardian.sandbox.database.base import Template
from wardian.sandbox.database.choice import DatabaseChoice, open_template
from wardian.sandbox.engine import Engine
from wardian.sandbox.pool import CellPool
from wardian.sandbox.probe import best_tier
from wardian.sandbox.reap import reap
from wardian.tools.faults import FaultProfile


@dataclass(frozen=True, slots=True)
class Ground:
    world: WorldDefinition
    template: Template
    cells: CellPool | None
    """`None` when the world needs no cell; then no engine is asked for."""

    @property
    def tier(self) -> Tier | None:
        """The restore tier of the cells."""
        return self.cells.spec.tier if self.cells else None

    @property
    def image(self) -> str | None:
        """The image of the cells."""
        return self.cells.spec.image if self.cells else None

    def environment(
        self,
        faults: FaultProfile,
        malformed: MalformedPolicy,
        settings: Settings,
        world: WorldDefinition | None = None,
        tokenizer: Tokenizer = ESTIMATE,
    ) -> ToolEnvironment:
        """One environment over what is shared; `world` stands in for the ground's own, as in a replay."""
        return ToolEnvironment(
            world or self.world,
            template=self.template,
            cells=self.cells,
            faults=faults,
            malformed=malformed,
            tokenizer=tokenizer,
            settings=settings,
        )


@asynccontextmanager
async def open_ground(
    world: WorldDefinition,
    *,
    cells: int,
    tier: Tier | None = None,
    uids: Sequence[int] = (),
    deep_checks: bool = False,
    image: str | None = None,
    database: DatabaseChoice | None = None,
    free_cell_s: float | None = None,
) -> AsyncIterator[Ground]:
    """Make the template, and `cells` cells of `tier` (`None`: the best that works here). All is gone when the block ends.

    What dead runs left in the engine is removed first. `uids` are preferred for the agents of the cells. With
    `deep_checks` every file that a cell stands on is hashed when it is made, and again when its pool is audited.
    `image` is an adopted one; `None` is the agent image. `database` says where the template is made; `None` is SQLite. `free_cell_s`
    is how long a reset waits for a free cell.

    Raises:
        SandboxError: the engine, a cell or the template cannot be had.
        TaskError: the image lacks what the world's tools need.
    """
    async with AsyncExitStack() as stack:
        template = await stack.enter_async_context(
            open_template(world.imported or world.template, database or DatabaseChoice(), spares=cells)
        )
        pool = None
        if world.needs_cell:
            engine = await Engine.open()
            stack.callback(engine.close)
            await reap(engine)
            spec = replace(await _spec(world, engine, tier, image), deep_checks=deep_checks)
            if free_cell_s is not None:
                spec = replace(spec, timeouts=replace(spec.timeouts, pool_s=free_cell_s))
            pool = await stack.enter_async_context(CellPool(spec, cells, engine=engine, uids=uids))
        yield Ground(world, template, pool)


async def _spec(world: WorldDefinition, engine: Engine, tier: Tier | None, image: str | None) -> CellSpec:
    spec = await anyio.to_thread.run_sync(cell_spec, world, tier or Tier.CHAMBER, None, image)
    if tier is not None:
        return spec
    return replace(spec, tier=await best_tier(engine, spec.image))
