"""What the parts of the contract share: the factory, the cell under test, and how a script is run in it."""

import os
from collections.abc import AsyncIterator, Callable

import pytest

from wardian.sandbox.cell import Cell, CellSpec, Command, ExecOutcome, ExecResult, Limits
from wardian.sandbox.files import FileEntry, FileLayer

MakeCell = Callable[[CellSpec, int], Cell]
UID = 21000
GIVEN = FileLayer(
    {
        "/workspace/given/a.txt": FileEntry(b"one\n"),
        "/workspace/given/deep/b.txt": FileEntry(b"two\n"),
        "/workspace/given/run.sh": FileEntry(b"#!/bin/bash\necho ran\n", 0o755),
    }
)
LIMITS = Limits(memory_mib=128, disk_mib=24, shm_mib=4, processes=64, cpus=1.0, open_files=256, file_size_mib=16)
SPEC = CellSpec("", layers=(GIVEN,), limits=LIMITS)
"""What the factory gets; it puts its own image and tier in."""


class CellSuite:
    """Base of each part."""

    @pytest.fixture
    def make_cell(self) -> MakeCell:
        """From a spec, whose image and tier are to be replaced, and a uid to a cell that was not started."""
        raise NotImplementedError("override the fixture make_cell")

    @pytest.fixture
    async def cell(self, make_cell: MakeCell, anyio_backend: str) -> AsyncIterator[Cell]:
        """A restored cell."""
        cell = make_cell(SPEC, UID)
        try:
            await cell.start()
            await cell.restore()
            yield cell
        finally:
            await cell.stop()


async def run(cell: Cell, script: str, timeout_s: float = 20.0, stdin: bytes = b"") -> ExecResult:
    return await cell.exec(Command(script=script, timeout_s=timeout_s, stdin=stdin))


async def python(cell: Cell, code: str, timeout_s: float = 20.0) -> str:
    """Run `code` and give what it printed; it must end with 0."""
    result = await cell.exec(Command(argv=("/usr/bin/python3", "-c", code), timeout_s=timeout_s))
    assert (result.outcome, result.exit_code) == (ExecOutcome.EXITED, 0), result.stderr.text() + result.detail
    return result.stdout.text()


async def printed(cell: Cell, script: str, timeout_s: float = 20.0) -> str:
    """Run `script` and give what it printed; it must end with 0."""
    result = await run(cell, script, timeout_s)
    assert (result.outcome, result.exit_code) == (ExecOutcome.EXITED, 0), result.stderr.text() + result.detail
    return result.stdout.text()


async def alive(cell: Cell, marker: str) -> bool:
    """Whether a process whose arguments hold `marker` runs in the cell, by the process list there."""
    return marker in (await printed(cell, "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '; true"))


def peak_memory_mib() -> int:
    """The most that this process ever held."""
    with open(f"/proc/{os.getpid()}/status") as status:
        return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM:"))
