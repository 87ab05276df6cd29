"""Who made a thing in the engine, written on the thing itself, so that it can be found after the maker was killed.

The owner is a process: its pid and its start time (a recycled pid has another one), within one boot of one machine's pid
namespace. An owner on another machine, under another boot, or in another pid namespace cannot be looked up from here; what
it made is judged by age alone, and only where the caller names an age (`wardian reap --older-than`).
"""

import os
import secrets
import socket
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from wardian import __version__

PREFIX = "io.wardian."
RUN = PREFIX + "run"
"""Random id of the process's run: two runs never share it, whatever their names."""
PID = PREFIX + "owner.pid"
STARTED = PREFIX + "owner.started"
"""Clock ticks from boot to the owner's start, as in field 22 of /proc/<pid>/stat."""
HOST = PREFIX + "owner.host"
BOOT = PREFIX + "owner.boot"
PID_SPACE = PREFIX + "owner.pidns"
"""Identity of the owner's pid namespace: two containers on one host count their pids apart."""
CREATED = PREFIX + "created"
"""Seconds since the Unix epoch, by the owner's clock."""
VERSION = PREFIX + "version"
KIND = PREFIX + "kind"
"""What it is for: `cell`, `database`, ..."""
UNKNOWN = "unknown"
"""In place of what a system does not show, such as macOS."""


@cache
def _run_of(pid: int) -> str:
    return secrets.token_hex(6)


def run_id() -> str:
    """This process's run: random, made on first use, another one after a fork."""
    return _run_of(os.getpid())


def labels_for(kind: str) -> dict[str, str]:
    """Labels for a new thing of `kind` that this process owns from now on."""
    pid = os.getpid()
    return {
        RUN: run_id(),
        PID: str(pid),
        STARTED: _start_ticks(pid) or "",
        HOST: socket.gethostname(),
        BOOT: _boot_id(),
        PID_SPACE: _pid_space(),
        CREATED: f"{time.time():.3f}",
        VERSION: __version__,
        KIND: kind,
    }


def is_ours(labels: Mapping[str, str]) -> bool:
    """Whether the labels are complete enough to say whose the thing is; a foreign or torn set is never touched."""
    return all(labels.get(name) for name in (RUN, PID, BOOT, CREATED, KIND))


def owner_is_here(labels: Mapping[str, str]) -> bool:
    """Whether the owner can be looked up from this process: same host, boot and pid namespace, on a system that shows processes."""
    if _boot_id() == UNKNOWN:
        return False
    return (labels.get(HOST), labels.get(BOOT), labels.get(PID_SPACE)) == (socket.gethostname(), _boot_id(), _pid_space())


def owner_is_alive(labels: Mapping[str, str]) -> bool:
    """Whether the owner still runs. An owner that cannot be looked up from here counts as alive: judge it by age."""
    if not owner_is_here(labels):
        return True
    pid, started = labels.get(PID, ""), labels.get(STARTED, "")
    return pid.isdigit() and _start_ticks(int(pid)) == started


def age_s(labels: Mapping[str, str]) -> float:
    """Seconds since it was made, by the two clocks; never below 0."""
    try:
        return max(0.0, time.time() - float(labels[CREATED]))
    except (KeyError, ValueError):
        return 0.0


def _start_ticks(pid: int) -> str | None:
    """When `pid` started, or `None` when there is no such process, or only its remains that nobody has waited for.

    Raises:
        OSError: it cannot be told, as with too many open files; nobody may be taken for dead by that.
    """
    try:
        line = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = line[line.rindex(")") + 2 :].split()  # the name before it may hold spaces and brackets
    return None if fields[0] in "ZX" else fields[19]


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return UNKNOWN


def _pid_space() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return UNKNOWN
