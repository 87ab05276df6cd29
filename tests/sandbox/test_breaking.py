"""What once broke a cell: paths led out of a chamber, cancels that ended nothing, deaths laid on the wrong episode."""

import contextlib
import time

import anyio
import anyio.lowlevel
import pytest

from wardian.sandbox.cell import Cell, CellSpec, Command, ExecOutcome, Tier
from wardian.sandbox.engine import Engine
from wardian.sandbox.errors import CellDied, DeathCause, FileProblem, FileProblemKind
from wardian.sandbox.files import FileEntry, FileLayer
from wardian.sandbox.pool import CellPool

GIVEN = FileLayer({"/workspace/given/a.txt": FileEntry(b"one\n")})
DESCRIPTORS = range(3, 24)


async def test_a_file_worker_cannot_be_led_to_the_sealed_layers(engine: Engine, image: str) -> None:
    async with CellPool(CellSpec(image, layers=(GIVEN,)), 1, engine=engine) as pool:
        async with pool.lease() as lease:
            for number in DESCRIPTORS:
                for place in (f"layers/{GIVEN.key}/workspace/given/a.txt", "workspace/direct"):
                    with pytest.raises(FileProblem):
                        await lease.cell.write_files(FileLayer({f"/proc/self/fd/{number}/{place}": FileEntry(b"LEAKED")}))
        async with pool.lease() as lease:
            assert (await lease.cell.read_file("/workspace/given/a.txt")).data == b"one\n"


async def test_a_link_through_a_descriptor_leads_nowhere(engine: Engine, image: str) -> None:
    async with CellPool(CellSpec(image, layers=(GIVEN,)), 1, engine=engine) as pool, pool.lease() as lease:
        for number in DESCRIPTORS:
            link = f"/workspace/x{number}"
            await lease.cell.exec(Command(argv=("ln", "-s", f"/proc/self/fd/{number}/../..", link)))
            with pytest.raises(FileProblem):
                await lease.cell.write_files(FileLayer({f"{link}/layers/{GIVEN.key}/workspace/given/a.txt": FileEntry(b"LEAKED")}))


async def test_a_working_directory_through_a_descriptor_starts_nothing(engine: Engine, image: str) -> None:
    async with CellPool(CellSpec(image, layers=(GIVEN,)), 1, engine=engine) as pool, pool.lease() as lease:
        for number in DESCRIPTORS:
            result = await lease.cell.exec(Command(argv=("ls", "layers"), workdir=f"/proc/self/fd/{number}/../.."))
            assert result.outcome is ExecOutcome.COULD_NOT_START


async def test_a_command_that_is_cancelled_at_once_is_ended_and_the_cell_lives(engine: Engine, image: str) -> None:
    async with CellPool(CellSpec(image), 1, engine=engine) as pool, pool.lease() as lease:
        for milliseconds in range(12):
            with anyio.move_on_after(milliseconds / 1000):
                await lease.cell.exec(Command(script="sleep 77"))
        with anyio.fail_after(10):
            while "sleep\x0077" in (await lease.cell.exec(Command(script="cat /proc/[0-9]*/cmdline"))).stdout.text():
                await anyio.lowlevel.checkpoint()


END_INIT = """
import os, signal, time
inits = [int(name) for name in os.listdir("/proc") if name.isdigit() and open(f"/proc/{name}/stat").read().split()[3] == "1"]
while not any(b"sleep\\x0077" in open(f"/proc/{name}/cmdline", "rb").read() for name in os.listdir("/proc") if name.isdigit()):
    time.sleep(0.01)
os.kill(inits[0], signal.SIGKILL)
"""


async def test_an_earlier_episodes_memory_does_not_explain_a_later_death(engine: Engine, image: str) -> None:
    async with CellPool(CellSpec(image), 1, engine=engine) as pool:
        async with pool.lease() as lease:
            bomb = await lease.cell.exec(Command(argv=("python3", "-c", 'x = [bytearray(b"x") * (1 << 20) for _ in range(4096)]')))
            assert bomb.outcome is ExecOutcome.OUT_OF_MEMORY
        async with pool.lease() as lease:
            cell, argv = lease.cell.id, ["python3", "-c", END_INIT]
            made = await engine.run("exec", lambda api: api.exec_create(cell, argv, user="0"))
            await engine.run("exec", lambda api: api.exec_start(made["Id"], detach=True))
            with pytest.raises(CellDied, match="init died") as caught:
                await lease.cell.exec(Command(argv=("sleep", "77")))
        assert caught.value.cause is DeathCause.INFRASTRUCTURE


