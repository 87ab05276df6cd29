"""What the engine is told about a cell's container: every wall that the engine itself can build."""

import json
from collections.abc import Mapping
from typing import Any

from wardian.sandbox.cell import CellSpec, Tier

HEADROOM_MIB = 64
"""For the supervisor and its children, above what the agent's processes and every tmpfs may hold."""
SOCKETS_MIB = 32
"""What may be queued in sockets."""
INODE_BYTES = 1280
"""What a file takes of the kernel's memory, beside its content."""
SUPERVISOR_PROCESSES = 32
CHAMBER_CAPABILITIES = ("SYS_ADMIN", "NET_ADMIN", "SYS_CHROOT")
CAPABILITIES = ("SETUID", "SETGID", "SETPCAP", "KILL", "CHOWN", "FOWNER", "DAC_OVERRIDE")


def cell_config(
    spec: CellSpec, *, uid: int, tier: Tier, labels: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The engine's options for one cell. Nothing of the host is mounted, nothing is unconfined, no network is there.

    Memory covers what the agent may use, every tmpfs full to the brim, and the supervisor: whoever runs out, it is the agent.
    In the `chamber` tier the root is read-only and every write goes to a tmpfs under /cell; in the `fresh` tier the root is the
    engine's writable layer, and the supervisor holds neither SYS_ADMIN nor NET_ADMIN.
    """
    chamber, limits = tier is Tier.CHAMBER, spec.limits
    return {
        "Image": spec.image,
        "Cmd": [_supervisor_settings(spec, uid, tier)],
        "Env": [f"{name}={value}" for name, value in sorted((environment or {}).items())],
        "Labels": dict(labels),
        "Hostname": spec.hostname,
        "NetworkDisabled": True,
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        "StopTimeout": 1,
        "HostConfig": {
            "NetworkMode": "none",
            "IpcMode": "private",
            "SecurityOpt": ["no-new-privileges"],
            "ReadonlyRootfs": chamber,
            "CapDrop": ["ALL"],
            "CapAdd": [*(CHAMBER_CAPABILITIES if chamber else ()), *CAPABILITIES],
            "PidsLimit": limits.processes + SUPERVISOR_PROCESSES,
            **_memory(spec, chamber),
            "NanoCpus": round(limits.cpus * 1e9),
            "Ulimits": _ulimits(spec),
            "ShmSize": limits.shm_mib << 20,
            **({} if chamber else {"Sysctls": _sysctls(spec)}),
            "Tmpfs": {"/cell": f"exec,mode=755,size={_layers_bytes(spec)}"} if chamber else _fresh_places(spec),
            "LogConfig": {"Type": "none", "Config": {}},
            "AutoRemove": True,
            "Init": False,
            **({"Runtime": spec.runtime} if spec.runtime else {}),
        },
    }


def _supervisor_settings(spec: CellSpec, uid: int, tier: Tier) -> str:
    limits = spec.limits
    return json.dumps(
        {
            "tier": tier.value,
            "uid": uid,
            "hostname": spec.hostname,
            "workdir": spec.workdir,
            "disk_mib": limits.disk_mib,
            "shm_mib": limits.shm_mib,
            "processes": limits.processes,
            "open_files": limits.open_files,
            "file_size_mib": limits.file_size_mib,
            "inodes": _inodes(spec),
            "sockets_mib": SOCKETS_MIB,
            "sysctls": _sysctls(spec),
        }
    )


def _inodes(spec: CellSpec) -> int:
    """Files and directories that an episode may have; each takes more than a kilobyte of the kernel's memory, whatever is in it."""
    return max(spec.limits.disk_mib, 32) * 512


def _sysctls(spec: CellSpec) -> dict[str, str]:
    """Bounds for the agent's IPC and network namespaces: System V objects outlive their processes, and sockets' queues are no process's."""
    return {
        "kernel.shmall": str((spec.limits.shm_mib << 20) // 4096),
        "kernel.shmmni": "256",
        "kernel.msgmni": "64",
        "kernel.sem": "250 8000 32 64",
        "net.ipv4.tcp_rmem": "4096 65536 131072",
        "net.ipv4.tcp_wmem": "4096 65536 131072",
    }


def _layers_bytes(spec: CellSpec) -> int:
    """Room for every layer on a tmpfs: whole pages, as many again for names and directories, and some to start with."""
    pages = sum(len(entry.data) // 4096 + 3 for layer in spec.layers for entry in layer.entries.values())
    return (4 << 20) + pages * 4096


def _fresh_places(spec: CellSpec) -> dict[str, str]:
    """Where the agent of a `fresh` cell may write. The engine's writable layer has no limit of its own on most storage drivers."""
    size = f"size={spec.limits.disk_mib}m,nr_inodes={_inodes(spec)}"
    shm = f"mode=1777,size={spec.limits.shm_mib}m,nr_inodes=4096"
    return {spec.workdir: f"exec,mode=755,{size}", "/tmp": f"exec,mode=1777,{size}", "/var/tmp": f"exec,mode=1777,{size}", "/dev/shm": shm}


def _memory(spec: CellSpec, chamber: bool) -> dict[str, int]:
    limits = spec.limits
    places = 1 if chamber else len(_fresh_places(spec)) - 1  # /dev/shm has a size of its own
    tmpfs_mib = limits.shm_mib * 2 + 1 + limits.disk_mib * places  # twice: System V segments; 1: POSIX message queues
    total = ((limits.memory_mib + tmpfs_mib + HEADROOM_MIB + SOCKETS_MIB) << 20) + INODE_BYTES * _inodes(spec) * places
    total += _layers_bytes(spec) if chamber else 0
    return {"Memory": total, "MemorySwap": total}


def _ulimits(spec: CellSpec) -> list[dict[str, Any]]:
    """Bounds for everything in the container, the supervisor too; it lowers them again for the agent, whose files get a largest size."""
    values = {"nofile": max(spec.limits.open_files, 1024), "core": 0}
    return [{"Name": name, "Soft": value, "Hard": value} for name, value in values.items()]
