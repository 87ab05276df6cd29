"""The machine and engine that numbers were measured on, without its name or addresses."""

import os
import platform
import sqlite3

from wardian import __version__
from wardian.rollouts.bench.memory import cgroup_version
from wardian.rollouts.bench.samples import Numbers
from wardian.sandbox.engine import Engine


async def describe(engine: Engine) -> Numbers:
    """What a reader must know to compare.

    Raises:
        EngineUnavailable: the engine did not answer.
    """
    info = await engine.info()
    return {
        "wardian": __version__,
        "cores": info.get("NCPU"),
        "memory_gib": round(info.get("MemTotal", 0) / (1 << 30), 1),
        "cpu": _cpu(),
        "kernel": info.get("KernelVersion"),
        "system": info.get("OperatingSystem"),
        "engine": info.get("ServerVersion"),
        "storage_driver": info.get("Driver"),
        "cgroup": info.get("CgroupVersion") or str(cgroup_version()),
        "runtime": info.get("DefaultRuntime"),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "load_at_start": load(),
    }


def load() -> list[float]:
    """Load averages over 1, 5 and 15 minutes."""
    return [round(value, 2) for value in os.getloadavg()]


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    except OSError:
        return platform.machine()
