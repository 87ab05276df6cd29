"""An episode goes on from a snapshot exactly as it would have gone on: in its own environment, in forks, on both engines."""

import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import anyio
import pytest

from tests.envs.conftest import MakeEnv
from wardian.envs.action import Action, Message, Step, call
from wardian.envs.definition import WorldDefinition
from wardian.envs.environment import ToolEnvironment
from wardian.envs.errors import CallInFlight, NotReset
from wardian.envs.registry import cell_spec, load_world
from wardian.envs.saving import MANIFEST, PARTS, key_of, load, save
from wardian.envs.settings import Settings
from wardian.envs.snapshot import Snapshot
from wardian.envs.worlds.billing.policies import vandal_calls
from wardian.envs.worlds.toy.schema import Member
from wardian.rollouts.policies.base import TaskView
from wardian.rollouts.policies.chance import random_calls
from wardian.sandbox.cell import Cell, CellSpec, Tier
from wardian.sandbox.database import SqliteTemplate
from wardian.sandbox.database.base import FrozenDatabase, Template, WorldDatabase
from wardian.sandbox.database.postgres.server import Server
from wardian.sandbox.database.postgres.template import PostgresTemplate
from wardian.sandbox.database.sealed import SealedDatabase
from wardian.sandbox.docker_cell import ChamberCell
from wardian.sandbox.engine import Engine
from wardian.sandbox.errors import LeakDetected, PoolTimeout, SnapshotRefused, SnapshotTooLarge
from wardian.sandbox.pool import CellPool
from wardian.sandbox.sealed import SealedFiles
from wardian.tools.faults import HARSH, MILD
from wardian.tools.packs.shell import SHELL

pytestmark = pytest.mark.anyio
TASK = "lending-desk/easy/seed-1"
LEND = call("lend_item", item_id=102, member_id=3, days=7)
COMMANDS = (
    "mkdir -p n/$(ls | wc -l); ls -R > /tmp/listed; sort /tmp/listed > n/list; cat n/list; ln -f n/list n/again",
    "mv tickets was && mkdir tickets; rm -rf was/*/g*; ls -l was tickets | wc -l",
    "truncate -s 1M big; printf x | dd of=big bs=1 seek=700000 conv=notrunc status=none; cksum big",
    "sort -u n/again 2>/dev/null | head -5; find . /tmp -printf '%p %n %m %s\\n' | sort",
)


@pytest.fixture(scope="module")
def billing() -> WorldDefinition:
    return load_world("billing")


@pytest.fixture(scope="module")
async def billing_cells(billing: WorldDefinition) -> AsyncIterator[CellPool]:
    async with CellPool(cell_spec(billing), size=4) as pool:
        yield pool


@pytest.fixture(scope="module")
def sqlite(billing: WorldDefinition) -> Template:
    return SqliteTemplate.build(billing.template)


@pytest.fixture(scope="module")
def postgres(billing: WorldDefinition, server: Server) -> Iterator[Template]:
    template = PostgresTemplate.build(billing.template, server, spares=3)
    yield template
    template.close()


Walk = list[tuple[Action, Step]]


async def walk(env: ToolEnvironment, task: str, seed: int, snapshot_at: int) -> tuple[Walk, Snapshot]:
    """A random walk to the end of an episode, and a snapshot of it after some steps: reads, writes, files, messages, waiting."""
    first = await env.reset(task, seed)
    rng, steps = Random(seed), Walk()
    mess, chance = vandal_calls(rng), random_calls(first, TaskView(env.reset_info.task.id, env.tool_schemas, seed))
    seen, taken = first, None
    action: Action = next(chance)
    while True:
        if len(steps) == snapshot_at:
            taken = await env.snapshot()
        which = rng.random()
        if which < 0.3:
            action = next(mess)
        elif which < 0.5:
            action = call("shell", command=rng.choice(COMMANDS))
        elif which < 0.6:
            action = call("wait", seconds=rng.randint(1, 900))
        else:
            action = chance.send(seen) if steps else action
            action = action if not isinstance(action, Message) or len(steps) > snapshot_at else call("wait", seconds=30)
        step = await env.step(action)
        seen = step.observation
        steps.append((action, step))
        if step.done:
            assert step.failed is None, step.failed
            assert taken is not None
            return steps, taken


async def play_on(env: ToolEnvironment, steps: Walk) -> None:
    """Take the same actions; each step must be the same to the last field: observation, reward, fingerprint, log, diff, verdict."""
    for action, expected in steps:
        found = await env.step(action)
        assert found == expected


