"""No descriptor of a trusted process leads an agent's path out of the chamber, and a cancelled command is ended."""

import anyio
import anyio.lowlevel
import pytest

from wardian.sandbox.cell import CellSpec, Command, ExecOutcome
from wardian.sandbox.engine import Engine
from wardian.sandbox.errors import FileProblem
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
