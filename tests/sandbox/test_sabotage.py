"""Things that survive a reset: each is noticed, recorded, and nobody is served on top of it.

A chamber leaves an agent no way to keep anything. So it is done here from outside, as the engine's root in the container
around the chamber, and by a cell whose reset takes the used container again instead of a fresh one.
"""

from collections.abc import Callable

import pytest

from wardian.sandbox.cell import Cell, CellSpec, Command, ExecOutcome, Tier
from wardian.sandbox.container import Container
from wardian.sandbox.docker_cell import FreshCell
from wardian.sandbox.engine import Engine
from wardian.sandbox.files import FileEntry, FileLayer
from wardian.sandbox.pool import CellPool

pytestmark = pytest.mark.anyio
GIVEN = FileLayer({"/workspace/given.txt": FileEntry(b"given\n")})
LISTEN = """
import socket, sys
server = socket.create_server(("127.0.0.1", 8000))
open("/dev/shm/up", "w").close()
server.accept()
"""
IN_CHAMBERS_NETWORK = f"""
import ctypes, glob, os
pid = max((int(path.split('/')[2]) for path in glob.glob('/proc/[0-9]*/stat')
           if os.stat(os.path.dirname(path) + '/ns/net').st_ino != os.stat('/proc/self/ns/net').st_ino))
assert ctypes.CDLL(None, use_errno=True).setns(os.open(f'/proc/{{pid}}/ns/net', os.O_RDONLY), 0x40000000) == 0
{LISTEN}"""


class KeepingCell(FreshCell):
    """Sabotage: its reset goes on with the container that the episode had."""

    async def _prepare(self, clean_is_enough: bool) -> Container:
        return self._running()


async def as_root(engine: Engine, cell: str, *argv: str) -> None:
    """Start a process in the cell's container, as root, and return when it runs."""
    made = await engine.run("exec", lambda api: api.exec_create(cell, list(argv), user="0"))
    await engine.run("exec", lambda api: api.exec_start(made["Id"], detach=True))


async def code_by_root(engine: Engine, cell: str, script: str) -> int:
    """Run `script` in the cell's container, as root, to its end; gives its exit code."""
    made = await engine.run("exec", lambda api: api.exec_create(cell, ["/bin/sh", "-c", script], user="0"))
    await engine.run("exec", lambda api: api.exec_start(made["Id"]))
    return int((await engine.run("exec", lambda api: api.exec_inspect(made["Id"])))["ExitCode"])


async def assert_caught(pool: CellPool, engine: Engine, sabotaged: str, leaf: str) -> None:
    """The next lease is served by another, clean cell; the leak is counted and told; the leaking container is gone."""
    async with pool.lease() as lease:
        assert lease.cell.id != sabotaged
        assert await state_of(lease.cell) == "given.txt\n"
        found = pool.statistics()
    assert (len(found.leaks), found.quarantined, found.replaced) == (1, 1, 1)
    assert found.leaks[0].cell_id == sabotaged
    assert any(line.startswith(leaf) for line in found.leaks[0].differences), found.leaks[0].differences
    assert await engine.inspect(sabotaged) == {}


async def state_of(cell: Cell) -> str:
    """Everything that an episode could find of another one."""
    script = "ls -A /workspace /dev/shm /tmp | grep -v -e : -e '^$'; grep -l '773[1]' /proc/[0-9]*/cmdline; tail -n +2 /proc/net/tcp; true"
    result = await cell.exec(Command(script=script))
    assert (result.outcome, result.exit_code) == (ExecOutcome.EXITED, 0)
    return result.stdout.text()


@pytest.mark.parametrize("argv", [("sleep", "7731"), ("python3", "-c", IN_CHAMBERS_NETWORK)], ids=["process", "listener in the chamber"])
async def test_a_process_beside_the_chamber_is_caught(argv: tuple[str, ...], engine: Engine, image: str) -> None:
    async with CellPool(CellSpec(image, layers=(GIVEN,)), 1, engine=engine) as pool:
        async with pool.lease() as lease:
            await lease.cell.write_files(GIVEN)
            await lease.cell.restore(await lease.cell.seal_files())  # from here on a chamber for sealed files stands ahead too
            await as_root(engine, lease.cell.id, *argv)
        await assert_caught(pool, engine, lease.cell.id, "strangers")


