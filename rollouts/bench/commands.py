"""`true` in a chamber: alone, and in many cells at once."""

from dataclasses import dataclass, field

import anyio

from wardian.rollouts.bench.resets import places
from wardian.rollouts.bench.samples import Numbers, Rate, Samples
from wardian.sandbox.cell import Cell, Command
from wardian.sandbox.database.base import Template
from wardian.sandbox.errors import CellUnavailable
from wardian.sandbox.pool import CellPool

TRUE = Command(argv=("true",))


@dataclass(slots=True)
class CommandBench:
    pool: CellPool
    template: Template
    alone: Samples = field(default_factory=Samples)
    inside: Samples = field(default_factory=Samples)
    """The part from before the command's fork to after its end, by the supervisor's clock."""
    rates: dict[int, Rate] = field(default_factory=dict)

    async def one(self, count: int) -> None:
        """`count` commands, one after another, on one cell."""
        async with places(self.pool, self.template, 1) as (place,):
            await self._run(place.lease.cell, 2)  # the first one faults the chamber's pages in
            await self._run(place.lease.cell, count, self.alone, self.inside)

    async def at_once(self, cells: int, count: int) -> None:
        """`count` commands in each of `cells` cells, all cells at once."""
        async with places(self.pool, self.template, cells) as held:
            with self.rates.setdefault(cells, Rate()).timed(cells * count):
                async with anyio.create_task_group() as group:
                    for place in held:
                        group.start_soon(self._run, place.lease.cell, count)

    async def _run(self, cell: Cell, count: int, wall: Samples | None = None, inside: Samples | None = None) -> None:
        kept = wall if wall is not None else Samples()
        for _ in range(count):
            with kept.timed():
                found = await cell.exec(TRUE)
            if found.exit_code != 0:
                raise CellUnavailable(f"cell {cell.id}: `true` ended as {found.outcome} with {found.exit_code}: {found.detail}")
            if inside is not None:
                inside.add(found.elapsed_ms)

    def numbers(self) -> Numbers:
        """Latency alone, and rates by cells."""
        return {
            **self.alone.numbers(),
            "inside_p50_ms": self.inside.numbers()["p50_ms"],
            "at_once": {str(cells): rate.numbers() for cells, rate in self.rates.items()},
        }
