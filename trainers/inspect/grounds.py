"""What all samples of a task stand on, from the first sample of a run to its end, and the episodes that are being played."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache

import anyio
from inspect_ai.hooks import Hooks, RunEnd, hooks

from wardian.envs.registry import load_world, profile
from wardian.envs.settings import MalformedPolicy, Settings
from wardian.rollouts.ground import Ground, open_ground
from wardian.sandbox.cell import Tier
from wardian.trainers.inspect.held import Shared
from wardian.trainers.inspect.playing import Playing


@dataclass(frozen=True, slots=True)
class Opening:
    """What a ground is made of; equal ones are one."""

    world: str
    cells: int
    tier: Tier | None = None
    image: str | None = None


@dataclass(slots=True)
class Places:
    """A ground, and how many episodes may stand on it at once."""

    ground: Ground
    free: anyio.Semaphore | None
    """`None`: any number, since its world needs no cell."""


COUNTS: Counter[str] = Counter()
"""Of this process: episodes `opened`, `closed` and `failed`, and `calls` of tools."""
GROUNDS: Shared[Places] = Shared()


@dataclass(slots=True)
class Seat:
    """One sample's episode, and its place."""

    places: Places
    playing: Playing | None = None

    async def leave(self) -> None:
        """Close the episode, and free the place."""
        try:
            if self.playing is not None:
                await self.playing.close()
        finally:
            if self.places.free is not None:
                self.places.free.release()


PLAYED: dict[str, Seat] = {}
"""By the sample's uuid, from its setup to its cleanup."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How episodes are played."""

    faults: str
    malformed: MalformedPolicy
    split: str
    step_s: float


async def sit(uuid: str, opening: Opening, rules: Rules, task_id: str, seed: int) -> Playing:
    """Give the sample `uuid` a place, and an episode there that has not begun; `rise` ends both. Waits until a place is free.

    Raises:
        SandboxError: the ground cannot be made.
    """
    places = await GROUNDS.take(opening, lambda: _open(opening))  # given back by nobody: it stands until the run ends
    if places.free is not None:
        await places.free.acquire()
    seat = PLAYED[uuid] = Seat(places)
    ground = places.ground
    env = ground.environment(profile(rules.faults, ground.world), rules.malformed, Settings(split=rules.split))
    seat.playing = Playing(env, task_id, seed, rules.step_s, COUNTS)
    return seat.playing


def playing(uuid: str) -> Playing | None:
    """The episode of a sample; `None` where it has none."""
    seat = PLAYED.get(uuid)
    return seat.playing if seat else None


async def rise(uuid: str) -> None:
    """End what `sit` began. Idempotent."""
    if (seat := PLAYED.pop(uuid, None)) is not None:
        await seat.leave()


@cache
def close_after_runs() -> None:
    """Have every ground closed when Inspect's run ends; asked for once a process."""

    @hooks("wardian", "ends cells and databases at the end of a run")
    class Closing(Hooks):
        async def on_run_end(self, data: RunEnd) -> None:
            await GROUNDS.close_all()


@asynccontextmanager
async def _open(opening: Opening) -> AsyncIterator[Places]:
    world = load_world(opening.world)
    async with open_ground(world, cells=opening.cells, tier=opening.tier, image=opening.image) as ground:
        yield Places(ground, anyio.Semaphore(opening.cells) if ground.cells else None)
