"""What is shared by samples is opened once, closed once, and outlives no event loop."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from tests.trainers.serving import FAULTY
from wardian.envs.settings import MalformedPolicy
from wardian.trainers.inspect import grounds
from wardian.trainers.inspect.grounds import GROUNDS, Opening, Places, Rules, rise, sit
from wardian.trainers.inspect.held import Shared
from wardian.trainers.inspect.playing import Playing

TASK = "echoes/easy/seed-0"


class Opened:
    """Notes what becomes of its contexts; the first `broken` of them cannot be opened."""

    def __init__(self, broken: int = 0) -> None:
        self.broken = broken
        self.lines: list[str] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[int]:
        self.lines.append("opening")
        await anyio.lowlevel.checkpoint()
        if self.lines.count("opening") <= self.broken:
            raise OSError("broken")
        try:
            async with anyio.create_task_group():
                yield len(self.lines)
        finally:
            await anyio.lowlevel.checkpoint()
            self.lines.append("closed")


pytestmark = pytest.mark.anyio


async def test_users_share_it_and_the_last_one_closes_it() -> None:
    shared, made = Shared[int](), Opened()
    found: list[int] = []

    async def use() -> None:
        found.append(await shared.take("key", made.open))

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(use)
    assert (found, await shared.get("key")) == ([1, 1, 1], 1)
    for left in (2, 1, 0):
        await shared.give_back("key")
        assert made.lines == (["opening"] if left else ["opening", "closed"])
    with pytest.raises(LookupError):
        await shared.get("key")
    await shared.give_back("key")


async def test_what_could_not_be_opened_is_told_to_all_who_wait_and_tried_anew_after_them() -> None:
    shared, made = Shared[int](), Opened(broken=1)
    told: list[int] = []

    async def use() -> None:
        with pytest.raises(OSError, match="broken"):
            await shared.take("key", made.open)
        told.append(1)

    async with anyio.create_task_group() as group:
        group.start_soon(use)
        group.start_soon(use)
    assert len(told) == 2
    await shared.take("key", made.open)
    await shared.close_all()
    assert made.lines == ["opening", "opening", "closed"]


async def test_a_sample_that_gives_up_while_the_ground_is_made_leaves_it_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    episodes: list[Playing] = []
    made, closed = anyio.Event(), anyio.Event()

    @asynccontextmanager
    async def slow_ground(opening: Opening) -> AsyncIterator[Places]:
        await made.wait()
        async with open_ground(opening) as places:
            yield places
        closed.set()

    open_ground = grounds._open
    monkeypatch.setattr(grounds, "_open", slow_ground)

    async def sample(uuid: str, scope: anyio.CancelScope) -> None:
        with scope:
            episodes.append(await sit(uuid, Opening(FAULTY, 1), Rules("none", MalformedPolicy.RECOVER, "train", 60.0), TASK, 0))

    first, second = anyio.CancelScope(), anyio.CancelScope()
    async with anyio.create_task_group() as group:
        group.start_soon(sample, "first", first)
        group.start_soon(sample, "second", second)
        await anyio.wait_all_tasks_blocked()
        first.cancel()
        await anyio.wait_all_tasks_blocked()
        made.set()
    (episode,) = episodes
    assert "Echo the word" in await episode.begin()
    await rise("second")
    assert not closed.is_set()
    await GROUNDS.close_all()
    assert closed.is_set()


def test_the_end_of_the_event_loop_closes_it() -> None:
    shared, made = Shared[int](), Opened()
    anyio.run(shared.take, "key", made.open)
    assert made.lines == ["opening", "closed"]
