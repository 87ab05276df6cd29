"""Watched environments of built-in worlds, on one template and one cell each."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias

import pytest

from wardian.envs.definition import WorldDefinition
from wardian.envs.environment import ToolEnvironment
from wardian.envs.settings import MalformedPolicy, Settings
from wardian.rollouts.ground import open_ground
from wardian.rollouts.redteam.solving import Witness
from wardian.sandbox.cell import Tier
from wardian.tools.faults import NONE

Opened: TypeAlias = Callable[[WorldDefinition], AbstractAsyncContextManager[tuple[ToolEnvironment, Witness]]]


@pytest.fixture(scope="session")
def opened() -> Opened:
    """Open a world with a witness, its ended episodes held."""

    @asynccontextmanager
    async def open_it(world: WorldDefinition) -> AsyncIterator[tuple[ToolEnvironment, Witness]]:
        witness = Witness()
        async with (
            open_ground(world, cells=1, tier=Tier.CHAMBER) as ground,
            ground.environment(NONE, MalformedPolicy.RECOVER, Settings(hold_ended=True), witness.watch(world)) as env,
        ):
            yield env, witness

    return open_it