@pytest.mark.parametrize(
    ("engine", "task", "seed", "at"),
    [
        ("sqlite", "billing-dispute/hard/seed-3", 4, 9),
        ("sqlite", "policy-escalation/medium/seed-4", 1, 9),
        ("postgres", "billing-dispute/hard/seed-3", 4, 9),
    ],
)
async def test_an_episode_goes_on_as_it_would_have(
    billing: WorldDefinition,
    billing_cells: CellPool,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    engine: str,
    task: str,
    seed: int,
    at: int,
) -> None:
    template: Template = request.getfixturevalue(engine)
    async with ToolEnvironment(billing, template=template, cells=billing_cells, faults=HARSH) as env:
        steps, snapshot = await walk(env, task, seed, at)
        rest = steps[at:]
        assert len(rest) > 3
        assert await env.restore(snapshot) == steps[at - 1][1].observation
        again = await env.snapshot()
        assert (again.differences(snapshot), again.past) == ((), snapshot.past)
        one, two, three = await env.fork(3)
        async with one, two, three:
            await play_on(env, rest)
            for number, expected in enumerate(rest[:8]):  # interleaved, and one of them stops in the middle
                for fork in (one, two, three)[: 3 if number < 3 else 2]:
                    await play_on(fork, [expected])
            assert (await three.snapshot()).step == at + 3
        save(snapshot, tmp_path / "saved")
        await env.restore(load(tmp_path / "saved", key_of(snapshot)))
        await play_on(env, rest)
    assert billing_cells.statistics().leased == 0
    notes = snapshot.memory["notes"]
    assert snapshot.copy_steps
    assert snapshot.memory["pending"]
    assert notes["faults"]["lag"]
    assert "late" in notes or "rates" in notes


async def test_forks_are_independent_and_can_be_restored_into_one_another(make_env: MakeEnv, toy: WorldDefinition) -> None:
    world = replace(toy, tools=(*toy.tools, SHELL))
    async with CellPool(cell_spec(world), size=3) as cells, make_env(world, cells=cells, faults=MILD) as env:
        await env.reset(TASK, seed=3)
        await env.step(call("shell", command="echo one > f"))
        left, right = await env.fork(2)
        async with left, right:
            assert left.reset_info.resumed_step == 1
            assert left.reset_info.fingerprint == env.reset_info.fingerprint
            before = await env.snapshot()
            await left.step(LEND)
            await left.step(call("shell", command="echo two > f"))
            assert (await env.snapshot()).differences(before) == (await right.snapshot()).differences(before) == ()
            at = await left.snapshot()
            await right.restore(at)
            assert (await right.snapshot()).differences(at) == ()
            assert await right.step(call("shell", command="cat f")) == await left.step(call("shell", command="cat f"))


@asynccontextmanager
async def one_cell(world: WorldDefinition, spec: CellSpec | None = None) -> AsyncIterator[CellPool]:
    async with CellPool(spec or cell_spec(world), size=1) as cells:
        yield cells


async def test_the_fresh_tier_takes_its_files_along(make_env: MakeEnv, toy: WorldDefinition) -> None:
    world = replace(toy, tools=(*toy.tools, SHELL))
    async with one_cell(world, cell_spec(world, Tier.FRESH)) as cells, make_env(world, cells=cells) as env:
        await env.reset(TASK)
        await env.step(call("shell", command="echo one > f; rm requests.txt"))
        snapshot = await env.snapshot()
        gone_on = await env.step(call("shell", command="ls; cat f"))
        await env.restore(snapshot)
        assert await env.step(call("shell", command="ls; cat f")) == gone_on
        with pytest.raises(SnapshotRefused, match="cells: "):
            await make_env(world).restore(snapshot)


async def test_a_snapshot_of_something_else_is_refused_and_the_running_episode_goes_on(make_env: MakeEnv, toy: WorldDefinition) -> None:
    async with make_env() as env:
        await env.reset(TASK)
        await env.step(LEND)
        snapshot = await env.snapshot()
        for field, value in (("renderer", "0"), ("environment", "toy@0"), ("tools", "x"), ("task", "x"), ("template", "x"), ("cells", "x")):
            with pytest.raises(SnapshotRefused, match=f"{field}: {value}, and here|of another task"):
                await env.restore(replace(snapshot, versions={**snapshot.versions, field: value}))
        assert (await env.snapshot()).differences(snapshot) == ()
        async with make_env(faults=HARSH) as other:
            with pytest.raises(SnapshotRefused, match=r"faults: none .*, and here it is harsh"):
                await other.restore(snapshot)


async def test_an_ended_episode_comes_back_ended(make_env: MakeEnv) -> None:
    async with make_env(settings=Settings(hold_ended=True)) as env:
        await env.reset(TASK)
        await env.step(Message("Done."))
        await env.restore(await env.snapshot())
        with pytest.raises(NotReset, match="has ended"):
            await env.step(LEND)


