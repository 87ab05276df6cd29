"""The billing world on real cells, and its desk alone: tools on a clone, without a cell."""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest

from wardian.envs.definition import WorldDefinition
from wardian.envs.environment import ToolEnvironment
from wardian.envs.registry import cell_spec, load_world
from wardian.envs.start import insert_rows
from wardian.envs.task import Difficulty, Task
from wardian.sandbox.database import SqliteTemplate
from wardian.sandbox.database.base import RowChange, Template
from wardian.sandbox.pool import CellPool
from wardian.sandbox.world import World
from wardian.tools.contract import CallEvent, ToolCall, ToolResult
from wardian.tools.faults import NONE
from wardian.tools.toolbox import Toolbox

MakeEnv: TypeAlias = Callable[..., ToolEnvironment]


@pytest.fixture(scope="session")
def billing() -> WorldDefinition:
    return load_world("billing")


@pytest.fixture(scope="session")
def template(billing: WorldDefinition, tmp_path_factory: pytest.TempPathFactory) -> Template:
    return SqliteTemplate.build(billing.template, tmp_path_factory.mktemp("templates"))


@pytest.fixture(scope="module")
async def cells(billing: WorldDefinition) -> AsyncIterator[CellPool]:
    async with CellPool(cell_spec(billing), size=1) as pool:
        yield pool


@pytest.fixture
def make_env(billing: WorldDefinition, template: Template, cells: CellPool) -> MakeEnv:
    def make(world: WorldDefinition = billing, **changes: Any) -> ToolEnvironment:
        return ToolEnvironment(world, **{"template": template, "cells": cells, "faults": NONE, **changes})

    return make


@dataclass(frozen=True, slots=True)
class Desk:
    """One task's database and tools, without a cell."""

    task: Task
    world: World
    toolbox: Toolbox

    async def call(self, tool: str, **args: Any) -> tuple[ToolResult, CallEvent]:
        return await self.toolbox.call(self.world, ToolCall(tool, args), agent_id=self.task.agent_id, step=1)

    def take_changes(self) -> tuple[RowChange, ...]:
        assert self.world.database is not None
        return self.world.database.take_changes()


@pytest.fixture
def desk(billing: WorldDefinition, template: Template) -> Iterator[Desk]:
    """A medium claim: a look-alike customer beside the ticket's, one payment in question."""
    task = billing.family("billing-dispute").generate(Difficulty.MEDIUM, 4)
    world = World(start=task.start, seed=1, database=template.clone())
    assert world.database is not None
    insert_rows(world.database, billing.template.metadata, task)
    toolbox = Toolbox(billing.tools, scopes_of=billing.scopes_of)
    found = Desk(task, world, toolbox)
    found.take_changes()
    yield found
    toolbox.close()
    world.close()
