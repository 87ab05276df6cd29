"""What an idle cell takes of the machine's memory, everything counted.

A cell is a container and the engine's process that watches over it. The container's part is what its memory cgroup is charged with:
processes, tmpfs, page cache and kernel memory, the supervisor and the waiting chamber included. The watcher (`containerd-shim`)
lives outside; it is counted by its proportional share, so that pages which several shims share are counted once.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from wardian.rollouts.bench.samples import Numbers
from wardian.sandbox.cell import Cell
from wardian.sandbox.engine import Engine

MIB = 1 << 20
GROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class CellMemory:
    container_bytes: int
    shim_bytes: int


async def memory_of(engine: Engine, cell: Cell) -> CellMemory | None:
    """Measure one cell; `None` where its processes or cgroups cannot be read from here (a remote engine, another user's)."""
    state = (await engine.inspect(cell.id)).get("State", {})
    pid = int(state.get("Pid") or 0)
    if not pid:
        return None
    try:
        return CellMemory(_charged(pid), _share(_parent(pid)))
    except (OSError, LookupError):
        return None


def summary(found: list[CellMemory | None]) -> Numbers:
    """The mean over cells in MiB: what one more costs, since pages that all share are charged to the first."""
    known = [one for one in found if one is not None]
    if not known:
        return {"per_cell_mib": None, "cells": 0, "why": "the cells' cgroups and processes cannot be read from here"}
    container = sum(one.container_bytes for one in known) / len(known) / MIB
    shim = sum(one.shim_bytes for one in known) / len(known) / MIB
    return {
        "per_cell_mib": round(container + shim, 2),
        "container_mib": round(container, 2),
        "shim_mib": round(shim, 2),
        "largest_container_mib": round(max(one.container_bytes for one in known) / MIB, 2),
        "cells": len(known),
        "cgroup": cgroup_version(),
    }


def cgroup_version() -> int:
    """2 where there is one hierarchy for all, else 1."""
    return 2 if (GROUPS / "cgroup.controllers").exists() else 1


def _charged(pid: int) -> int:
    """What the memory cgroup of a process is charged with."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if cgroup_version() == 2 and not controllers:
            return int((GROUPS / path.lstrip("/") / "memory.current").read_text())
        if "memory" in controllers.split(","):
            return int((GROUPS / "memory" / path.lstrip("/") / "memory.usage_in_bytes").read_text())
    raise LookupError(f"process {pid}: no memory cgroup")


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _share(pid: int) -> int:
    """Proportional share of a process; its resident set where the kernel does not tell shares."""
    for file, field in (("smaps_rollup", "Pss"), ("status", "VmRSS")):
        try:
            found = re.search(rf"^{field}:\s+(\d+) kB", Path(f"/proc/{pid}/{file}").read_text(), re.M)
        except OSError:
            continue
        if found:
            return int(found[1]) * 1024
    raise LookupError(f"process {pid}: no memory figures")
