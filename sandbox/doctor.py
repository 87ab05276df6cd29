"""What this machine and its engine give to cells, and what to do about each shortcoming.

Each check is one fact with its verdict: `ok`, `warning` (slower, weaker or smaller than it could be) or `failure` (no episode can
run). Nothing is changed; the only thing made is what the probe of the restore tier makes, and it is gone at the end.
"""

import os
import resource
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from wardian.sandbox.cell import Tier
from wardian.sandbox.checks import Check, Status, enough, expect
from wardian.sandbox.database.checks import postgres_checks
from wardian.sandbox.engine import ADVICE, Engine
from wardian.sandbox.errors import EngineUnavailable, SandboxError
from wardian.sandbox.images import HINT, agent_image, base_image, image_present
from wardian.sandbox.probe import probe
from wardian.sandbox.timeouts import Timeouts

MIB = 1 << 20


TIER_ADVICE = {
    Tier.CHAMBER: (Status.OK, ""),
    Tier.FRESH: (
        Status.WARNING,
        "resets take a new container each. Chambers need an engine that lets a cell's supervisor mount: no user-namespace remapping, "
        "no AppArmor profile that forbids mounts, data on no overlay; see docs/security.md",
    ),
    None: (
        Status.FAILURE,
        "read why each tier failed; an engine that runs `docker run` with added capabilities is enough for the tier `fresh`",
    ),
}


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


async def diagnose(db_url: str | None = None) -> Diagnosis:
    """Look at the engine and the machine; takes about a second, most of it the probe of the restore tier.

    With `db_url` that Postgres server is looked at too. Never raises for what it finds; an absent engine is a finding.
    """
    try:
        engine = await Engine.open(Timeouts(engine_s=20))
    except EngineUnavailable as error:
        return Diagnosis((_engine_absent(error), *_machine_checks()))
    try:
        info = await engine.info()
        total, free = int(info.get("MemTotal", 0)) // MIB, _available_memory_mib()
        postgres = await anyio.to_thread.run_sync(postgres_checks, db_url, total, free)
        images = await anyio.to_thread.run_sync(_image_checks)
        tier = await _tier_checks(engine, image_ready=all(check.status is not Status.FAILURE for check in images))
    except EngineUnavailable as error:
        return Diagnosis((_engine_absent(error), *_machine_checks()))
    finally:
        engine.close()
    return Diagnosis((*_engine_checks(info), *tier, *images, *postgres, *_disk_checks(info), *_machine_checks()))


# The engine


def _engine_absent(error: EngineUnavailable) -> Check:
    found = f"{error.step}: {error.detail}".removesuffix(ADVICE).rstrip("; ")
    return Check("engine_version", Status.FAILURE, None, found, ADVICE)


def _engine_checks(info: dict[str, Any]) -> tuple[Check, ...]:
    unlimited = [name for name, key in (("memory", "MemoryLimit"), ("processes", "PidsLimit"), ("CPU", "CpuCfsQuota")) if not info.get(key)]
    options = " ".join(info.get("SecurityOptions") or ())
    return (
        expect("engine_version", info["ServerVersion"], _major(info["ServerVersion"]) >= 20, "install Docker 20.10 or later"),
        _processor_check(str(info.get("Architecture", "unknown"))),
        *_desktop_checks(str(info.get("OperatingSystem", ""))),
        expect(
            "storage_driver",
            info["Driver"],
            info["Driver"] in ("overlay2", "overlayfs"),
            "give the engine a data folder on ext4 or xfs and the overlay2 driver; others are slow and may rule out chambers",
        ),
        Check("cgroup_version", Status.OK, info.get("CgroupVersion", "1")),
        expect(
            "limits_enforced",
            "all" if not unlimited else f"not {', '.join(unlimited)}",
            not unlimited,
            "mount the missing cgroup controllers and restart the engine: an agent could take the whole machine",
        ),
        expect(
            "seccomp",
            "on" if "name=seccomp" in options else "off",
            "name=seccomp" in options,
            "use a kernel and an engine with seccomp: without it a cell's only walls are namespaces and capabilities",
        ),
    )


def _processor_check(found: str) -> Check:
    """Whether the supervisor has a system-call filter for the engine's processor, and whether one was ever run on it."""
    if found in ("x86_64", "amd64"):
        return Check("processor", Status.OK, found)
    if found in ("aarch64", "arm64"):
        todo = "run `make test` on it before you rely on it"
        return Check("processor", Status.WARNING, found, "the filters for it were never run, only written", todo)
    return Check(
        "processor", Status.FAILURE, found, "the supervisor has no filter of system calls for it", "use an engine on x86_64 or arm64"
    )


def _desktop_checks(system: str) -> tuple[Check, ...]:
    if not system.startswith("Docker Desktop"):
        return ()
    todo = "run `make test` on it before you rely on it; give its virtual machine the memory and processors that cells are to have"
    return (Check("engine_machine", Status.WARNING, system, "cells run in its virtual machine, and were never run there", todo),)


async def _tier_checks(engine: Engine, image_ready: bool) -> tuple[Check, ...]:
    """The restore tier, found by starting a cell, and what it depends on."""
    if not image_ready:
        return (Check("restore_tier", Status.FAILURE, None, "a probe needs the agent image", HINT),)
    report = await probe(engine, agent_image())
    severity, todo = TIER_ADVICE[report.tier]
    depth_todo = "move the engine's data folder to a file system that is no overlay (a volume, ext4, xfs); chambers need it"
    rename_todo = "use a kernel whose overlayfs takes redirect_dir=on; until then programs that rename a folder of the world get EXDEV"
    return (
        Check("restore_tier", severity, report.tier.value if report.tier else None, report.reason, todo),
        expect("overlay_depth", report.overlay_depth, report.overlay_depth <= 2, depth_todo, "Linux stacks at most 2"),
        expect(
            "rename_of_given_folders",
            "works" if report.redirect_dir else "refused",
            report.redirect_dir or report.tier is not Tier.CHAMBER,
            rename_todo,
        ),
        Check("apparmor", Status.OK, "on" if report.apparmor else "off"),
    )


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
    return (enough("free_disk_mib", free, want=2048, need=256, todo=f"make room on the disk of {root}"),)


def _machine_checks() -> tuple[Check, ...]:
    open_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    inotify = Path("/proc/sys/fs/inotify")
    return (
        enough("free_memory_mib", _available_memory_mib(), want=2048, need=512, todo="end other programs, or run fewer cells"),
        enough("open_files", open_files, want=4096, need=256, todo="raise the limit: ulimit -n 65536"),
        *(
            enough(f"inotify_{name}", _number(inotify / name), want, 0, f"as root: sysctl fs.inotify.{name}={want}")
            for name, want in (("max_user_instances", 128), ("max_user_watches", 8192), ("max_queued_events", 16384))
        ),
        Check("cpus", Status.OK, _cpus()),
    )


def _cpus() -> int | None:
    """Processors that this process may use; where the system does not say, those that there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


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
