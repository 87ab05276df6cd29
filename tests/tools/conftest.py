"""A real cell for the packs that need one, started once for each file of tests and restored before each test; and hands in it."""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from wardian.sandbox.cell import Cell, CellSpec
from wardian.sandbox.database.base import Template
from wardian.sandbox.docker_cell import make_cell
from wardian.sandbox.engine import Engine
from wardian.sandbox.files import FileEntry, FileLayer
from wardian.sandbox.images import require_agent_image
from wardian.sandbox.world import World
from wardian.tools.contract import CallEvent, Json, ToolCall, ToolResult
from wardian.tools.packs.files import file_tools
from wardian.tools.packs.shell import SHELL
from wardian.tools.toolbox import Toolbox


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


@dataclass(frozen=True, slots=True)
class Hands:
    """The tools `shell` and those of files, in one episode."""

    cell: Cell
    world: World
    box: Toolbox

    async def call(self, name: str, **args: Json) -> tuple[ToolResult, CallEvent]:
        return await self.box.call(self.world, ToolCall(name, args), agent_id="agent", step=1)

    async def content(self, name: str, **args: Json) -> Json:
        result, _ = await self.call(name, **args)
        return result.content

    async def shell(self, command: str, **more: Json) -> Json:
        return await self.content("shell", command=command, **more)

    async def put(self, path: str, data: bytes, mode: int = 0o644) -> None:
        await self.cell.write_files(FileLayer({f"/workspace/{path}": FileEntry(data, mode)}))

    async def bytes_of(self, path: str) -> bytes:
        return (await self.cell.read_file(f"/workspace/{path}", max_bytes=64 << 20)).data


@pytest.fixture
def hands(cell: Cell) -> Hands:
    return Hands(cell, World(start=datetime(2026, 1, 1, tzinfo=UTC), seed=1, cell=cell), Toolbox([SHELL, *file_tools(notes=True)]))


@pytest.fixture
def make_world(template: Template) -> Iterator[Callable[..., World]]:
    """Makes worlds on clones of the module's own fixture `template`, each by a seed; closed at the end."""
    made: list[World] = []

    def make(seed: int = 1) -> World:
        made.append(World(start=datetime(2026, 1, 1, tzinfo=UTC), seed=seed, database=template.clone()))
        return made[-1]

    yield make
    for world in made:
        world.close()