async def test_in_the_middle_of_a_step_there_is_no_snapshot(make_env: MakeEnv, toy: WorldDefinition) -> None:
    world = replace(toy, tools=(*toy.tools, SHELL))
    async with make_env(world) as env:
        await env.reset(TASK)
        before = await env.snapshot()
        async with anyio.create_task_group() as group:
            group.start_soon(env.step, call("shell", command="sleep 0.3"))
            await anyio.lowlevel.checkpoint()
            for act in (env.snapshot, lambda: env.restore(before), lambda: env.fork(1), lambda: env.step(LEND), lambda: env.reset(TASK)):
                with pytest.raises(CallInFlight, match="a step is under way"):
                    await act()
        assert (await env.snapshot()).step == 1


@pytest.mark.parametrize("what", ["reset", "step", "snapshot", "restore", "fork"])
async def test_closing_breaks_off_what_is_under_way(make_env: MakeEnv, toy: WorldDefinition, cells: CellPool, what: str) -> None:
    async with make_env(replace(toy, tools=(*toy.tools, SHELL))) as env:
        await env.reset(TASK)
        before = await env.snapshot()
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "reset": lambda: env.reset(TASK),
            "step": lambda: env.step(call("shell", command="sleep 5")),
            "snapshot": env.snapshot,
            "restore": lambda: env.restore(before),
            "fork": lambda: env.fork(1),
        }

        async def broken_off() -> None:
            with pytest.raises(NotReset, match="closed meanwhile, and the (snapshot|" + what + ") broken off"):
                await calls[what]()

        async with anyio.create_task_group() as group:
            group.start_soon(broken_off)
            await anyio.lowlevel.checkpoint()
            await env.close()
        with pytest.raises(NotReset, match="no episode runs"):
            await env.step(LEND)
    await cells.settle()
    assert cells.statistics().leased == 0


async def test_what_is_too_large_is_said_and_costs_nothing(make_env: MakeEnv, toy: WorldDefinition, tmp_path: Path) -> None:
    world = replace(toy, tools=(*toy.tools, SHELL))
    async with make_env(world, settings=Settings(snapshot_mib=1)) as env:
        await env.reset(TASK)
        await env.step(call("shell", command="head -c 2M /dev/urandom > big"))
        with pytest.raises(SnapshotTooLarge, match="more than 1048576 bytes"):
            await env.snapshot()
        assert (await env.step(call("shell", command="truncate -s 900M big; ls -s big"))).observation.results[0]["status"] == "ok"
        await env.step(call("shell", command="truncate -s 0 big; truncate -s 60M big"))
        snapshot = await env.snapshot()
        with pytest.raises(SnapshotTooLarge, match=r"takes .* bytes, and 100 are allowed"):
            save(snapshot, tmp_path / "small", most_bytes=100)
        assert not os.listdir(tmp_path)


async def test_a_fork_without_room_fails_at_once_or_after_a_bounded_wait(make_env: MakeEnv, cells: CellPool) -> None:
    async with make_env() as env, make_env() as other:
        await env.reset(TASK)
        with pytest.raises(PoolTimeout, match="3 cells are wanted beside 1 in use, and the pool has 2: make it of size 4"):
            await env.fork(3)
        await other.reset(TASK)
        with pytest.raises(PoolTimeout, match=r"0 of 1 cells became free within 0\.05 s"):
            await env.fork(1, wait_s=0.05)
        with pytest.raises(ValueError, match="count"):
            await env.fork(0)
        await other.close()
        (fork,) = await env.fork(1)
        await fork.close()
        assert (await env.step(LEND)).failed is None
    await cells.settle()
    assert cells.statistics().leased == 0


ELSEWHERE = """
import sys, anyio
from pathlib import Path
from wardian.envs.action import call
from wardian.envs.registry import load_world, open_environment
from wardian.envs.saving import load

async def main():
    async with open_environment(load_world("toy"), faults="mild") as env:
        await env.restore(load(Path(sys.argv[1]), sys.argv[2]))
        step = await env.step(call("lend_item", item_id=102, member_id=3, days=7))
        print(step.info.clock_ms, step.info.fingerprint.root, step.observation.rendered)

anyio.run(main)
"""


def test_the_example_of_the_page_runs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "snapshots.md").read_text()
    example = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"in_house": true') > 1


async def test_another_process_goes_on_as_this_one(make_env: MakeEnv, tmp_path: Path) -> None:
    async with make_env(faults=MILD) as env:
        await env.reset(TASK, seed=4)
        await env.step(call("return_item", item_id=103))
        key = save(await env.snapshot(), tmp_path / "saved")
        step = await env.step(LEND)
    assert step.info.fingerprint is not None
    command = [sys.executable, "-c", ELSEWHERE, str(tmp_path / "saved"), key]
    done = await anyio.run_process(command, env={**os.environ, "PYTHONHASHSEED": "4711"}, stderr=None)
    assert done.stdout.decode().strip() == f"{step.info.clock_ms} {step.info.fingerprint.root} {step.observation.rendered}"