LAYER = f"/cell/layers/{GIVEN.key}"
UNSEALED = f"mount -o remount,rw {LAYER} && sed -i s/given/GIVEN/ {LAYER}/workspace/given.txt"


async def test_not_even_the_containers_root_writes_into_a_sealed_layer(engine: Engine, image: str) -> None:
    async with CellPool(CellSpec(image, layers=(GIVEN,)), 1, engine=engine) as pool, pool.lease() as lease:
        for change in (f"echo x > {LAYER}/kept", f"echo x >> {LAYER}/workspace/given.txt", f"chmod 777 {LAYER}"):
            assert await code_by_root(engine, lease.cell.id, change) != 0


@pytest.mark.parametrize("change", [UNSEALED, f"mount -o remount,rw {LAYER}"], ids=["changed deep below", "only unsealed"])
async def test_a_layer_that_was_unsealed_is_caught(change: str, engine: Engine, image: str) -> None:
    async with CellPool(CellSpec(image, layers=(GIVEN,)), 1, engine=engine) as pool:
        async with pool.lease() as lease:
            assert await code_by_root(engine, lease.cell.id, change) == 0
        await assert_caught(pool, engine, lease.cell.id, "layers")


async def test_a_layer_sealed_again_is_what_the_deep_pass_catches(engine: Engine, image: str) -> None:
    async with CellPool(CellSpec(image, layers=(GIVEN,), deep_checks=True), 1, engine=engine) as pool:
        async with pool.lease() as lease:
            again = f"{UNSEALED} && mount -o remount,ro {LAYER}"
            assert await code_by_root(engine, lease.cell.id, again) == 0
        await pool.audit()
        await assert_caught(pool, engine, lease.cell.id, f"deep/{GIVEN.key}")
        assert pool.statistics().deep_checks == 2  # of the first cell when it was made, and of the one that took its place


KEPT = {
    "file": ("echo x > kept", "files"),
    "hidden file": ("mkdir -p ~/.config && echo x > ~/.config/kept", "files"),
    "changed file": ("echo x >> given.txt", "files"),
    "removed file": ("rm given.txt", "files"),
    "mode": ("chmod 600 given.txt", "files"),
    "temporary file": ("echo x > /tmp/kept", "files"),
    "shared memory": ("echo x > /dev/shm/kept", "shm"),
    "System V": ("python3 -c 'import ctypes; assert ctypes.CDLL(None).shmget(7, 4096, 0o1666) >= 0'", "ipc"),
}


@pytest.fixture
def keeping_pool(engine: Engine, image: str) -> Callable[[], CellPool]:
    spec = CellSpec(image, tier=Tier.FRESH, layers=(GIVEN,))
    return lambda: CellPool(spec, 1, make_cell=lambda spec, uid: KeepingCell(spec, engine, uid))


@pytest.mark.parametrize(("script", "leaf"), KEPT.values(), ids=KEPT.keys())
async def test_what_a_used_container_keeps_is_caught(script: str, leaf: str, engine: Engine, keeping_pool: Callable[[], CellPool]) -> None:
    async with keeping_pool() as pool:
        async with pool.lease() as lease:
            assert (await lease.cell.exec(Command(script=script))).exit_code == 0
            sabotaged = lease.cell.id
        await assert_caught(pool, engine, sabotaged, leaf)


@pytest.mark.parametrize(
    ("argv", "leaf"), [(("sleep", "7731"), "strangers"), (("python3", "-c", LISTEN), "network")], ids=["process", "port"]
)
async def test_what_runs_on_in_a_used_container_is_caught(
    argv: tuple[str, ...], leaf: str, engine: Engine, keeping_pool: Callable[[], CellPool]
) -> None:
    async with keeping_pool() as pool:
        async with pool.lease() as lease:
            sabotaged = lease.cell.id
            await as_root(engine, sabotaged, *argv)
            if leaf == "network":
                await until_listening(lease.cell)
        await assert_caught(pool, engine, sabotaged, leaf)


async def until_listening(cell: Cell) -> None:
    result = await cell.exec(Command(script="until [ -e /dev/shm/up ]; do :; done", timeout_s=10))
    assert result.outcome is ExecOutcome.EXITED
