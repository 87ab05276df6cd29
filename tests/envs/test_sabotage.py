"""What an earlier episode could leave behind is caught at the reset, counted, and never served."""

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from wardian.envs.action import Message, call
from wardian.envs.definition import WorldDefinition
from wardian.envs.environment import ToolEnvironment
from wardian.envs.playing import play_reference
from wardian.envs.registry import cell_spec
from wardian.envs.task import Task
from wardian.envs.worlds.toy.schema import Member
from wardian.sandbox.cell import Cell
from wardian.sandbox.database.base import FrozenDatabase, Template, WorldDatabase
from wardian.sandbox.database.sealed import SealedDatabase
from wardian.sandbox.errors import LeakDetected
from wardian.sandbox.files import FileEntry, FileLayer
from wardian.sandbox.lease import Lease
from wardian.sandbox.pool import CellPool
from wardian.sandbox.world import World

pytestmark = pytest.mark.anyio
MakeEnv: TypeAlias = Callable[..., ToolEnvironment]
TASK = "lending-desk/easy/seed-1"


class DirtyTemplate(Template):
    """Gives clones that hold a row of an earlier episode, as often as it is told."""

    def __init__(self, clean: Template, times: int) -> None:
        self.clean, self.times = clean, times
        self.key, self.fingerprint, self.size_bytes = clean.key, clean.fingerprint, clean.size_bytes

    def clone(self) -> WorldDatabase:
        database = self.clean.clone()
        if self.times > 0:
            self.times -= 1
            with database.transaction() as session:
                session.add(Member(id=99, name="left behind", suspended=False))
        return database

    def restore(self, sealed: SealedDatabase) -> tuple[WorldDatabase, tuple[FrozenDatabase, ...]]:
        return self.clean.restore(sealed)


class DirtyPool(CellPool):
    """Hands its first cell out with a file of an earlier episode in it, after the cell was proven."""

    dirty = True

    async def acquire(self, uid: int | None = None) -> Lease:
        lease = await super().acquire(uid)
        if self.dirty:
            self.dirty = False
            await lease.cell.write_files(FileLayer({"/workspace/answers.txt": FileEntry(b"lent 102")}))
        return lease


class Forgetful(ToolEnvironment):
    """Keeps something of the first world it made for the second one."""

    kept: World | None = None

    def keep(self, world: World, earlier: World) -> None:
        raise NotImplementedError

    def _make_world(self, task: Task, seed: int, database: WorldDatabase, cell: Cell | None) -> World:
        world = super()._make_world(task, seed, database, cell)
        if self.kept is None:
            self.kept = world
        elif self.leaks_found == 0:
            self.keep(world, self.kept)
        return world


class KeepsPermissions(Forgetful):
    def keep(self, world: World, earlier: World) -> None:
        world.memory.revoked_scopes = [*earlier.memory.revoked_scopes, "desk"]


class KeepsStreams(Forgetful):
    def keep(self, world: World, earlier: World) -> None:
        earlier.streams["faults/lend_item"].random()
        world.streams = earlier.streams


class KeepsReplicas(Forgetful):
    def keep(self, world: World, earlier: World) -> None:
        world.memory.idempotency["lend_item/k"] = {"args": {}, "content": 1}


async def test_a_kept_row_is_caught_and_the_episode_is_served_clean(make_env: MakeEnv, template: Template) -> None:
    async with make_env(template=DirtyTemplate(template, times=2)) as env:
        played = await play_reference(env, TASK)
        assert env.leaks_found == 2
        assert ["database/members" in differences[0] for differences in env.reset_info.leaks] == [True, True]
        assert played.last.info.verdict is not None
        assert played.last.info.verdict.succeeded


async def test_a_template_that_never_comes_clean_serves_nothing(make_env: MakeEnv, template: Template) -> None:
    async with make_env(template=DirtyTemplate(template, times=99)) as env:
        with pytest.raises(LeakDetected, match="database/members"):
            await env.reset(TASK)
        assert env.leaks_found == 3


async def test_a_kept_file_is_caught_and_its_cell_is_replaced(make_env: MakeEnv, toy: WorldDefinition) -> None:
    async with DirtyPool(cell_spec(toy), size=1) as cells, make_env(cells=cells) as env:
        await env.reset(TASK)
        assert "/workspace/answers.txt" in env.reset_info.leaks[0][0]
        assert (env.leaks_found, cells.statistics().replaced) == (1, 1)
        step = await env.step(call("read_file", path="answers.txt"))
        assert step.observation.results[0]["status"] == "not_found"


@pytest.mark.parametrize(("kind", "leaf"), [(KeepsPermissions, "memory"), (KeepsStreams, "streams"), (KeepsReplicas, "memory")])
async def test_kept_state_of_ours_is_caught(make_env: MakeEnv, kind: type[Forgetful], leaf: str) -> None:
    plain = make_env()
    stage = plain._stage
    async with kind(plain.world, template=stage.template, cells=stage.cells, faults=stage.faults) as env:
        await env.reset(TASK)
        await env.reset(TASK)
        assert env.leaks_found == 1
        assert env.reset_info.leaks[0][0].startswith(f"{leaf}:")


async def test_a_fingerprint_that_drifted_from_the_rows_fails_the_episode(make_env: MakeEnv) -> None:
    async with make_env() as env:
        await env.reset(TASK)
        assert env._episode is not None
        database: Any = env._episode.world.database
        journal = database._journal
        journal._totals[[shape.name for shape in journal._shapes].index("loans")] += 1
        journal._fingerprint = None
        step = await env.step(Message("Done."))
        assert (step.reward, step.info.end_cause) == (None, "state_mismatch")
        assert step.failed is not None
        assert "loans" in step.failed