# Damage and sabotage


async def saved(env: ToolEnvironment, folder: Path) -> Snapshot:
    await env.reset(TASK)
    await env.step(LEND)
    snapshot = await env.snapshot()
    assert save(snapshot, folder) == key_of(snapshot)
    return snapshot


async def test_a_saved_snapshot_that_is_not_whole_is_refused(make_env: MakeEnv, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    async with make_env() as env:
        snapshot = await saved(env, folder)
    assert load(folder) == snapshot
    with pytest.raises(FileExistsError, match="is there already"):
        save(snapshot, folder)
    for part in [folder / MANIFEST, *(folder / PARTS).iterdir()]:
        whole = part.read_bytes()
        for damaged in (whole[:-1] + b"?", whole[: len(whole) // 2], whole + b"x", None):
            if damaged is None:
                part.unlink()
            else:
                part.write_bytes(damaged)
            with pytest.raises(SnapshotRefused):
                load(folder)
            part.write_bytes(whole)
    assert load(folder) == snapshot


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda manifest: manifest | {"format": 99}, "format 99"),
        (lambda manifest: manifest | {"key": "0" * 32}, "its key is not that of its parts"),
        (lambda manifest: manifest | {"parts": {**manifest["parts"], "state": "../snapshot"}}, "its key is not"),
        (lambda manifest: [], "no whole snapshot"),
    ],
    ids=["format", "key", "path", "list"],
)
async def test_a_manifest_that_was_changed_is_refused(
    make_env: MakeEnv, tmp_path: Path, change: Callable[[dict[str, object]], object], said: str
) -> None:
    async with make_env() as env:
        await saved(env, tmp_path / "one")
    manifest = tmp_path / "one" / MANIFEST
    manifest.write_text(json.dumps(change(json.loads(manifest.read_text()))))
    with pytest.raises(SnapshotRefused, match=said):
        load(tmp_path / "one")
    with pytest.raises(SnapshotRefused, match="no whole snapshot"):
        load(tmp_path / "none")


async def test_another_key_than_the_wanted_one_is_refused(make_env: MakeEnv, tmp_path: Path) -> None:
    async with make_env() as env:
        await saved(env, tmp_path / "one")
    with pytest.raises(SnapshotRefused, match="and ff was asked for"):
        load(tmp_path / "one", "ff")


class AddingTemplate(Template):
    """Sabotage: what it restores holds a row more."""

    def __init__(self, clean: Template) -> None:
        self.clean = clean
        self.key, self.fingerprint, self.size_bytes, self.engine = clean.key, clean.fingerprint, clean.size_bytes, clean.engine

    def clone(self) -> WorldDatabase:
        return self.clean.clone()

    def restore(self, sealed: SealedDatabase) -> tuple[WorldDatabase, tuple[FrozenDatabase, ...]]:
        database, copies = self.clean.restore(sealed)
        with database.transaction() as session:
            session.add(Member(id=99, name="not of the snapshot", suspended=False))
        return database, copies


class ForgettingCell(ChamberCell):
    """Sabotage: it begins clean, whatever files it is given."""

    async def restore(self, files: SealedFiles | None = None):  # type: ignore[no-untyped-def]
        return await super().restore()


async def test_a_row_too_many_is_caught_and_the_cell_is_not_used_again(make_env: MakeEnv, template: Template, toy: WorldDefinition) -> None:
    async with one_cell(toy) as cells, make_env(template=AddingTemplate(template), cells=cells) as env:
        await env.reset(TASK)
        snapshot = await env.snapshot()
        with pytest.raises(LeakDetected, match="database/members"):
            await env.restore(snapshot)
        assert env.leaks_found == 1
        with pytest.raises(NotReset):
            await env.step(LEND)
        await env.reset(TASK)
        assert cells.statistics().replaced == 1


async def test_files_that_are_missing_are_caught(make_env: MakeEnv, toy: WorldDefinition) -> None:
    engine = await Engine.open()

    def forgetting(spec: CellSpec, uid: int) -> Cell:
        return ForgettingCell(spec, engine, uid)

    async with CellPool(cell_spec(toy), size=1, make_cell=forgetting) as cells, make_env(cells=cells) as env:
        await env.reset(TASK)
        snapshot = await env.snapshot()
        assert snapshot.sealed_files is not None
        assert not snapshot.sealed_files.empty
        with pytest.raises(LeakDetected, match="files: expected"):
            await env.restore(snapshot)
    engine.close()
