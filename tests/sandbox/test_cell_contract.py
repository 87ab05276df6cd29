"""Both restore tiers under the whole contract."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest

from wardian.sandbox.cell import Cell, Tier
from wardian.sandbox.contract import CellContract
from wardian.sandbox.contract.base import SPEC, UID, MakeCell
from wardian.sandbox.docker_cell import make_cell
from wardian.sandbox.engine import Engine
from wardian.sandbox.errors import CellDied, CellTimeout


@dataclass(slots=True)
class Standing:
    """One cell for many tests, restored before each; a test that loses it makes the next one start another."""

    make: MakeCell
    cell: Cell | None = None

    async def restored(self) -> Cell:
        if self.cell is not None:
            try:
                await self.cell.restore()
                return self.cell
            except (CellDied, CellTimeout):
                await self.cell.stop()
        self.cell = self.make(SPEC, UID)
        await self.cell.start()
        await self.cell.restore()
        return self.cell


class TestChamber(CellContract):
    """Its tests share a cell, as episodes do."""

    @pytest.fixture
    def make_cell(self, engine: Engine, image: str) -> MakeCell:
        return lambda spec, uid: make_cell(replace(spec, image=image, tier=Tier.CHAMBER), engine, uid)

    @pytest.fixture(scope="class")
    async def standing(self, engine: Engine, image: str) -> AsyncIterator[Standing]:
        standing = Standing(lambda spec, uid: make_cell(replace(spec, image=image, tier=Tier.CHAMBER), engine, uid))
        yield standing
        if standing.cell is not None:
            await standing.cell.stop()

    @pytest.fixture
    async def cell(self, standing: Standing) -> Cell:
        return await standing.restored()


class TestFresh(CellContract):
    @pytest.fixture
    def make_cell(self, engine: Engine, image: str) -> MakeCell:
        return lambda spec, uid: make_cell(replace(spec, image=image, tier=Tier.FRESH), engine, uid)
