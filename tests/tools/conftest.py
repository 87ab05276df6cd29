"""A real cell for the packs that need one, started once and restored before each test."""

from collections.abc import AsyncIterator

import pytest

from wardian.sandbox.cell import Cell, CellSpec
from wardian.sandbox.docker_cell import make_cell
from wardian.sandbox.engine import Engine
from wardian.sandbox.images import require_agent_image


@pytest.fixture(scope="module")
async def started_cell() -> AsyncIterator[Cell]:
    engine = await Engine.open()
    cell = make_cell(CellSpec(image=require_agent_image()), engine, 20_901)
    try:
        await cell.start()
        yield cell
    finally:
        await cell.stop()
        engine.close()


@pytest.fixture
async def cell(started_cell: Cell) -> Cell:
    await started_cell.restore()
    return started_cell