NESTED = "import os\nfor _ in range(2000):\n    os.mkdir('d')\n    os.chdir('d')\n"
LINKS = "import os\nos.symlink('x' * 4000, 'l')\nfor n in range(3000):\n    os.link('l', f'l{n}')\n"
SPARSE = "for n in range(2000):\n    with open(f'f{n}', 'w') as out:\n        out.truncate(60 << 20)\n"
NAMES = "import os\nos.chdir('/tmp')\nfor n in range(20_000):\n    open('x' * 240 + str(n), 'w').close()\n"


@pytest.mark.parametrize("tier", list(Tier))
@pytest.mark.parametrize(
    "script", [NESTED, SPARSE, NAMES, LINKS], ids=["2000 directories deep", "2000 sparse files", "5 MB of names", "12 MB of links' targets"]
)
async def test_files_beyond_what_can_be_listed_are_the_policys_doing(script: str, tier: Tier, engine: Engine, image: str) -> None:
    async with CellPool(CellSpec(image, tier=tier), 1, engine=engine) as pool, pool.lease() as lease:
        made = await lease.cell.exec(Command(argv=("python3", "-c", script)))
        assert made.exit_code == 0, made.stderr.text()
        with pytest.raises(CellDied) as caught:
            await lease.cell.changes()
        assert caught.value.cause is DeathCause.POLICY


async def test_many_ordinary_files_are_listed(engine: Engine, image: str) -> None:
    script = "mkdir -p a/b/c/d && cd a/b/c/d && seq 3000 | xargs -n 500 touch"
    async with CellPool(CellSpec(image), 1, engine=engine) as pool, pool.lease() as lease:
        assert (await lease.cell.exec(Command(script=script))).exit_code == 0
        assert len((await lease.cell.changes()).changes) == 3004


@pytest.mark.parametrize(
    "path", ["😀" * 8000, "d/" * 1500 + "f", "x" * 1_000_000, "/" + "é" * 3000], ids=["emoji", "parents", "long", "accents"]
)
async def test_a_path_of_any_length_has_an_answer(path: str, engine: Engine, image: str) -> None:
    async with CellPool(CellSpec(image), 1, engine=engine) as pool, pool.lease() as lease:
        with pytest.raises(FileProblem) as caught:
            await lease.cell.read_file(path)
        assert len(str(caught.value)) < 10_000
        assert (await lease.cell.exec(Command(argv=("true",)))).exit_code == 0


async def test_a_script_of_wide_characters_runs(engine: Engine, image: str) -> None:
    async with CellPool(CellSpec(image), 1, engine=engine) as pool, pool.lease() as lease:
        result = await lease.cell.exec(Command(script="x='" + "世" * 9000 + "'; echo ${#x}"))
        assert result.stdout.text() == "9000\n"


async def test_more_stdin_than_the_cell_can_hold_is_refused_and_the_cell_lives(engine: Engine, image: str) -> None:
    async with CellPool(CellSpec(image), 1, engine=engine) as pool, pool.lease() as lease:
        result = await lease.cell.exec(Command(argv=("cat",), stdin=b"x" * (200 << 20)))
        assert result.outcome is ExecOutcome.COULD_NOT_START
        assert "larger than" in result.detail
        assert (await lease.cell.exec(Command(argv=("true",)))).exit_code == 0


async def test_a_node_without_a_type_is_a_regular_file(engine: Engine, image: str) -> None:
    script = "import os\nos.mknod('plain', 0o600)\nassert os.path.isfile('plain')"
    async with CellPool(CellSpec(image), 1, engine=engine) as pool, pool.lease() as lease:
        assert (await lease.cell.exec(Command(argv=("python3", "-c", script)))).exit_code == 0


