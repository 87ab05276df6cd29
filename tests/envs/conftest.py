"""Real cells and a real template of the toy world, made once."""

from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

import pytest

from wardian.envs.definition import WorldDefinition
from wardian.envs.environment import ToolEnvironment
from wardian.envs.registry import cell_spec, load_world
from wardian.sandbox.database import SqliteTemplate
from wardian.sandbox.database.base import Template
from wardian.sandbox.pool import CellPool
from wardian.tools.faults import NONE

MakeEnv: TypeAlias = Callable[..., ToolEnvironment]


@pytest.fixture(scope="session")
def toy() -> WorldDefinition:
    return load_world("toy")


@pytest.fixture(scope="session")
def template(toy: WorldDefinition, tmp_path_factory: pytest.TempPathFactory) -> Template:
    return SqliteTemplate.build(toy.template, tmp_path_factory.mktemp("templates"))


@pytest.fixture(scope="module")
async def cells(toy: WorldDefinition) -> AsyncIterator[CellPool]:
    async with CellPool(cell_spec(toy), size=2) as pool:
        yield pool


@pytest.fixture
def make_env(toy: WorldDefinition, template: Template, cells: CellPool) -> MakeEnv:
    def make(world: WorldDefinition = toy, **changes: Any) -> ToolEnvironment:
        return ToolEnvironment(world, **{"template": template, "cells": cells, "faults": NONE, **changes})

    return make
