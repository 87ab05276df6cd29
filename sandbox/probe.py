"""Which restore tier works on an engine: found by starting a cell of each, not by reading versions.

Mounting inside of a container depends on the kernel, the storage driver, AppArmor and the runtime together, and no table of
versions covers them. A cell that starts, restores twice and runs a command does.
"""

from dataclasses import dataclass, replace
from typing import Any

from wardian.sandbox.cell import Cell, CellSpec, Command, ExecOutcome, Limits, Tier
from wardian.sandbox.docker_cell import make_cell
from wardian.sandbox.engine import Engine
from wardian.sandbox.errors import CellUnavailable, SandboxError
from wardian.sandbox.files import FileEntry, FileLayer

UID = 19999
"""Below the uids that pools give, so that a probe never shares limits with a running cell."""
RENAME = ("python3", "-c", "import os; os.rename('/workspace/probe', '/workspace/renamed')")


@dataclass(frozen=True, slots=True)
class TierReport:
    tier: Tier | None
    """The best that works; `None` when not even `fresh` does."""
    reason: str
    """Why it is this one: what the better ones failed with."""
    redirect_dir: bool
    """Whether a directory of a layer can be renamed in a chamber; False in other tiers."""
    overlay_depth: int
    """How many overlays a chamber stacks; Linux allows two."""
    apparmor: bool
    cgroup_version: str
    storage_driver: str


async def probe(engine: Engine, image: str, runtime: str | None = None) -> TierReport:
    """Try the tiers from the best one down, with cells of `image`. Leaves nothing; takes under a second where the first works.

    Raises:
        EngineUnavailable: the engine did not describe itself; a cell that fails is a finding and no error.
    """
    info = await engine.info()
    layer = FileLayer({"/workspace/probe/file": FileEntry(b"probe\n")})
    limits = Limits(memory_mib=64, disk_mib=4, shm_mib=1, processes=32)
    spec = CellSpec(image, layers=(layer,), limits=limits, runtime=runtime)
    failures: list[str] = []
    for tier in Tier:
        cell = make_cell(replace(spec, tier=tier), engine, UID)
        try:
            renamed = await _try(cell)
        except SandboxError as error:
            failures.append(f"{tier.value} does not work here: {error}")
        else:
            reason = "; ".join(failures) or "the best tier works"
            return _report(info, tier, reason, redirect_dir=renamed and tier is Tier.CHAMBER)
        finally:
            await cell.stop()
    return _report(info, None, "; ".join(failures), redirect_dir=False)


async def best_tier(engine: Engine, image: str, runtime: str | None = None) -> Tier:
    """The best tier that works, as `probe` finds it.

    Raises:
        EngineUnavailable: as `probe`.
        CellUnavailable: none works.
    """
    found = await probe(engine, image, runtime)
    if found.tier is None:
        raise CellUnavailable(f"no restore tier works on this engine: {found.reason}; see `wardian doctor`")
    return found.tier


async def _try(cell: Cell) -> bool:
    """Start, restore twice and run; gives whether a layer's directory could be renamed.

    Raises:
        SandboxError: the tier does not work.
    """
    await cell.start()
    await cell.restore()
    renamed = await cell.exec(Command(argv=RENAME, timeout_s=10))
    await cell.restore()
    return renamed.outcome is ExecOutcome.EXITED and renamed.exit_code == 0


def _report(info: dict[str, Any], tier: Tier | None, reason: str, *, redirect_dir: bool) -> TierReport:
    backing = dict(info.get("DriverStatus") or ()).get("Backing Filesystem", "unknown")
    driver = str(info.get("Driver", "unknown"))
    depth = 3 if "overlay" in backing else 2 if driver.startswith("overlay") else 1
    apparmor = any("apparmor" in option for option in info.get("SecurityOptions") or ())
    return TierReport(tier, reason, redirect_dir, depth, apparmor, str(info.get("CgroupVersion") or "1"), driver)