async def test_a_directory_beyond_what_can_be_listed_is_refused_by_a_type(engine: Engine, image: str) -> None:
    script = "import os\nos.mkdir('d')\nfor n in range(20_001):\n    os.link('given', f'd/{n}') if n else open('given', 'w').close()"
    async with CellPool(CellSpec(image), 1, engine=engine) as pool, pool.lease() as lease:
        assert (await lease.cell.exec(Command(argv=("python3", "-c", script + "\nos.link('given', 'd/x')")))).exit_code == 0
        with pytest.raises(FileProblem) as caught:
            await lease.cell.list_dir("/workspace/d")
        assert caught.value.kind is FileProblemKind.TOO_LARGE


@pytest.mark.parametrize("tier", list(Tier))
async def test_an_offset_beyond_any_file_is_a_problem_of_the_agents(tier: Tier, engine: Engine, image: str) -> None:
    async with CellPool(CellSpec(image, tier=tier), 1, engine=engine) as pool, pool.lease() as lease:
        for offset in (1 << 62, 1 << 63, 1 << 70):
            with contextlib.suppress(FileProblem):
                assert (await lease.cell.read_file("/etc/passwd", offset=offset)).data == b""
        assert (await lease.cell.exec(Command(script="echo \ud800"))).outcome is ExecOutcome.COULD_NOT_START
        assert (await lease.cell.exec(Command(argv=("wc", "-c"), stdin=b"x" * (70 << 20)))).stdout.text() == "73400320\n"


SEGMENTS = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(sum(libc.shmget(0, 1 << 20, 0o1666) >= 0 for _ in range(100)))
"""
QUEUES = """
import socket
server, held, queued = socket.create_server(("127.0.0.1", 0)), [], 0
for _ in range(60):
    held += (one := socket.create_connection(server.getsockname())), (other := server.accept()[0])
    for end in (one, other):
        end.setblocking(False)
        try:
            while True:
                queued += end.send(b"x" * 65536)
        except BlockingIOError:
            pass
print(queued >> 20)
"""


@pytest.mark.parametrize("tier", list(Tier))
async def test_what_outlives_a_command_is_bounded(tier: Tier, engine: Engine, image: str) -> None:
    """System V segments belong to no process: what ends a command does not give their memory back."""
    async with CellPool(CellSpec(image, tier=tier), 1, engine=engine) as pool, pool.lease() as lease:
        result = await lease.cell.exec(Command(argv=("python3", "-c", SEGMENTS)))
        assert int(result.stdout.text()) <= lease.cell.spec.limits.shm_mib


async def test_what_is_queued_in_sockets_is_bounded(engine: Engine, image: str) -> None:
    async with CellPool(CellSpec(image), 1, engine=engine) as pool, pool.lease() as lease:
        result = await lease.cell.exec(Command(argv=("python3", "-c", QUEUES)))
        assert 0 < int(result.stdout.text()) <= 40, result.stderr.text()


ATTACK = """
import os
while True:
    for pid in range(2, 300):
        try:
            if pid != os.getpid():
                os.kill(pid, 9)
        except OSError:
            pass
"""


async def write_until_it_dies(cell: Cell) -> None:
    while True:
        await cell.write_files(FileLayer({"/workspace/big": FileEntry(b"x" * (4 << 20))}))


async def test_a_file_worker_that_the_agent_kills_is_the_policys_doing(engine: Engine, image: str) -> None:
    async with CellPool(CellSpec(image), 1, engine=engine) as pool, pool.lease() as lease, anyio.create_task_group() as group:
        group.start_soon(lease.cell.exec, Command(argv=("python3", "-c", ATTACK), timeout_s=60))
        with anyio.fail_after(50), pytest.raises(CellDied) as caught:
            await write_until_it_dies(lease.cell)
        group.cancel_scope.cancel()
    assert caught.value.cause is DeathCause.POLICY


async def test_the_engine_remembers_when_memory_ran_out(engine: Engine, image: str) -> None:
    async with CellPool(CellSpec(image), 1, engine=engine) as pool, pool.lease() as lease:
        began = time.time()
        await lease.cell.exec(Command(argv=("python3", "-c", 'x = [bytearray(b"x") * (1 << 20) for _ in range(4096)]')))
        with anyio.fail_after(10):
            while not await engine.ran_out_of_memory(lease.cell.id, began):
                await anyio.lowlevel.checkpoint()
        assert not await engine.ran_out_of_memory(lease.cell.id, time.time())
