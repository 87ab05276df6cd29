"""A derived image tried as a cell of each tier, by a part of the cell contract that needs nothing of the image but what it has."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from wardian.sandbox.cell import Cell, CellSpec, Command, ExecOutcome, Limits, Tier
from wardian.sandbox.docker_cell import make_cell
from wardian.sandbox.engine import Engine
from wardian.sandbox.errors import FileProblem, FileProblemKind, SandboxError
from wardian.sandbox.files import FileEntry, FileLayer
from wardian.sandbox.probe import UID

GIVEN, WRITTEN = "/workspace/given/file", "/workspace/new/file"
LAYER = FileLayer({GIVEN: FileEntry(b"given\n")})
LIMITS = Limits(memory_mib=128, disk_mib=8, shm_mib=1, processes=32)
SCRIPT = "echo out; echo err >&2; exit 3"


class Unfit(Exception):
    """A check did not find what it must; says what it found."""


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    passed: bool
    detail: str = ""


@dataclass(slots=True)
class TierTrial:
    """What came of one tier."""

    tier: Tier
    findings: list[Finding] = field(default_factory=list)
    shell: str = ""
    """What ran a script; empty for nothing."""

    @property
    def works(self) -> bool:
        """Whether episodes can be played: all passed but the shell, without which only scripts cannot run."""
        return all(finding.passed for finding in self.findings if finding.check != "shell")


async def try_image(engine: Engine, image: str, shells: Sequence[str], runtime: str | None = None) -> tuple[TierTrial, ...]:
    """Try `image` in every tier; leaves nothing. `shells` are tried in their order.

    What does not work is a finding and no error.
    """
    spec = CellSpec(image, layers=(LAYER,), limits=LIMITS, runtime=runtime)
    return tuple([await _try(make_cell(replace(spec, tier=tier), engine, UID), shells) for tier in Tier])


async def _try(cell: Cell, shells: Sequence[str]) -> TierTrial:
    trial = TierTrial(cell.tier)

    async def shell() -> str:
        trial.shell = await _shell(cell, shells)
        return trial.shell

    checks: tuple[tuple[str, Callable[[], Awaitable[str]]], ...] = (
        ("start", lambda: _start(cell)),
        ("files", lambda: _files(cell)),
        ("shell", shell),
        ("changes", lambda: _changes(cell)),
        ("reset", lambda: _reset(cell)),
        ("deep pass", lambda: _deep(cell)),
    )
    try:
        for name, check in checks:
            finding = await _finding(name, check)
            trial.findings.append(finding)
            if not finding.passed and name != "shell":
                break
    finally:
        await cell.stop()
    return trial


async def _finding(name: str, check: Callable[[], Awaitable[str]]) -> Finding:
    try:
        return Finding(name, True, await check())
    except (Unfit, SandboxError) as problem:
        return Finding(name, False, str(problem))


async def _start(cell: Cell) -> str:
    await cell.start()
    receipt = await cell.restore()
    return f"reset in {receipt.total_ms:.1f} ms"


async def _files(cell: Cell) -> str:
    """A given file is there, one can be written, and the image's own cannot."""
    await cell.write_files(FileLayer({WRITTEN: FileEntry(b"written\n")}))
    found = [(await cell.read_file(path)).data for path in (GIVEN, WRITTEN)]
    if found != [b"given\n", b"written\n"]:
        raise Unfit(f"read {found}")
    try:
        await cell.write_files(FileLayer({"/etc/passwd": FileEntry(b"")}))
    except FileProblem as problem:
        if problem.kind is FileProblemKind.PERMISSION_DENIED:
            return "read, written, and kept from the image's own"
        raise
    raise Unfit("the agent could replace /etc/passwd")


async def _shell(cell: Cell, shells: Sequence[str]) -> str:
    said = []
    for shell in shells:
        done = await cell.exec(Command(argv=(shell, "-c", SCRIPT), timeout_s=10))
        if (done.outcome, done.exit_code, done.stdout.data, done.stderr.data) == (ExecOutcome.EXITED, 3, b"out\n", b"err\n"):
            return shell
        said.append(f"{shell} {done.outcome.value}: {done.detail or done.stderr.text().strip()[:200]}")
    raise Unfit("; ".join(said) or "the image has none: scripts, and so the tool `shell`, cannot run")


async def _changes(cell: Cell) -> str:
    found = set((await cell.changes()).changes)
    if WRITTEN not in found:
        raise Unfit(f"found {sorted(found)[:5]}, and not {WRITTEN}")
    return ""


async def _reset(cell: Cell) -> str:
    await cell.restore()
    if left := sorted((await cell.changes()).changes):
        raise Unfit(f"still there: {left[:5]}")
    try:
        await cell.stat(WRITTEN)
    except FileProblem:
        return "proved, nothing left"
    raise Unfit(f"{WRITTEN} is still there")


async def _deep(cell: Cell) -> str:
    began = time.perf_counter()
    await cell.deep_check()
    return f"{time.perf_counter() - began:.1f} s for every file"
