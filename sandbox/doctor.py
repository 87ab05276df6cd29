"""What this machine and its engine give to cells, and what to do about each shortcoming.

Each check is one fact with its verdict: `ok`, `warning` (slower, weaker or smaller than it could be) or `failure` (no episode can
run). Nothing is changed; the only thing made is what the probe of the restore tier makes, and it is gone at the end.
"""

import os
import resource
import shutil
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import docker
from docker.errors import DockerException
from requests.exceptions import RequestException

from wardian.sandbox.errors import SandboxError
from wardian.sandbox.images import HINT, agent_image, base_image, image_present

MIB = 1 << 20


class Status(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    status: Status
    value: str | int | None
    """The fact; numbers with a unit carry it in the name; `None` when it could not be found out."""
    detail: str = ""
    """Why it is so; else empty."""
    what_to_do: str = ""
    """Empty exactly when the status is `ok`."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    checks: tuple[Check, ...]

    @property
    def usable(self) -> bool:
        """Whether episodes can run here: no check failed."""
        return all(check.status is not Status.FAILURE for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        """One object: `usable`, and `checks` by name."""
        rows = {check.name: {key: value for key, value in asdict(check).items() if key != "name"} for check in self.checks}
        return {"usable": self.usable, "checks": rows}


def diagnose() -> Diagnosis:
    """Look at the engine and the machine; takes about a second, most of it the probe of the restore tier.

    Blocking: call it from a thread where an event loop runs. Never raises for what it finds; an absent engine is a finding.
    """
    try:
        client = docker.from_env(timeout=20)
        info = client.info()
        client.close()
    except (DockerException, RequestException) as error:
        return Diagnosis((_engine_absent(error), *_machine_checks()))
    checks = [*_engine_checks(info), *_image_checks()]
    return Diagnosis((*checks, *_disk_checks(info), *_machine_checks()))


# The engine


def _engine_absent(error: Exception) -> Check:
    todo = "start an engine with `make engine`, or set DOCKER_HOST to one that this user may use"
    return Check("engine_version", Status.FAILURE, None, str(error), todo)


def _engine_checks(info: dict[str, Any]) -> tuple[Check, ...]:
    unlimited = [name for name, key in (("memory", "MemoryLimit"), ("processes", "PidsLimit"), ("CPU", "CpuCfsQuota")) if not info.get(key)]
    options = " ".join(info.get("SecurityOptions") or ())
    return (
        _expect("engine_version", info["ServerVersion"], _major(info["ServerVersion"]) >= 20, "install Docker 20.10 or later"),
        _expect(
            "storage_driver",
            info["Driver"],
            info["Driver"] in ("overlay2", "overlayfs"),
            "give the engine a data folder on ext4 or xfs and the overlay2 driver; others are slow and may rule out chambers",
        ),
        _overlay_depth(info),
        Check("cgroup_version", Status.OK, info.get("CgroupVersion", "1")),
        _expect(
            "limits_enforced",
            "all" if not unlimited else f"not {', '.join(unlimited)}",
            not unlimited,
            "mount the missing cgroup controllers and restart the engine: an agent could take the whole machine",
        ),
        _expect(
            "seccomp",
            "on" if "name=seccomp" in options else "off",
            "name=seccomp" in options,
            "use a kernel and an engine with seccomp: without it a cell's only walls are namespaces and capabilities",
        ),
        Check("apparmor", Status.OK, "on" if "name=apparmor" in options else "off", "what it means for the restore tier stands there"),
    )


def _overlay_depth(info: dict[str, Any]) -> Check:
    """How many overlays a chamber stacks; Linux allows two (FILESYSTEM_MAX_STACK_DEPTH)."""
    backing = dict(info.get("DriverStatus") or ()).get("Backing Filesystem", "unknown")
    depth = 3 if "overlay" in backing else 2 if info["Driver"].startswith("overlay") else 1
    todo = "move the engine's data folder to a file system that is no overlay (a volume, ext4, xfs); until then use the tier `fresh`"
    return _expect("overlay_depth", depth, depth <= 2, todo, f"the engine's data lies on {backing}; Linux stacks at most 2")


def _major(version: str) -> int:
    digits = version.split(".")[0]
    return int(digits) if digits.isdigit() else 0


# Images


def _image_checks() -> tuple[Check, ...]:
    try:
        named = (("base_image", base_image(), Status.WARNING), ("agent_image", agent_image(), Status.FAILURE))
        absent = {reference: not image_present(reference) for _, reference, _ in named}
    except SandboxError as error:
        return (Check("agent_image", Status.FAILURE, None, str(error), HINT),)
    return tuple(
        Check(name, severity, reference, "not built for these sources", HINT)
        if absent[reference]
        else Check(name, Status.OK, reference, "present")
        for name, reference, severity in named
    )


# The machine


def _disk_checks(info: dict[str, Any]) -> tuple[Check, ...]:
    root = Path(info["DockerRootDir"])
    if not root.is_dir():
        return (Check("free_disk_mib", Status.OK, None, f"{root} is not on this machine"),)
    free = shutil.disk_usage(root).free // MIB
    return (_enough("free_disk_mib", free, want=2048, need=256, todo=f"make room on the disk of {root}"),)


def _machine_checks() -> tuple[Check, ...]:
    open_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    inotify = Path("/proc/sys/fs/inotify")
    return (
        _enough("free_memory_mib", _available_memory_mib(), want=2048, need=512, todo="end other programs, or run fewer cells"),
        _enough("open_files", open_files, want=4096, need=256, todo="raise the limit: ulimit -n 65536"),
        *(
            _enough(f"inotify_{name}", _number(inotify / name), want, 0, f"as root: sysctl fs.inotify.{name}={want}")
            for name, want in (("max_user_instances", 128), ("max_user_watches", 8192), ("max_queued_events", 16384))
        ),
        Check("cpus", Status.OK, len(os.sched_getaffinity(0))),
    )


def _available_memory_mib() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _expect(name: str, value: str | int, good: bool, todo: str, detail: str = "") -> Check:
    return Check(name, Status.OK, value, detail) if good else Check(name, Status.WARNING, value, detail, todo)


def _enough(name: str, value: int | None, want: int, need: int, todo: str) -> Check:
    """A number against what is comfortable and what is the least; what cannot be read is no finding."""
    if value is None or value >= want:
        return Check(name, Status.OK, value, "" if value is not None else "not readable here")
    return Check(name, Status.WARNING if value >= need else Status.FAILURE, value, f"{want} or more is comfortable", todo)
