"""PID 1 of a cell: makes chambers, runs commands in them, ends them. Standard library only, one file.

    host ══ frames over stdin/stdout ══ supervisor (PID 1) ══ messages over a socket pair ══ chamber's init (PID 1 there)
                                                                                              ├── runner ── command
                                                                                              └── file worker

- The *supervisor* speaks frames with the host, keeps the sealed layers, and makes and ends chambers. It never opens a path
  that an agent can shape.
- A chamber's *init* is a clone of it in new pid, mount, IPC, UTS and network namespaces. Once its root stands it installs
  the second seccomp filter, empties its bounding set, and forks: a *runner* for each command (a child subreaper, so that
  whatever is born of a command stays its descendant and can be ended and counted), a *worker* for each file operation,
  which becomes the agent's user first.
- In the `fresh` tier the container itself is the chamber: the same init, without new namespaces.

Everything is imported before the first chamber, and importing is then switched off: nothing that an agent wrote can be
loaded into a trusted process. Replies of runners and workers go over the same socket pair, whose messages are atomic.

Frame and message: `!IIB` length of the body, request id, kind; then the body. Kinds: 1 request (JSON), 2 data, 3 end (JSON).
Fingerprint leaves and file manifests are documented where they are made.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import fcntl
import gc
import itertools
import json
import os
import resource
import select
import signal
import socket
import stat
import struct
import sys
import time
from _blake2 import blake2b  # hashlib would load OpenSSL into every cell

TYPE_CHECKING = False
if TYPE_CHECKING:  # the typing module itself would cost every cell a megabyte
    from typing import Any

HEADER = struct.Struct("!IIB")
REQUEST, DATA, END, CANCEL = 1, 2, 3, 4
CHUNK = 60 * 1024
"""Largest body of one message; well below the default socket buffer, so that sending never fails for size."""

POLICY = "policy"
"""The cause of a failure that the agent's own use of its cell explains."""
SAID = 1000
"""Characters of a path or a message that an answer repeats; JSON writes one as twelve, and an answer is one message."""

CELL = "/cell"
AGENT_UID_SHOWN = 1000
LAYER_TIME_S = 1_735_689_600
"""When the files of every layer were changed last, as far as the agent sees: 2025-01-01 UTC."""
"""What a manifest shows for the agent's uid, so that digests agree between cells."""

# ---------------------------------------------------------------------------------------------------- kernel interface

libc = ctypes.PyDLL(None, use_errno=True)
MACHINE = os.uname().machine
NEWNS, NEWUTS, NEWIPC, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x20000000, 0x40000000
NEW_ANY = NEWNS | NEWUTS | NEWIPC | NEWPID | NEWNET | 0x2000000 | 0x10000000 | 0x80  # with cgroup, user, time
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 0x1000, 0x2000, 0x4000, 1 << 18
PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_SUBREAPER, PR_CAP_AMBIENT = 22, 24, 36, 47
SYS_CLONE = {"x86_64": 56, "aarch64": 220}
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# Numbers by name: (x86_64, aarch64); None where the machine has no such call.
# fmt: off
DENIED = {
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97), "setns": (308, 268),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "open_tree_attr": (467, 467), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "process_madvise": (440, 440), "kcmp": (312, 272), "pidfd_getfd": (438, 438), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219), "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "fanotify_init": (300, 262), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "acct": (163, 89), "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171), "syslog": (103, 116),
    "vhangup": (153, 58), "sethostname": (170, 161), "setdomainname": (171, 162), "iopl": (172, None), "ioperm": (173, None),
    "modify_ldt": (154, None), "mknod": (133, None), "mknodat": (259, 33), "move_pages": (279, 239), "migrate_pages": (256, 238),
    "lookup_dcookie": (212, 18), "uselib": (134, None), "personality": (135, 92), "io_setup": (206, 0),
}
# fmt: on
MKNOD = {"x86_64": ((133, 1), (259, 2)), "aarch64": ((33, 2),)}
"""Calls that make a node, with the index of their mode argument: fifos and sockets stay allowed."""
CLONE3 = 435
SOCKET = {"x86_64": 41, "aarch64": 198}
SOCKET_FAMILIES = (1, 2, 10)
"""UNIX, IPv4, IPv6. Others (vsock, packet, ALG) reach past the network namespace or widen the kernel's surface."""
NETLINK = 16
"""Allowed for routes alone, which programs ask about addresses: what is queued in others counts against no limit of the cell."""


def check(result: int, what: object) -> int:
    """Raise OSError for a failed libc call."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{os.strerror(number)}: {what}")
    return result


def mount(source: str, target: str, kind: str | None = None, flags: int = 0, data: str | None = None) -> None:
    encoded = [part.encode("utf-8", "surrogateescape") if part is not None else None for part in (source, target, kind, data)]
    check(libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]), ("mount", target, kind, data))


def read_text(path: str) -> str:
    with open(path, "rb", buffering=0) as source:
        parts = []
        while part := source.read(65536):
            parts.append(part)
    return b"".join(parts).decode("utf-8", "replace")


def seccomp_program() -> bytes:
    """The second filter, as BPF instructions. Runs after the engine's own; either may refuse."""
    ld, jeq, jge, jset, ret = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, eperm, enosys = 0x7FFF0000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
    column = 0 if MACHINE == "x86_64" else 1
    code: list[tuple[int, int, int, int]] = [(ld, 0, 0, 4), (jeq, 1, 0, AUDIT_ARCH[MACHINE]), (ret, 0, 0, eperm), (ld, 0, 0, 0)]
    if MACHINE == "x86_64":
        code += [(jge, 0, 1, 0x40000000), (ret, 0, 0, enosys)]
    code += [(jeq, 0, 1, CLONE3), (ret, 0, 0, enosys)]
    # clone with any namespace flag
    code += [(jeq, 0, 4, SYS_CLONE[MACHINE]), (ld, 0, 0, 16), (jset, 0, 1, NEW_ANY & ~0x80), (ret, 0, 0, eperm), (ret, 0, 0, allow)]
    # nodes: fifo, socket and regular file only; no type at all means a regular file
    for number, argument in MKNOD[MACHINE]:
        code += [(jeq, 0, 8, number), (ld, 0, 0, 16 + 8 * argument), (0x54, 0, 0, 0o170000), (jeq, 4, 0, 0o10000), (jeq, 3, 0, 0o140000)]
        code += [(jeq, 2, 0, 0o100000), (jeq, 1, 0, 0), (ret, 0, 0, eperm), (ret, 0, 0, allow)]
    families = len(SOCKET_FAMILIES)
    code += [(jeq, 0, families + 6, SOCKET[MACHINE]), (ld, 0, 0, 16)]
    for index, family in enumerate(SOCKET_FAMILIES):
        code.append((jeq, families - index + 3, 0, family))
    code += [(jeq, 0, 2, NETLINK), (ld, 0, 0, 32), (jeq, 1, 0, 0), (ret, 0, 0, eperm), (ret, 0, 0, allow)]
    handled = {number for number, _ in MKNOD[MACHINE]}
    for numbers in DENIED.values():
        denied = numbers[column]
        if denied is not None and denied not in handled:
            code += [(jeq, 0, 1, denied), (ret, 0, 0, eperm)]
    code.append((ret, 0, 0, allow))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


SECCOMP = seccomp_program()


class SockFprog(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def install_seccomp() -> None:
    program = SockFprog(len(SECCOMP) // 8, SECCOMP)
    check(libc.prctl(PR_SET_SECCOMP, 2, ctypes.byref(program), 0, 0), "seccomp filter")


def drop_bounding_set() -> None:
    """Empty the bounding and ambient sets: nothing executed from here on can gain a capability."""
    libc.prctl(PR_CAP_AMBIENT, 4, 0, 0, 0)
    for capability in range(64):
        if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break


def keep_capabilities(*kept: int) -> None:
    """Reduce this process's own capabilities to `kept`."""
    mask = sum(1 << capability for capability in kept)
    header = struct.pack("=Ii", 0x20080522, 0)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    check(libc.capset(header, struct.pack("=6I", low, low, 0, high, high, 0)), "capset")


CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_SYS_ADMIN = 0, 1, 3, 5, 6, 7, 21


def clone(flags: int) -> int:
    """fork(2) into new namespaces; 0 in the child. Only safe in a process of one thread."""
    return check(libc.syscall(ctypes.c_long(SYS_CLONE[MACHINE]), ctypes.c_long(flags | signal.SIGCHLD), 0, 0, 0, 0), "clone")


def loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        fcntl.ioctl(probe, 0x8914, struct.pack("16sh", b"lo", 0x41))


# ---------------------------------------------------------------------------------------------------------- messages


def send_frame(request_id: int, kind: int, body: bytes) -> None:
    """Write one frame to the host, whole."""
    rest = memoryview(HEADER.pack(len(body), request_id, kind) + body)
    while rest:
        rest = rest[os.write(1, rest) :]


def answer(channel: socket.socket, request_id: int, result: dict[str, Any], data: bytes = b"") -> None:
    """Send a reply over a chamber's socket pair: data in chunks, then the end."""
    for start in range(0, len(data), CHUNK):
        body = data[start : start + CHUNK]
        channel.sendall(HEADER.pack(len(body), request_id, DATA) + body)
    body = json.dumps(result).encode()
    channel.sendall(HEADER.pack(len(body), request_id, END) + body)


def received(control: socket.socket) -> bytes:
    try:
        return control.recv(16)
    except ConnectionResetError:  # the runner was killed; `reap` tells
        return b""


def receive(channel: socket.socket) -> tuple[int, int, bytes, list[int]]:
    """Take one message, with any descriptors that came along. Kind 0: the other end is gone."""
    try:
        body, ancillary, _, _ = channel.recvmsg(CHUNK + 8192, socket.CMSG_SPACE(8 * 4))
    except ConnectionResetError:  # ended with messages of ours unread
        return 0, 0, b"", []
    descriptors = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(payload[: len(payload) - len(payload) % 4])
    if not body:
        return 0, 0, b"", list(descriptors)
    _, request_id, kind = HEADER.unpack_from(body)
    return request_id, kind, body[HEADER.size :], list(descriptors)


# ----------------------------------------------------------------------------------------------------- configuration


class Settings:
    """What the host asked for when it made the container, as JSON in the first argument."""

    def __init__(self, text: str) -> None:
        given = json.loads(text)
        self.tier: str = given["tier"]
        self.uid: int = given["uid"]
        self.hostname: str = given["hostname"]
        self.workdir: str = given["workdir"]
        self.disk_mib: int = given["disk_mib"]
        self.shm_mib: int = given["shm_mib"]
        self.processes: int = given["processes"]
        self.open_files: int = given["open_files"]
        self.file_size_mib: int = given["file_size_mib"]
        self.inodes: int = given["inodes"]
        self.sockets_mib: int = given["sockets_mib"]
        self.sysctls: dict[str, str] = given["sysctls"]
        """Bounds of the chamber's own IPC and network namespaces, by name below /proc/sys."""
        self.proc = -1
        """A writable /proc of the chamber, which only trusted processes hold: the agent's is read-only."""
        nothing = "0" * 16
        self.must_show = (
            f"\nUid:\t{self.uid}\t{self.uid}\t{self.uid}\t{self.uid}\n", f"\nGid:\t{self.uid}\t{self.uid}\t{self.uid}\t{self.uid}\n",
            *(f"\nCap{kind}:\t{nothing}\n" for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")), "\nNoNewPrivs:\t1\n", "\nSeccomp:\t2\n",
        )  # fmt: skip
        """Lines that the kernel must show of every process that the agent runs."""
        self.environment: dict[str, str] = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": self.workdir,
            "USER": "agent",
            "LOGNAME": "agent",
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "TERM": "dumb",
            "PAGER": "cat",
            "GIT_PAGER": "cat",
            "MANPAGER": "cat",
            "SYSTEMD_PAGER": "cat",
            "GIT_EDITOR": "true",
            "EDITOR": "true",
            "GIT_TERMINAL_PROMPT": "0",
            "DEBIAN_FRONTEND": "noninteractive",
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        }

    def limits(self) -> tuple[tuple[int, int], ...]:
        size = self.file_size_mib << 20
        return (
            (resource.RLIMIT_NPROC, self.processes),
            (resource.RLIMIT_NOFILE, self.open_files),
            (resource.RLIMIT_FSIZE, size),
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_MSGQUEUE, 1 << 20),
            (resource.RLIMIT_MEMLOCK, 64 << 10),
            (resource.RLIMIT_SIGPENDING, 1024),
        )


def limit(settings: Settings) -> None:
    """Take on the agent's limits. They bind no trusted process: root is exempt from the one on processes."""
    for kind, wanted in settings.limits():
        hard = resource.getrlimit(kind)[1]
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (value, value))


def close_all_but(kept: list[int]) -> None:
    """Leave no descriptor that leads out of the chamber: a path of the agent can name any of its opener's, by /proc/self/fd."""
    start = 3
    for descriptor in sorted(kept):
        if descriptor >= start:
            os.closerange(start, descriptor)
            start = descriptor + 1
    os.closerange(start, 65536)


def become_agent(settings: Settings, kept: list[int]) -> None:
    """Give up everything but the limits, which are taken on before. The filter and the empty bounding set come from init."""
    score = os.open("self/oom_score_adj", os.O_WRONLY, dir_fd=settings.proc)
    os.write(score, b"1000")
    os.close(score)
    close_all_but(kept)
    os.setgroups([])
    os.setresgid(settings.uid, settings.uid, settings.uid)
    os.setresuid(settings.uid, settings.uid, settings.uid)
    os.umask(0o022)


class MemoryCounter:
    """Out-of-memory kills since the chamber was made; cgroup v1 and v2. The container's own count never goes back, and a death must
    not be laid on an earlier episode's kill. Opened once, since a chamber has no /sys.
    """

    def __init__(self) -> None:
        self.descriptor, self.before = -1, 0
        for path in ("/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events"):
            if os.path.exists(path):
                self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                break

    def begin(self) -> None:
        """Count from here."""
        self.before = self.total()

    def kills(self) -> int:
        """Kills since `begin`."""
        return self.total() - self.before

    def total(self) -> int:
        """Kills in the container's life; 0 for ever where the engine shows no counter."""
        if self.descriptor < 0:
            return 0
        for line in os.pread(self.descriptor, 4096, 0).decode().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
        return 0


# ---------------------------------------------------------------------------------------------------------- commands


class Cancelled(Exception):
    pass


class Capture:
    """Keeps head and tail of one stream and counts all of it, in constant memory."""

    def __init__(self, descriptor: int, cap: int) -> None:
        self.descriptor = descriptor
        self.half = cap // 2
        self.cap = cap
        self.head = bytearray()
        self.tail = bytearray()
        self.total = 0

    def read(self) -> bool:
        """Take what is there; False at the end of the stream."""
        try:
            data = os.read(self.descriptor, 1 << 18)
        except BlockingIOError:
            return True
        if not data:
            return False
        self.total += len(data)
        room = self.half - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        if data:
            self.tail += data
            keep = self.cap - self.half
            if len(self.tail) > keep:
                del self.tail[:-keep]
        return True


def descendants(root: int) -> list[int]:
    """Live processes below `root`, from the chamber's /proc. Zombies do not count."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = read_text(f"/proc/{name}/stat").rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] not in "ZX":
                parents[int(name)] = int(fields[1])
    found = []
    for pid in parents:
        ancestor, hops = parents[pid], 0
        while ancestor in parents and ancestor not in (root, 1) and hops < 4096:
            ancestor, hops = parents[ancestor], hops + 1
        if ancestor == root:
            found.append(pid)
    return found


def reap_children() -> bool:
    """Collect ended children; True when none is left, which for a subreaper means no descendant at all."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def kill_everything_of(settings: Settings) -> None:
    """End every process of the agent in this chamber at once; the answer to a fork bomb."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setresuid(settings.uid, settings.uid, settings.uid)
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


BOMB = 24
"""Processes of one command, above which all of the agent's are ended at once, other commands' too."""


def end_descendants(settings: Settings, deadline: float) -> bool:
    """End all that was born of this runner, confirmed by counting. False when the deadline passed first."""
    me, rounds = os.getpid(), 0
    while not reap_children():
        rounds += 1
        if rounds > 8:  # a bomb that is faster than reading /proc is
            kill_everything_of(settings)
        else:
            found = descendants(me)
            if len(found) > BOMB:
                kill_everything_of(settings)
            for pid in found:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        if reap_children():
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.0003 if rounds < 10 else 0.003)
    return True


def execute(argv: list[str], environment: dict[str, str]) -> None:
    """Become the program, looked up in the environment's PATH; never returns. (The library's own look-up imports a module.)

    Raises:
        OSError: no such program, or none that may be run.
    """
    program, denied = argv[0], False
    if "/" in program:
        os.execve(program, argv, environment)
    for directory in environment.get("PATH", "").split(":"):
        try:
            os.execve(f"{directory or '.'}/{program}", argv, environment)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError:
            denied = True
    raise OSError(errno.EACCES if denied else errno.ENOENT, f"{program}: {'permission denied' if denied else 'no such program'}")


def candidates(program: str, environment: dict[str, str]) -> list[str]:
    """Where a program may stand, by the environment's PATH."""
    if "/" in program:
        return [program]
    return [f"{directory or '.'}/{program}" for directory in environment.get("PATH", "").split(":")]


def start_command(settings: Settings, request: dict[str, Any], stdin: int, script: int, pipes: dict[str, int], score: int) -> int:
    """Fork the command. A failure to execute comes back over the `error` pipe as an errno and a step.

    The child does as little as can be: each page that it touches is copied, and that is most of what a short command costs. So whatever
    can be is done before; `score` is the runner's own `oom_score_adj`, which the child takes over. The kernel's clone is called
    itself, since nothing that Python repairs after a fork is used before the program takes the child's place.
    """
    uid, error = settings.uid, pipes["error"]
    environment = {**settings.environment, **request["environment"]}
    argv = ["/bin/bash", "/dev/fd/3"] if script >= 0 else request["argv"]
    programs, workdir = candidates(argv[0], environment), request["workdir"]
    kept = [error, script] if script >= 0 else [error]
    os.pwrite(score, b"1000", 0)
    try:
        pid = clone(0)
    except OSError:
        os.pwrite(score, b"0", 0)
        raise
    if pid:
        os.pwrite(score, b"0", 0)
        return pid
    step = "start"
    try:
        os.setsid()
        os.dup2(stdin, 0)
        os.dup2(pipes["out"], 1)
        os.dup2(pipes["err"], 2)
        close_all_but(kept)
        os.setpriority(os.PRIO_PROCESS, 0, 19)  # whoever ends a bomb must get the processor before it
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        step = "workdir"
        os.chdir(workdir)
        step = "execute"
        if script >= 0:
            os.dup2(script, 3)
        for program in programs:
            if os.access(program, os.X_OK):
                with contextlib.suppress(OSError):  # as for a directory of that name; `execute` tries all and says why
                    os.execve(program, argv, environment)
        execute(argv, environment)
    except BaseException as problem:  # noqa: BLE001 - the child must never return into the runner's code
        number = problem.errno if isinstance(problem, OSError) and problem.errno else 0
        os.write(error, f"{number} {step} {problem}".encode("utf-8", "replace")[:2000])
    finally:
        os._exit(127)


class Runner:
    """A subreaper that runs one command after another for a chamber's init, which it tells whenever it is free.

    It is kept for the next command because making one costs more than the command itself. Nothing of a command stays in it: all
    that was born of one has ended, counted, before it answers.
    """

    def __init__(self, init: Init, control: socket.socket) -> None:
        self.settings, self.memory, self.channel, self.control = init.settings, init.memory, init.channel, control
        self.score = os.open("self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC, dir_fd=self.settings.proc)

    def serve(self) -> None:
        """Run commands until init goes away."""
        check(libc.prctl(PR_SET_SUBREAPER, 1, 0, 0, 0), "subreaper")
        keep_capabilities(CAP_KILL, CAP_SETGID, CAP_SETUID)
        limit(self.settings)
        os.setgroups([])
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        while True:
            request_id, kind, body, descriptors = receive(self.control)
            if kind == 0:
                return
            if kind == CANCEL:  # came after the end of what it was for
                continue
            try:
                result, data = run_command(json.loads(body), descriptors, self, request_id)
            except Exception as error:  # noqa: BLE001 - a runner must always answer
                end_descendants(self.settings, time.monotonic() + 5)
                result, data = {"failed": f"{type(error).__name__}: {error}"}, b""
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
            self.control.send(b"free")
            answer(self.channel, request_id, result, data)


def run_command(request: dict[str, Any], descriptors: list[int], runner: Runner, request_id: int) -> tuple[dict[str, Any], bytes]:
    """The whole life of one command: its result, and its output bytes."""
    kills_before = runner.memory.kills()
    stdin = descriptors[0] if request["stdin"] else os.open("/dev/null", os.O_RDONLY)
    out_read, out_write = os.pipe2(os.O_CLOEXEC)
    err_read, err_write = os.pipe2(os.O_CLOEXEC)
    error_read, low = os.pipe2(os.O_CLOEXEC)
    error_write = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 10)  # out of the way of the script's descriptor 3
    os.close(low)
    streams = [Capture(out_read, request["cap"]), Capture(err_read, request["cap"])]
    pipes = {"out": out_write, "err": err_write, "error": error_write}
    try:
        result = live(request, stdin, descriptors[-1] if request["script"] else -1, pipes, streams, error_read, runner, request_id)
    finally:
        for descriptor in (out_read, err_read, error_read, *(() if request["stdin"] else (stdin,))):
            os.close(descriptor)
    code = result["exit_code"]
    if runner.memory.kills() > kills_before and (result["signal"] == signal.SIGKILL or code not in (0, None)):
        result["outcome"] = "out_of_memory"
    result["streams"] = [[len(stream.head), len(stream.tail), stream.total] for stream in streams]
    return result, b"".join(bytes(stream.head) + bytes(stream.tail) for stream in streams)


def agent_faults(settings: Settings, pid: int) -> str:
    """What is not as it must be of a command's process, right after it was executed; empty when all is."""
    descriptor = os.open(f"{pid}/status", os.O_RDONLY | os.O_CLOEXEC, dir_fd=settings.proc)
    status = os.read(descriptor, 8192).decode("utf-8", "replace")
    os.close(descriptor)
    return ",".join(line.strip().partition(":")[0] for line in settings.must_show if line not in status)


def live(
    request: dict[str, Any],
    stdin: int,
    script: int,
    pipes: dict[str, int],
    streams: list[Capture],
    error_read: int,
    runner: Runner,
    request_id: int,
) -> dict[str, Any]:
    """Start a command, wait for its end or its limit, and end all that was born of it."""
    settings = runner.settings
    started = time.monotonic()
    error, status, timed_out, confirmed, left_behind = b"", None, True, True, 0
    try:
        try:
            child = start_command(settings, request, stdin, script, pipes, runner.score)
        finally:
            for descriptor in pipes.values():
                os.close(descriptor)
        error = os.read(error_read, 4096)
        if not error and (faults := agent_faults(settings, child)):
            raise RuntimeError(f"a command's process has more than an agent may: {faults}")
        status, timed_out = wait_for(child, streams, started + request["timeout_s"], (runner.control, request_id))
    except Cancelled:
        pass
    elapsed_ms = (time.monotonic() - started) * 1e3
    if timed_out:
        confirmed = end_timed_out(settings, streams, request["grace_s"])
        elapsed_ms = (time.monotonic() - started) * 1e3
    elif not reap_children():
        left_behind = len(descendants(os.getpid()))
        confirmed = end_descendants(settings, time.monotonic() + 5)
    drain(streams)
    outcome, code, number = "timed_out", None, None
    if error:
        outcome = "could_not_start"
    elif status is not None and not timed_out:
        code, number = decode_status(status)
        outcome = "exited" if number is None else "killed"
    return {
        "outcome": outcome, "exit_code": code, "signal": number, "elapsed_ms": elapsed_ms, "left_behind": left_behind,
        "detail": error.decode("utf-8", "replace"), "confirmed": confirmed,
    }  # fmt: skip


def decode_status(status: int) -> tuple[int | None, int | None]:
    """Exit code and signal of a wait status; a signal's code is 128 + its number, as shells show it."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return 128 + number, number
    return os.WEXITSTATUS(status), None


def wait_for(child: int, streams: list[Capture], deadline: float, cancels: tuple[socket.socket, int]) -> tuple[int | None, bool]:
    """Read output until the direct child ends or the deadline passes: (wait status, timed out)."""
    handle = os.pidfd_open(child)
    try:
        return watch(child, handle, streams, deadline, cancels)
    finally:
        os.close(handle)


def watch(child: int, handle: int, streams: list[Capture], deadline: float, cancels: tuple[socket.socket, int]) -> tuple[int | None, bool]:
    """The loop of `wait_for`, over the child's pidfd and its streams."""
    poller = select.poll()
    poller.register(handle, select.POLLIN)
    control, request_id = cancels
    poller.register(control, select.POLLIN)
    by_descriptor = {stream.descriptor: stream for stream in streams}
    for descriptor in by_descriptor:
        os.set_blocking(descriptor, False)
        poller.register(descriptor, select.POLLIN)
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return None, True
        ended = False
        for descriptor, _ in poller.poll(left * 1000 + 1):
            if descriptor == handle:
                ended = True
            elif descriptor == control.fileno():
                if receive(control)[:2] in ((request_id, CANCEL), (0, 0)):
                    raise Cancelled
            elif not by_descriptor[descriptor].read():
                poller.unregister(descriptor)
        if ended:
            return os.waitpid(child, 0)[1], False


def end_timed_out(settings: Settings, streams: list[Capture], grace_s: float) -> bool:
    """Ask all of a call's processes to end, wait a moment, then end them."""
    for pid in descendants(os.getpid()):
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            continue
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline and not reap_children():
        drain(streams)
        time.sleep(0.002)
    return end_descendants(settings, time.monotonic() + 5)


DRAINED = 8
"""Reads of one stream at a time, above what a pipe can hold: writers that never stop do not keep us."""


def drain(streams: list[Capture]) -> None:
    """Take what is still in the pipes, without waiting for writers, nor for their end."""
    for stream in streams:
        os.set_blocking(stream.descriptor, False)
        for _ in range(DRAINED):
            before = stream.total
            stream.read()
            if stream.total == before:
                break


# ------------------------------------------------------------------------------------------------------------- files


def file_kind(error: OSError, path: str) -> str:
    """Name a failure by errno. A missing parent is told apart from a missing file by looking at the parent."""
    if error.errno == errno.ENOENT:
        parent = os.path.dirname(path.rstrip("/")) or "/"
        return "not_found" if os.path.isdir(parent) else "parent_not_found"
    return {
        errno.EISDIR: "is_directory", errno.ENOTDIR: "not_a_directory", errno.EACCES: "permission_denied", errno.EPERM: "permission_denied",
        errno.EROFS: "permission_denied", errno.ENAMETOOLONG: "name_too_long", errno.EFBIG: "too_large", errno.ENOSPC: "disk_full",
        errno.EDQUOT: "disk_full", errno.ELOOP: "invalid_path", errno.EINVAL: "invalid_path", errno.ENXIO: "not_a_file",
    }.get(error.errno or 0, "not_a_file")  # fmt: skip


def describe(path: str, name: str) -> dict[str, Any]:
    """What stands at `path`, links not followed."""
    found = os.lstat(path)
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
    kind = kinds.get(stat.S_IFMT(found.st_mode), "other")
    target = os.readlink(path) if kind == "link" else None
    return {
        "path": name,
        "kind": kind,
        "mode": stat.S_IMODE(found.st_mode),
        "uid": found.st_uid,
        "size": 0 if kind == "directory" else found.st_size,
        "target": target,
    }


def read_range(path: str, offset: int, limit: int) -> tuple[dict[str, Any], bytes]:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    found = os.fstat(descriptor)
    if stat.S_ISDIR(found.st_mode):
        raise OSError(errno.EISDIR, "is a directory")
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.ENXIO, "is not a regular file")
    parts, at = [], offset
    while at < offset + limit:
        part = os.pread(descriptor, min(1 << 20, offset + limit - at), at)
        if not part:
            break
        parts.append(part)
        at += len(part)
    return {"size": found.st_size}, b"".join(parts)


def make_parents(path: str) -> list[str]:
    """Make the directories that are missing above `path`; gives them, the uppermost last."""
    missing, parent = [], os.path.dirname(path)
    while parent not in ("", "/") and not os.path.isdir(parent):
        if os.path.lexists(parent):
            raise OSError(errno.ENOTDIR, f"{os.strerror(errno.ENOTDIR)}: {parent}")
        missing.append(parent)
        parent = os.path.dirname(parent)
    for parent in reversed(missing):
        os.mkdir(parent, 0o755)
    return missing


def write_whole(path: str, mode: int, source: int, start: int, size: int, time_ms: int | None) -> None:
    """Replace one file whole, or leave it as it was. With a time it, and the directories that hold it anew, bear that."""
    if len(os.fsencode(path)) >= 4096:
        raise OSError(errno.ENAMETOOLONG, "path too long")
    if os.path.islink(path):
        path = os.path.realpath(path)
    if os.path.isdir(path):
        raise OSError(errno.EISDIR, "is a directory")
    made = make_parents(path)
    parent, name = os.path.split(path)
    temporary = os.path.join(parent, f".wardian-{os.getpid()}-{start}")
    if len(os.fsencode(name)) > 255:
        raise OSError(errno.ENAMETOOLONG, "file name too long")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        at = start
        while at < start + size:
            part = memoryview(os.pread(source, min(1 << 20, start + size - at), at))
            at += len(part)
            while part:
                part = part[os.write(descriptor, part) :]
        os.fchmod(descriptor, mode)
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    finally:
        os.close(descriptor)
    if time_ms is not None:
        for changed in (path, parent, *made, os.path.dirname(made[-1] if made else path)):
            with contextlib.suppress(OSError):  # a directory of somebody else's, or one that the agent removes just now
                os.utime(changed, ns=(time_ms * 1_000_000, time_ms * 1_000_000))


LISTED = 20_000
"""Entries of a directory that one answer may hold."""


def file_operation(request: dict[str, Any], descriptors: list[int]) -> tuple[dict[str, Any], bytes]:
    """One operation, as the agent's user, inside the chamber."""
    operation, path = request["op"], request.get("path", "")
    if operation == "read":
        return read_range(path, request["offset"], request["limit"])
    if operation == "stat":
        return describe(path, path), b""
    if operation == "list":
        names = sorted(os.listdir(path))
        if len(names) > LISTED:
            raise OSError(errno.EFBIG, f"the directory has {len(names)} entries; at most {LISTED} can be listed")
        rows, allowance = [], Allowance(0)
        for name in names:
            try:
                rows.append(row := describe(os.path.join(path, name), name))
            except FileNotFoundError:
                continue
            allowance.name(name + (row["target"] or ""))
        return {}, json.dumps(rows).encode()
    start = 0
    for path, mode, size in request["files"]:
        request["path"] = path
        write_whole(path, mode, descriptors[-1], start, size, request.get("time_ms"))
        start += size
    return {}, b""


def run_file_operation(
    channel: socket.socket, request_id: int, request: dict[str, Any], descriptors: list[int], settings: Settings
) -> None:
    limit(settings)
    become_agent(settings, [channel.fileno(), *descriptors])
    try:
        if request["op"] == "write":
            request["files"] = json.loads(os.pread(descriptors[0], os.fstat(descriptors[0]).st_size, 0))
        result, data = file_operation(request, descriptors)
    except OSError as error:
        path = request.get("path", "")
        result, data = {"problem": file_kind(error, path), "path": path[:SAID], "message": (error.strerror or str(error))[:SAID]}, b""
    except (ValueError, OverflowError) as error:
        result, data = {"problem": "invalid_path", "path": request.get("path", "")[:SAID], "message": str(error)[:SAID]}, b""
    except (TooMuch, MemoryError, RecursionError) as error:
        said = str(error) or "more than fits in the cell's memory"
        result, data = {"problem": "too_large", "path": request.get("path", "")[:SAID], "message": said[:SAID]}, b""
    answer(channel, request_id, result, data)


# ---------------------------------------------------------------------------------------------------------- manifests


class TooMuch(Exception):
    """What the agent made of its files is more than can be listed; its own doing, like running out of memory."""


class Allowance:
    """What listing one episode's files may cost. Without it an agent could make its own record too long to make, and be masked."""

    DEPTH = 128
    """Directories within each other; each holds a descriptor and two stack frames while it is walked."""
    NAMES_BYTES = 4 << 20
    """All paths and links' targets together."""

    def __init__(self, content_bytes: float) -> None:
        self.content, self.names = content_bytes, self.NAMES_BYTES

    def read(self, size: int) -> None:
        """Count bytes that were hashed. Holes of sparse files count as well: hashing them takes as long."""
        self.content -= size
        if self.content < 0:
            raise TooMuch("the files hold more than can be hashed after each call")

    def name(self, path: str) -> None:
        """Count one entry, or a link's target, as long as JSON writes it."""
        self.names -= len(path) if path.isascii() and path.isprintable() else 12 * len(path)
        if self.names < 0:
            raise TooMuch("the paths of the changed files are too many or too long to list")

    def enter(self, path: str) -> None:
        """Look whether a directory may be walked."""
        if path.count("/") > self.DEPTH:
            raise TooMuch(f"directories lie deeper than {self.DEPTH} within each other")


def unlimited() -> Allowance:
    allowance = Allowance(float("inf"))
    allowance.names = 1 << 40
    return allowance


GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE)
"""Errors that say that an entry is not any more what it was a moment ago."""


def content_digest(directory: int, name: str, allowance: Allowance) -> str:
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=directory)
    hasher = blake2b(digest_size=16)
    try:
        while part := os.read(descriptor, 1 << 20):
            allowance.read(len(part))
            hasher.update(part)
    finally:
        os.close(descriptor)
    return hasher.hexdigest()


def shown(found: os.stat_result, directory: int, name: str, uid: int, allowance: Allowance) -> tuple[Any, ...]:
    """One entry of a manifest: kind, mode, uid, size, content. A directory's size is left out; file times always are."""
    form = stat.S_IFMT(found.st_mode)
    owner = AGENT_UID_SHOWN if found.st_uid == uid else found.st_uid
    mode = stat.S_IMODE(found.st_mode)
    if form == stat.S_IFREG:
        try:
            content = content_digest(directory, name, allowance)
        except OSError as error:
            if error.errno in GONE:
                raise
            content = f"unreadable: {errno.errorcode.get(error.errno or 0, '?')}"  # such as under an agent's write lease
        return ("file", mode, owner, found.st_size, content)
    if form == stat.S_IFLNK:
        target = os.readlink(name, dir_fd=directory)
        allowance.name(target)
        return ("link", 0o777, owner, 0, target)
    if form == stat.S_IFDIR:
        return ("directory", mode, owner, 0, "")
    return ("other", mode, owner, 0, f"{form:o}")


def open_below(directory: int, name: str) -> int:
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)


def lookup(directory: int, path: str) -> tuple[int, os.stat_result] | None:
    """Open the parent of `path` below `directory` without following any link; `None` where there is no such entry."""
    parts = [part for part in path.split("/") if part]
    at = os.dup(directory)
    try:
        for part in parts[:-1]:
            following = open_below(at, part)
            os.close(at)
            at = following
        return at, os.stat(parts[-1], dir_fd=at, follow_symlinks=False)
    except OSError:
        os.close(at)
        return None


class Manifest:
    """Finds what an episode changed, from the overlay's upper layer and the base below it.

    Directories are walked by descriptor and links never followed. A copied-up entry that is as in the base is left out, so
    that what overlayfs does inside does not show. An entry that goes away while it is looked at counts as gone.
    """

    def __init__(self, upper: int, base: int, uid: int, allowance: Allowance) -> None:
        self.upper, self.base, self.uid, self.allowance = upper, base, uid, allowance
        self.found: dict[str, tuple[Any, ...] | None] = {}

    def base_entry(self, path: str) -> tuple[Any, ...] | None:
        """The base's entry at a path, or `None`."""
        looked = lookup(self.base, path)
        if looked is None:
            return None
        parent, found = looked
        try:
            return shown(found, parent, path.rsplit("/", 1)[1], self.uid, self.allowance)
        finally:
            os.close(parent)

    def record(self, path: str, entry: tuple[Any, ...] | None) -> None:
        self.allowance.name(path)
        self.found[path] = entry

    def add_base_tree(self, source: str, path: str, skip: frozenset[str] = frozenset()) -> None:
        """Record a part of the base as it shows at another place: what a renamed directory brings along."""
        looked = lookup(self.base, source + "/.")
        if looked is None:
            return
        try:
            self.allowance.enter(path)
            for name in sorted(os.listdir(looked[0])):
                if name in skip:
                    continue
                entry = self.base_entry(f"{source}/{name}")
                self.record(f"{path}/{name}", entry)
                if entry and entry[0] == "directory":
                    self.add_base_tree(f"{source}/{name}", f"{path}/{name}")
        finally:
            os.close(looked[0])

    def walk(self, directory: int, path: str, origin: str | None, based: bool = True) -> None:
        """Compare one directory of the upper layer. `origin`: where its lower part stands in the base, if anywhere; `based`: whether
        the base has anything at `path` itself, without which nothing below needs to be looked up there.
        """
        self.allowance.enter(path)
        names = sorted(os.listdir(directory))
        for name in names:
            try:
                self.visit(directory, name, f"{path}/{name}", origin, based)
            except OSError as error:
                if error.errno not in GONE:
                    raise
        if origin is not None and origin != path:
            self.add_base_tree(origin, path, frozenset(names))

    def visit(self, directory: int, name: str, here: str, origin: str | None, based: bool) -> None:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        before = self.base_entry(here) if based else None
        if stat.S_ISCHR(found.st_mode):  # a whiteout; the agent cannot make any device
            if before is not None:
                self.record(here, None)
            return
        entry = shown(found, directory, name, self.uid, self.allowance)
        if entry != before:
            self.record(here, entry)
        if entry[0] == "directory":
            self.enter(directory, name, here, origin, before is not None)

    def enter(self, directory: int, name: str, here: str, origin: str | None, based: bool) -> None:
        below = open_below(directory, name)
        try:
            redirect = overlay_attribute(below, "redirect")
            following: str | None = f"{origin}/{name}" if origin is not None else None
            if redirect:
                following = redirect if redirect.startswith("/") else f"{origin or ''}/{redirect}"
            elif overlay_attribute(below, "opaque") == "y":
                following = None
            if following is not None and lookup_kind(self.base, following) is None:
                following = None
            if following is None or following != here:
                self.removed_under(here, frozenset(os.listdir(below)), following)
            self.walk(below, here, following, based)
        finally:
            os.close(below)

    def removed_under(self, here: str, kept: frozenset[str], origin: str | None) -> None:
        """An opaque or redirected directory hides what the base has at its path."""
        looked = lookup(self.base, here + "/.")
        if looked is None:
            return
        try:
            for name in os.listdir(looked[0]):
                if name not in kept and (origin is None or lookup_kind(self.base, f"{origin}/{name}") is None):
                    self.record(f"{here}/{name}", None)
        finally:
            os.close(looked[0])


def lookup_kind(directory: int, path: str) -> int | None:
    """The kind of what stands at `path` below `directory`, or `None`."""
    looked = lookup(directory, path)
    if looked is None:
        return None
    os.close(looked[0])
    return stat.S_IFMT(looked[1].st_mode)


def overlay_attribute(descriptor: int, name: str) -> str:
    try:
        return os.getxattr(descriptor, f"trusted.overlay.{name}").decode("utf-8", "surrogateescape")
    except OSError:
        return ""


WRITABLE_ROOTS_SKIPPED = frozenset(["/proc", "/sys", "/dev", CELL])


def writable_places(uid: int) -> list[str]:
    """Directories below which the agent may make or change anything; for the `fresh` tier, found once."""
    found: list[str] = []

    def visit(path: str) -> None:
        try:
            names = os.listdir(path or "/")
        except OSError:
            return
        for name in names:
            here = f"{path}/{name}"
            status = os.lstat(here)
            if here in WRITABLE_ROOTS_SKIPPED or not stat.S_ISDIR(status.st_mode):
                continue
            if status.st_uid == uid or status.st_mode & 0o002:
                found.append(here)
            else:
                visit(here)

    visit("")
    return sorted(found)


def tree(places: list[str], uid: int, allowance: Allowance) -> dict[str, tuple[Any, ...]]:
    """Manifest of everything at and below `places`."""
    found: dict[str, tuple[Any, ...]] = {}

    def look(directory: int, name: str, path: str) -> None:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        entry = shown(status, directory, name, uid, allowance)
        allowance.name(path)
        found[path] = entry
        if entry[0] == "directory":
            below = open_below(directory, name)
            try:
                visit(below, path)
            finally:
                os.close(below)

    def visit(directory: int, path: str) -> None:
        allowance.enter(path)
        for name in sorted(os.listdir(directory)):
            try:
                look(directory, name, f"{path}/{name}")
            except OSError as error:
                if error.errno not in GONE:
                    raise

    for place in places:
        parent, _, name = place.rpartition("/")
        above = os.open(parent or "/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            look(above, name, place)
        finally:
            os.close(above)
    return found


def compare_trees(before: dict[str, tuple[Any, ...]], after: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...] | None]:
    """What differs; of a removed tree only its top."""
    found: dict[str, tuple[Any, ...] | None] = {path: entry for path, entry in after.items() if before.get(path) != entry}
    gone = [path for path in before if path not in after]
    for path in gone:
        if path.rpartition("/")[0] in after or path.rpartition("/")[0] not in before:
            found[path] = None
    return found


# --------------------------------------------------------------------------------------------------------- sealed files


class Unfit(Exception):
    """Files that cannot be sealed or laid as they are; the cell stays as it was."""


AGENT = -1
"""Stands for the agent's uid and gid in sealed files, so that they fit a cell of another uid."""
ACL = ("system.posix_acl_access", "system.posix_acl_default")
OVERLAY = ("trusted.overlay.opaque", "trusted.overlay.redirect")
EXTENT_COST = 24
"""What one extent of a file counts against the allowance of names: about what JSON writes of it."""


def with_owner(acl: bytes, old: int, new: int) -> bytes:
    """An access control list in which one user and group stands for another."""
    entries = struct.iter_unpack("<HHI", acl[4:])
    return acl[:4] + b"".join(struct.pack("<HHI", tag, rights, new if owner == old else owner) for tag, rights, owner in entries)


def attributes_of(descriptor: int, uid: int) -> dict[str, str]:
    """The extended attributes that an episode can make, and the overlay's own that give a directory its meaning; values in hex."""
    try:
        names = os.listxattr(descriptor)
    except OSError:  # a file system without them
        return {}
    found = {}
    for name in sorted(names):
        if name.startswith("user.") or name in OVERLAY:
            found[name] = os.getxattr(descriptor, name).hex()
        elif name in ACL:
            found[name] = with_owner(os.getxattr(descriptor, name), uid, 0xFFFFFFFE).hex()
    return found


def extents_of(descriptor: int, size: int) -> list[list[int]]:
    """Parts of a file that hold data, as [start, length]: holes cost nothing."""
    found, at = [], 0
    while at < size:
        try:
            start = os.lseek(descriptor, at, os.SEEK_DATA)
            end = os.lseek(descriptor, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole is left
                break
            return [[0, size]]  # a file system that does not tell
        found.append([start, min(end, size) - start])
        at = end
    return found


class Sealing:
    """Reads what stands below a directory, whole: bytes as they come, and a table of entries in the order of a walk.

    An entry: depth, name, kind, mode, owner, group, time of change in ns, content, extended attributes. Kinds: `file` (content: size
    and extents, whose bytes follow each other in the data), `link` (its target), `directory`, `fifo`, `socket`, `whiteout`, `hard` (the
    number of the entry that is the same file), and, where only changes are sealed, `keep` and `gone`.

    As for a manifest, directories are walked by descriptor, links never followed, and nothing is opened that could block.
    """

    def __init__(self, uid: int, most_bytes: int, send: Any = None) -> None:
        """`send` takes the data in parts; without it only the digest is made."""
        self.uid, self.most, self.left, self.send = uid, most_bytes, most_bytes, send
        self.allowance = Allowance(0)
        self.rows: list[list[Any]] = []
        self.links: dict[tuple[int, int], int] = {}
        """The entry of each file that has several names."""
        self.hasher = blake2b(digest_size=16)

    def finish(self) -> bytes:
        """The table; `digest` is then over the data and it."""
        table = json.dumps(self.rows).encode()
        self.hasher.update(table)
        return table

    @property
    def digest(self) -> str:
        return self.hasher.hexdigest()

    def walk(self, directory: int, path: str, depth: int) -> None:
        self.allowance.enter(path)
        for name in sorted(os.listdir(directory)):
            try:
                self.visit(directory, name, f"{path}/{name}", depth)
            except OSError as error:
                if error.errno not in GONE:
                    raise Unfit(f"{path}/{name}: {error.strerror}") from error

    def visit(self, directory: int, name: str, path: str, depth: int) -> None:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        form = stat.S_IFMT(found.st_mode)
        if form == stat.S_IFCHR:  # the agent can make no device
            self.row(depth, name, "whiteout")
        elif form != stat.S_IFDIR and self.known(found):
            self.row(depth, name, "hard", content=self.links[found.st_dev, found.st_ino])
        elif form == stat.S_IFREG:
            self.file(directory, name, depth)
        elif form == stat.S_IFDIR:
            self.directory(directory, name, path, depth)
        elif form == stat.S_IFLNK:
            target = os.readlink(name, dir_fd=directory)
            self.allowance.name(target)
            self.row(depth, name, "link", found, content=target)
        elif form in (stat.S_IFIFO, stat.S_IFSOCK):
            self.row(depth, name, "fifo" if form == stat.S_IFIFO else "socket", found)

    def known(self, found: os.stat_result) -> bool:
        """Whether this file was met under another name."""
        key = found.st_dev, found.st_ino
        if found.st_nlink > 1 and key not in self.links:
            self.links[key] = len(self.rows)
            return False
        return found.st_nlink > 1

    def row(
        self, depth: int, name: str, kind: str, found: os.stat_result | None = None, content: Any = None, attributes: Any = None
    ) -> None:
        self.allowance.name(name)
        if found is None:
            self.rows.append([depth, name, kind, 0, 0, 0, 0, content, {}])
            return
        owner, group = (AGENT if one == self.uid else one for one in (found.st_uid, found.st_gid))
        mode = stat.S_IMODE(found.st_mode)
        self.rows.append([depth, name, kind, mode, owner, group, found.st_mtime_ns, content, attributes or {}])

    def file(self, directory: int, name: str, depth: int) -> None:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=directory)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.ESTALE, "it became something else")
            extents = extents_of(descriptor, found.st_size)
            self.allowance.name("." * (EXTENT_COST * len(extents)))
            for extent in extents:
                extent[1] = self.read(descriptor, *extent)
            self.row(depth, name, "file", found, [found.st_size, extents], self.attributes(descriptor))
        finally:
            os.close(descriptor)

    def read(self, descriptor: int, start: int, length: int) -> int:
        """Pass on one extent; gives how much of it there was."""
        at = start
        while at < start + length and (part := os.pread(descriptor, min(CHUNK, start + length - at), at)):
            at += len(part)
            self.left -= len(part)
            if self.left < 0:
                raise TooMuch(f"the files hold more than {self.most} bytes")
            self.hasher.update(part)
            if self.send is not None:
                self.send(part)
        return at - start

    def attributes(self, descriptor: int) -> dict[str, str]:
        found = attributes_of(descriptor, self.uid)
        for name, value in found.items():
            self.allowance.name(name + value)
        return found

    def directory(self, directory: int, name: str, path: str, depth: int) -> None:
        below = open_below(directory, name)
        try:
            self.row(depth, name, "directory", os.fstat(below), None, self.attributes(below))
            self.walk(below, path, depth + 1)
        finally:
            os.close(below)


class ChangeSealing(Sealing):
    """The same of what differs from a tree of the start, below the places where it can: for the `fresh` tier, which has no upper layer."""

    def __init__(self, uid: int, most_bytes: int, before: dict[str, tuple[Any, ...]], send: Any = None) -> None:
        super().__init__(uid, most_bytes, send)
        self.before = before
        self.names: dict[str, list[str]] = {}
        for path in before:
            parent, _, name = path.rpartition("/")
            self.names.setdefault(parent, []).append(name)

    def places(self, places: list[str]) -> None:
        """Seal the changes below all of `places`."""
        for place in places:
            parts = place.split("/")[1:]
            first = len(self.rows)
            for depth, part in enumerate(parts[:-1], start=1):
                self.row(depth, part, "keep")
            above = os.open("/" + "/".join(parts[:-1]), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                self.visit(above, parts[-1], place, len(parts))
            finally:
                os.close(above)
            if len(self.rows) == first + len(parts) - 1:
                del self.rows[first:]

    def walk(self, directory: int, path: str, depth: int) -> None:
        super().walk(directory, path, depth)
        present = set(os.listdir(directory))
        for name in sorted(self.names.get(path, ())):
            if name not in present:
                self.row(depth, name, "gone")

    def visit(self, directory: int, name: str, path: str, depth: int) -> None:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not self.same(found, directory, name, path):
            super().visit(directory, name, path, depth)
        elif stat.S_ISDIR(found.st_mode):
            self.unchanged_directory(directory, name, path, depth)
        elif found.st_nlink > 1:
            known = self.known(found)
            self.row(depth, name, "hard" if known else "keep", content=self.links[found.st_dev, found.st_ino] if known else None)

    def same(self, found: os.stat_result, directory: int, name: str, path: str) -> bool:
        """Whether an entry is as at the start, where none has an extended attribute."""
        if path not in self.before or self.before[path] != shown(found, directory, name, self.uid, unlimited()):
            return False
        if stat.S_IFMT(found.st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
            return True
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=directory)
        try:
            return not attributes_of(descriptor, self.uid)
        finally:
            os.close(descriptor)

    def unchanged_directory(self, directory: int, name: str, path: str, depth: int) -> None:
        below, at = open_below(directory, name), len(self.rows)
        try:
            self.row(depth, name, "keep")
            self.walk(below, path, depth + 1)
        finally:
            os.close(below)
        if len(self.rows) == at + 1:  # nothing below it changed
            self.rows.pop()


class Laying:
    """Makes sealed files below a directory, by descriptors alone: each name is one component, and none is followed.

    `over`: something may stand there already, which is replaced; else whatever stands in the way is an error.
    """

    def __init__(self, top: int, uid: int, rows: list[list[Any]], source: int, over: bool) -> None:
        self.uid, self.rows, self.source, self.over = uid, rows, source, over
        self.at = 0
        """How far the data is used up."""
        self.open: list[tuple[int, list[Any] | None]] = [(os.dup(top), None)]
        """The directory that is being filled, and those above it, each with its entry."""
        self.paths: list[tuple[str, ...]] = []
        """Of each entry so far, for hard links."""
        self.whiteout: tuple[str, ...] | None = None

    def lay(self) -> None:
        """Make all entries.

        Raises:
            OSError: the file system refuses one.
            Unfit: an entry is none that sealing makes.
        """
        for row in self.rows:
            depth, name = row[0], row[1]
            if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "\0" in name or not 1 <= depth <= len(self.open):
                raise Unfit(f"no entry of sealed files: {str(row)[:SAID]}")
            self.leave(depth)
            self.paths.append((*self.path, name))
            self.make(self.open[-1][0], name, row)
        self.leave(1)
        for row in self.rows:  # only now: a directory may shut out its own user, who has linked to what is in it until here
            if row[2] in ("directory", "keep"):
                self.leave(row[0], finish=True)
                self.enter(self.open[-1][0], row)
        self.leave(1, finish=True)
        os.close(self.open.pop()[0])

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(row[1] for _, row in self.open if row is not None)

    def make(self, directory: int, name: str, row: list[Any]) -> None:
        kind, content = row[2], row[7]
        if self.over and kind != "keep":
            self.clear(directory, name, keep_directory=kind == "directory")
        if kind == "keep":
            self.enter(directory, row)
        elif kind == "directory":
            with contextlib.suppress(*([FileExistsError] if self.over else [])):
                os.mkdir(name, 0o700, dir_fd=directory)
            self.enter(directory, row)
        elif kind == "file":
            self.file(directory, name, row)
        elif kind == "hard":
            if not 0 <= content < len(self.paths) - 1:
                raise Unfit(f"{name}: another name of no entry before it")
            self.link(self.paths[content], directory, name)
        elif kind == "whiteout":
            self.hide(directory, name)
        elif kind == "link":
            os.symlink(content, name, dir_fd=directory)
            self.finish_unopened(directory, name, row, mode=False)
        elif kind in ("fifo", "socket"):
            os.mknod(name, 0o600 | (stat.S_IFIFO if kind == "fifo" else stat.S_IFSOCK), dir_fd=directory)
            self.finish_unopened(directory, name, row, mode=True)
        elif kind != "gone":
            raise Unfit(f"no kind of sealed files: {str(kind)[:SAID]}")

    def enter(self, directory: int, row: list[Any]) -> None:
        """Go on in what was made or kept at an entry, if that is a directory."""
        if stat.S_ISDIR(os.stat(row[1], dir_fd=directory, follow_symlinks=False).st_mode):
            self.open.append((open_below(directory, row[1]), row))

    def clear(self, directory: int, name: str, keep_directory: bool) -> None:
        """Remove what stands at `name`, a directory with all that is in it; a kept one is made writable."""
        try:
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(found.st_mode):
            os.unlink(name, dir_fd=directory)
            return
        below = open_below(directory, name)
        try:
            if keep_directory:
                os.fchmod(below, 0o700)
                return
            for inner in os.listdir(below):
                self.clear(below, inner, keep_directory=False)
        finally:
            os.close(below)
        os.rmdir(name, dir_fd=directory)

    def file(self, directory: int, name: str, row: list[Any]) -> None:
        size, extents = row[7]
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory)
        try:
            for start, length in extents:
                self.copy(descriptor, start, length)
            os.ftruncate(descriptor, size)
            self.finish(descriptor, row)
        finally:
            os.close(descriptor)

    def copy(self, descriptor: int, start: int, length: int) -> None:
        end = self.at + length
        while self.at < end:
            part = memoryview(os.pread(self.source, min(1 << 20, end - self.at), self.at))
            if not part:
                raise Unfit("the data of sealed files ends too early")
            self.at += len(part)
            while part:
                written = os.pwrite(descriptor, part, start)
                part, start = part[written:], start + written

    def link(self, path: tuple[str, ...], directory: int, name: str) -> None:
        """Give the entry at `path` another name."""
        parent = os.dup(self.open[0][0])
        try:
            for part in path[:-1]:
                following = open_below(parent, part)
                os.close(parent)
                parent = following
            os.link(path[-1], name, src_dir_fd=parent, dst_dir_fd=directory, follow_symlinks=False)
        finally:
            os.close(parent)

    def hide(self, directory: int, name: str) -> None:
        """Make a whiteout: like the overlay itself, all of them as one node where that can be."""
        if self.whiteout is not None:
            with contextlib.suppress(OSError):  # it has as many names as a node can have
                self.link(self.whiteout, directory, name)
                return
        os.mknod(name, stat.S_IFCHR, 0, dir_fd=directory)
        self.whiteout = self.paths[-1]

    def owners(self, row: list[Any]) -> tuple[int, int]:
        owner, group = (self.uid if one == AGENT else one for one in row[4:6])
        return owner, group

    def leave(self, depth: int, finish: bool = False) -> None:
        """Go back up to `depth`; with `finish`, give each directory on the way what it is to have."""
        while len(self.open) > depth:
            descriptor, row = self.open.pop()
            try:
                if finish and row is not None and row[2] == "directory":
                    self.finish(descriptor, row)
            finally:
                os.close(descriptor)

    def finish(self, descriptor: int, row: list[Any]) -> None:
        """The mode comes last, and lists of access before it: both may take away the right to set the other attributes."""
        os.fchown(descriptor, *self.owners(row))
        for name, value in sorted(row[8].items(), key=lambda attribute: attribute[0] in ACL):
            if not (name.startswith("user.") or name in ACL or name in OVERLAY):
                raise Unfit(f"no attribute of sealed files: {name[:SAID]}")
            data = bytes.fromhex(value)
            os.setxattr(descriptor, name, with_owner(data, 0xFFFFFFFE, self.uid) if name in ACL else data)
        os.fchmod(descriptor, row[3] & 0o7777)
        os.utime(descriptor, ns=(row[6], row[6]))

    def finish_unopened(self, directory: int, name: str, row: list[Any], mode: bool) -> None:
        os.chown(name, *self.owners(row), dir_fd=directory, follow_symlinks=False)
        if mode:
            os.chmod(name, row[3] & 0o7777, dir_fd=directory)
        os.utime(name, ns=(row[6], row[6]), dir_fd=directory, follow_symlinks=False)


FORMS = {"file": stat.S_IFREG, "link": stat.S_IFLNK, "fifo": stat.S_IFIFO, "socket": stat.S_IFSOCK, "directory": stat.S_IFDIR}


def agent_may_write(mode: int, owner: int, group: int) -> bool:
    """Whether an entry is the agent's, or one that it may write to."""
    return owner == AGENT or bool(mode & 0o002) or (group == AGENT and bool(mode & 0o020))


class Provenance:
    """Tells whether an agent can have made an upper layer on its base.

    It owns what it makes and cannot give it away; it makes, removes and renames only in directories that it may write to; and what is not
    its own stands as the base has it, was moved from where something else stands now, or is open to everybody.
    Kernel and supervisor keep to that: this is for tables from elsewhere.
    """

    def __init__(self, base: int, uid: int, rows: list[list[Any]]) -> None:
        self.base, self.uid, self.rows = base, uid, rows

    def check(self) -> None:
        """Look at all entries.

        Raises:
            Unfit: one of them is none that an agent can have made; names it.
        """
        top = os.fstat(self.base)
        moved: list[tuple[str, list[Any]]] = []
        hidden: set[tuple[int, ...]] = set()
        above: list[tuple[str, list[Any], str | None]] = [("", [0, "", "directory", stat.S_IMODE(top.st_mode), *self.owners(top)], "")]
        for row in self.rows:
            del above[row[0] :]
            path, holder, origin = above[-1]
            here = f"{path}/{row[1]}"
            below = self.found(f"{origin}/{row[1]}") if origin is not None else None
            if here in ("/dev", "/proc"):
                raise Unfit(f"{here}: it is the cell's own")
            if row[2] == "directory":
                above.append((here, row, self.directory(here, row, holder, origin, below)))
                continue
            if below is not None:
                hidden.add((stat.S_IMODE(below.st_mode), *self.owners(below), below.st_mtime_ns, below.st_size))
            if not self.entry(row, holder, below):
                moved.append((here, row if agent_may_write(holder[3], *holder[4:6]) else []))
        for here, row in moved:
            if not row or row[2] != "file" or row[3] & 0o6000 or (*row[3:7], row[7][0]) not in hidden:
                raise Unfit(f"{here}: the agent cannot have made it")

    def owners(self, found: os.stat_result) -> tuple[int, int]:
        owner, group = (AGENT if one == self.uid else one for one in (found.st_uid, found.st_gid))
        return owner, group

    def found(self, path: str) -> os.stat_result | None:
        """What the base has at a path."""
        if not path:
            return os.fstat(self.base)
        looked = lookup(self.base, path)
        if looked is None:
            return None
        os.close(looked[0])
        return looked[1]

    def directory(self, path: str, row: list[Any], holder: list[Any], origin: str | None, below: os.stat_result | None) -> str | None:
        """Where the base has what shows in a directory, if anywhere."""
        following: str | None = f"{origin}/{row[1]}"
        if OVERLAY[1] in row[8]:
            following, below = self.renamed(path, row, holder, origin)
        elif OVERLAY[0] in row[8] or below is None or not stat.S_ISDIR(below.st_mode):
            following, below = None, None
        if not (self.kept(row, below) if below is not None else agent_may_write(holder[3], *holder[4:6]) and self.made(row, holder)):
            raise Unfit(f"{path}: the agent cannot have made it")
        return following

    def renamed(self, path: str, row: list[Any], holder: list[Any], origin: str | None) -> tuple[str, os.stat_result]:
        """Where a renamed directory comes from: the agent may write to what held it, and to what holds it."""
        target = bytes.fromhex(row[8][OVERLAY[1]]).decode("utf-8", "surrogateescape")
        source = target if target.startswith("/") else f"{origin}/{target}"
        if source.startswith("/") and not {"", ".", ".."} & set(source.split("/")[1:]):
            found, parent = self.found(source), self.found(source.rpartition("/")[0])
            places = (
                parent is not None and agent_may_write(parent.st_mode, *self.owners(parent)) and agent_may_write(holder[3], *holder[4:6])
            )
            if places and found is not None and stat.S_ISDIR(found.st_mode):
                return source, found
        raise Unfit(f"{path}: no directory that the agent can have renamed: {target[:SAID]}")

    def entry(self, row: list[Any], holder: list[Any], below: os.stat_result | None) -> bool:
        """Whether an entry that is no directory can be the agent's work."""
        is_open = agent_may_write(holder[3], *holder[4:6])
        if row[2] == "whiteout":
            return is_open
        row = self.rows[row[7]] if row[2] == "hard" else row
        if below is not None and stat.S_IFMT(below.st_mode) == FORMS[row[2]] and self.kept(row, below):
            return is_open or agent_may_write(below.st_mode, *self.owners(below))
        return is_open and self.made(row, holder)

    def kept(self, row: list[Any], below: os.stat_result) -> bool:
        """Whether an entry has the owner that the base gives it, and, where that is not the agent, the mode too."""
        owner, group = self.owners(below)
        if owner == AGENT:
            return row[4] == AGENT and row[5] in (group, AGENT)
        mode = stat.S_IMODE(below.st_mode)
        return (row[4], row[5]) == (owner, group) and row[3] in (mode, mode & 0o1777)  # writing takes setuid and setgid away

    def made(self, row: list[Any], holder: list[Any]) -> bool:
        """Whether an entry can be new at its place, or moved there."""
        inherited = holder[3] & 0o2000 and row[5] == holder[5] and (row[2] == "directory" or not row[3] & 0o2000)
        if row[4] == AGENT and (row[5] == AGENT or inherited):
            return True
        return bool(row[3] & 0o002) and not row[3] & 0o6000


def whole(descriptor: int) -> bytes:
    """All of a memory file."""
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


REHEARSED = b'[[1, "a", "directory", 448, -1, -1, 0, null, {}], [2, "b", "file", 384, -1, -1, 0, [8, [[0, 8]]], {}]]'
"""A table of sealed files, and their data as well: any eight bytes will do."""
LISTED_LEFT = 50
"""Processes, or other things, that one seal names as left out."""


def left_out(settings: Settings) -> dict[str, list[str]]:
    """What an episode has that no sealed file holds: living processes of the agent, and kernel objects."""
    processes, objects = [], []
    for name in sorted((name for name in os.listdir("/proc") if name.isdigit()), key=int):
        with contextlib.suppress(OSError):
            if (
                os.stat(f"/proc/{name}").st_uid == settings.uid
                and read_text(f"/proc/{name}/stat").rpartition(")")[2].split()[0] not in "ZX"
            ):
                processes.append(f"{name}: {read_text(f'/proc/{name}/cmdline').replace(chr(0), ' ').strip()[:200]}")
    for place in ("/dev/shm", "/dev/mqueue"):
        if os.path.isdir(place):
            objects += [f"{place}/{name}" for name in sorted(os.listdir(place))]
    for kind in ("shm", "msg", "sem"):
        count = len(read_text(f"/proc/sysvipc/{kind}").splitlines()) - 1
        objects += [f"{count} System V objects: {kind}"] if count else []
    return {"processes": processes[:LISTED_LEFT], "objects": [one[:200] for one in objects[:LISTED_LEFT]]}


# ---------------------------------------------------------------------------------------------------------- fingerprint

TIME_WAIT_PER_NAMESPACE = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2]) >= (6, 1)
"""Older kernels count TIME_WAIT entries of the whole machine in each namespace's sockstat."""


def sockets_in_use() -> str:
    """Sockets of this network namespace by kind, from its counters: /proc/net/tcp would walk a table of the whole machine."""
    found = []
    for line in [*read_text("/proc/net/sockstat").splitlines(), *read_text("/proc/net/sockstat6").splitlines()]:
        kind, _, rest = line.partition(":")
        words = rest.split()
        counters = dict(zip(words[::2], words[1::2], strict=False))
        wanted = ("used", "inuse", "tw") if TIME_WAIT_PER_NAMESPACE else ("used", "inuse")
        found += [f"{kind.lower()}.{name}={counters[name]}" for name in wanted if name in counters]
    return " ".join(found)


def what_agents_inherit(settings: Settings) -> str:
    """What every command of the chamber starts with, as the kernel shows it of init, and the limits that it will take on.

    That a command's process really has given up the rest is asserted for each one, by its runner (`agent_faults`).
    """
    wanted = ("CapInh", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters")
    lines = dict(line.split(":\t", 1) for line in read_text("/proc/self/status").splitlines() if ":\t" in line)
    hard = [resource.getrlimit(kind)[1] for kind, _ in settings.limits()]
    return ";".join([*(f"{name}={lines.get(name, '').strip()}" for name in wanted), f"limits={settings.limits()}", f"hard={hard}"])


def short(text: str) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def mount_table(chamber: bool) -> str:
    """Mount points, types and options without what changes from one mount to the next, or from one container to the next."""
    rows = []
    for line in read_text("/proc/self/mountinfo").splitlines():
        fields = line.split(" ")
        dash = fields.index("-")
        rows.append(" ".join([fields[4], fields[5], fields[dash + 1], *((fields[3], fields[dash + 3]) if chamber else ())]))
    return "\n".join(sorted(rows))


def measure_inside(settings: Settings) -> dict[str, str]:
    """Leaves that only the chamber itself can tell, measured before it runs anything."""
    ipc = {name: len(read_text(f"/proc/sysvipc/{name}").splitlines()) - 1 for name in ("shm", "msg", "sem")}
    interfaces = sorted(line.split(":")[0].strip() for line in read_text("/proc/net/dev").splitlines()[2:])
    ours = {1, os.getpid()}
    leaves = {
        "processes": ",".join(sorted((name for name in os.listdir("/proc") if name.isdigit() and int(name) not in ours), key=int)),
        "mounts": short(mount_table(settings.tier == "chamber")),
        "network": f"interfaces={','.join(interfaces)} {sockets_in_use()}",
        "ipc": json.dumps(ipc, sort_keys=True),
        "mqueue": ",".join(sorted(os.listdir("/dev/mqueue"))) if os.path.isdir("/dev/mqueue") else "",
        "shm": ",".join(sorted(os.listdir("/dev/shm"))),
        "environment": short(json.dumps(settings.environment, sort_keys=True)),
        "hostname": socket.gethostname(),
    }
    leaves["agent"] = what_agents_inherit(settings)
    return leaves


# -------------------------------------------------------------------------------------------------------------- init


class Init:
    """The chamber's first process: builds the root, then forks a runner or worker for each request."""

    def __init__(self, supervisor: Supervisor, channel: socket.socket, laden: bool) -> None:
        self.settings = supervisor.settings
        self.laden = laden
        """Whether the episode begins with sealed files, which come by the channel; else with a clean start."""
        self.laid = self.changes = ""
        """Digest of those files and manifest of what changed by them, as they were found again after they were laid."""
        self.layer = self.answers = -1
        """The child that lays them, and the pipe on which it tells."""
        self.said = b""
        """What it told so far."""
        self.memory = supervisor.memory
        self.layers = list(supervisor.stack)
        self.redirect = supervisor.redirect
        self.masks = supervisor.masks
        self.channel = channel
        self.runners: dict[int, tuple[int, socket.socket | None]] = {}
        """Request id to the process at work on it, and the control socket where that is a runner."""
        self.free: list[tuple[int, socket.socket]] = []
        """Runners that wait for a command, the last used one at the end."""
        self.upper = self.base = -1
        self.before: dict[str, tuple[Any, ...]] = {}
        self.places: list[str] = []

    def build(self) -> None:
        """Make the chamber's root: one overlay over everything, fresh /proc and /dev, loopback; then shut the doors."""
        settings, box = self.settings, f"{CELL}/box"
        mount("none", "/", None, MS_REC | MS_PRIVATE)
        mount("tmpfs", box, "tmpfs", MS_NOSUID | MS_NODEV, f"size={settings.disk_mib}m,mode=700,nr_inodes={settings.inodes}")
        for name in ("upper", "work", "root"):
            os.mkdir(f"{box}/{name}", 0o755)
        mount("proc", f"{CELL}/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        settings.proc = os.open(f"{CELL}/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.bound_kernel_objects()
        loopback_up()
        check(libc.sethostname(settings.hostname.encode(), len(settings.hostname)), "sethostname")
        if self.laden:  # one that is built ahead waits here, since they must lie before the overlay stands
            self.begin_laying(f"{box}/upper")
            measure_inside(settings)  # see `run`
            self.await_laid()
        os.utime(f"{box}/upper", (LAYER_TIME_S, LAYER_TIME_S))
        root = f"{box}/root"
        lower = ":".join([*(f"{CELL}/layers/{key}" for key in reversed(self.layers)), "/"])
        mount("overlay", root, "overlay", MS_NOSUID | MS_NODEV, f"lowerdir={lower},upperdir={box}/upper,workdir={box}/work{self.redirect}")
        self.upper = os.open(f"{box}/upper", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.base = os.open(f"{CELL}/base", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        mount("proc", f"{root}/proc", "proc", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "hidepid=2")
        for path, source in self.masks:
            mount(source, f"{root}{path}", None, MS_BIND)
        mount(f"{CELL}/dev", f"{root}/dev", None, MS_BIND | MS_REC)
        mount("shm", f"{root}/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, f"size={settings.shm_mib}m,mode=1777,nr_inodes=4096")
        mount("mqueue", f"{root}/dev/mqueue", "mqueue", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        mount("devpts", f"{root}/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,max=64")
        os.chdir(root)
        mount(".", "/", None, MS_MOVE)  # the engine's seccomp profile blocks pivot_root
        os.chroot(".")
        os.chdir("/")

    def begin_laying(self, upper: str) -> None:
        """Fork the child that makes the sealed files, before the first process of the agent, so that nothing of them stays in init.

        It waits for them by the channel, and writes to a pipe: `+` once they are laid, then how they read back, or `!` and why they
        cannot be. For an upper layer, which is not mounted yet, it is shut in there. In the `fresh` tier it makes them as the agent's user,
        who could have made each of them.
        """
        self.answers, said = os.pipe2(os.O_CLOEXEC)
        self.layer = os.fork()
        if self.layer:
            os.close(said)
            return
        try:
            digest, changes = self.lay_in(upper, said) if upper else self.lay_over(said)
            os.write(said, f"{digest} {json.dumps(changes)}".encode())
        except BaseException as error:  # noqa: BLE001 - the child must always answer, and never return into init's code
            os.write(said, f"!{type(error).__name__}: {error}".encode("utf-8", "replace")[:SAID])
        finally:
            os._exit(0)

    def await_laid(self) -> None:
        """Wait until the files have come and are laid."""
        self.said = os.read(self.answers, 1)
        if not self.said:  # none came: the supervisor is gone
            os._exit(0)
        if self.said != b"+":
            self.read_back()

    def read_back(self) -> None:
        """Wait for what was found of the files after they were laid.

        Raises:
            Unfit: they cannot be laid; says why.
        """
        with open(self.answers, "rb") as answers:
            said = (self.said + answers.read()).removeprefix(b"+").decode("utf-8", "replace")
        os.waitpid(self.layer, 0)
        if not said or said.startswith("!"):
            raise Unfit(f"they cannot be laid: {said[1:] or 'it ended'}")
        self.laid, _, self.changes = said.partition(" ")

    def awaited(self) -> list[int]:
        """Memory files of the table and of the data, once they have come."""
        files = receive(self.channel)[3]
        if not files:
            os._exit(0)
        return files

    def lay_in(self, upper: str, said: int) -> tuple[str, dict[str, tuple[Any, ...] | None]]:
        settings = self.settings
        base = os.open(f"{CELL}/base", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        os.chdir(upper)
        os.chroot(".")
        top = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.rehearse(top, base)
        table, data = self.awaited()
        rows = json.loads(whole(table))
        if not self.redirect and any(OVERLAY[1] in row[8] for row in rows):
            raise Unfit("directories were renamed, and the overlay of this kernel has no redirect_dir")
        os.setgroups(sorted({settings.uid if row[5] == AGENT else row[5] for row in rows})[:32])  # else a mode loses its setgid bit
        keep_capabilities(CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_SYS_ADMIN)
        Laying(top, settings.uid, rows, data, over=False).lay()
        Provenance(base, settings.uid, rows).check()
        os.write(said, b"+")
        return self.found_in(top, base)

    def rehearse(self, top: int, base: int) -> None:
        """Lay a folder with a file, look at it, and remove it, while there is time: that brings in the pages which a forked process touches
        when it does so first.
        """
        data = os.memfd_create("rehearsal", os.MFD_CLOEXEC)
        os.write(data, REHEARSED)
        rows = json.loads(whole(data))
        laying = Laying(top, self.settings.uid, rows, data, over=False)
        laying.lay()
        Provenance(base, self.settings.uid, []).check()
        json.dumps(self.found_in(top, base))
        laying.clear(top, rows[0][1], keep_directory=False)
        os.close(data)

    def found_in(self, top: int, base: int) -> tuple[str, dict[str, tuple[Any, ...] | None]]:
        """Digest of what stands in an upper layer, and its manifest."""
        sealing = Sealing(self.settings.uid, sys.maxsize)
        sealing.walk(top, "", 1)
        sealing.finish()
        return sealing.digest, self.changes_below(top, base)

    def lay_over(self, said: int) -> tuple[str, dict[str, tuple[Any, ...] | None]]:
        settings, (table, data) = self.settings, self.awaited()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                rows = json.loads(whole(table))
                top = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                become_agent(settings, [top, table, data, self.channel.fileno()])
                Laying(top, settings.uid, rows, data, over=True).lay()
                code = 0
            finally:
                os._exit(code)
        if os.waitpid(pid, 0)[1]:
            raise Unfit("the agent's user could not make them")
        os.write(said, b"+")
        sealing = ChangeSealing(settings.uid, sys.maxsize, self.before)
        sealing.places(self.places)
        sealing.finish()
        return sealing.digest, self.changes_below(-1, -1)

    def changes_below(self, upper: int, base: int) -> dict[str, tuple[Any, ...] | None]:
        """What differs from the start: in an upper layer on its base, or in the `fresh` tier in all places where anything can.

        Raises:
            TooMuch: it is more than may be listed.
        """
        settings, allowance = self.settings, Allowance(max(self.settings.disk_mib, 32) * 8 << 20)
        if settings.tier == "fresh":
            return compare_trees(self.before, tree([place for place in self.places if os.path.isdir(place)], settings.uid, allowance))
        manifest = Manifest(upper, base, settings.uid, allowance)
        manifest.walk(upper, "", "")
        return manifest.found

    def bound_kernel_objects(self) -> None:
        """Bound what outlives a command and what the cell's memory limit does not count. A kernel without one of them has none to bound."""
        for name, value in self.settings.sysctls.items():
            with contextlib.suppress(FileNotFoundError):
                descriptor = os.open(f"sys/{name.replace('.', '/')}", os.O_WRONLY | os.O_CLOEXEC, dir_fd=self.settings.proc)
                try:
                    os.write(descriptor, value.encode())
                finally:
                    os.close(descriptor)

    def run(self) -> None:
        """Build, report, serve until killed."""
        chamber = self.settings.tier == "chamber"
        if chamber:
            self.build()
        drop_bounding_set()
        if chamber:
            keep_capabilities(CAP_DAC_OVERRIDE, CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_SYS_ADMIN)
        else:
            self.settings.proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            keep_capabilities(CAP_DAC_OVERRIDE, CAP_KILL, CAP_SETGID, CAP_SETUID)
            self.places = writable_places(self.settings.uid)
            self.before = tree(self.places, self.settings.uid, unlimited())
            if self.laden:
                self.begin_laying("")
                self.await_laid()
        install_seccomp()
        if self.laden:
            self.read_back()
        elif chamber:
            measure_inside(self.settings)  # brings the pages in that it needs; what counts is measured once the chamber is taken
        if receive(self.channel)[1] == 0:
            os._exit(0)
        self.memory.begin()
        leaves = measure_inside(self.settings)
        if self.laid:
            leaves["upper"] = self.laid
        elif chamber:
            leaves["upper"] = ",".join(sorted(os.listdir(self.upper)))
        if not chamber:
            leaves["files"] = short(repr(sorted(self.before.items())))
        answer(self.channel, 0, {"leaves": leaves}, self.changes.encode())
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(-1)
        self.serve()

    def serve(self) -> None:
        """Pass requests on until killed. Idle runners are taken in before each request, so the same requests meet the same pids."""
        while True:
            busy = {control.fileno(): (request_id, pid, control) for request_id, (pid, control) in self.runners.items() if control}
            poller = select.poll()
            for descriptor in (self.channel.fileno(), *busy):
                poller.register(descriptor, select.POLLIN)
            ready = {descriptor for descriptor, _ in poller.poll(50 if self.runners else 1000)}
            for descriptor, (request_id, pid, control) in busy.items():
                if descriptor in ready and received(control):
                    del self.runners[request_id]
                    self.free.append((pid, control))
            self.reap()
            if self.channel.fileno() in ready:
                self.take_request()

    def take_request(self) -> None:
        request_id, kind, body, descriptors = receive(self.channel)
        if kind == 0:
            os._exit(0)
        try:
            request = json.loads(body)
            if request["op"] == "cancel":
                self.cancel(request["target"])
            elif request["op"] == "exec":
                self.give_to_runner(request_id, body, descriptors)
            else:
                pid = self.fork(request_id, request, descriptors)
                if pid:
                    self.runners[request_id] = (pid, None)
        except OSError as error:  # out of processes or memory: an answer as well
            answer(self.channel, request_id, {"failed": f"cannot fork in the chamber: {error.strerror}", "cause": POLICY})
        except ValueError as error:
            answer(self.channel, request_id, {"failed": f"a request cannot be read: {str(error)[:SAID]}"})
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def give_to_runner(self, request_id: int, body: bytes, descriptors: list[int]) -> None:
        pid, control = self.free.pop() if self.free else self.new_runner()
        self.runners[request_id] = (pid, control)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        control.sendmsg([HEADER.pack(len(body), request_id, REQUEST) + body], rights)

    def new_runner(self) -> tuple[int, socket.socket]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid:
            theirs.close()
            return pid, ours
        try:
            ours.close()
            Runner(self, theirs).serve()
        finally:
            os._exit(0)

    def fork(self, request_id: int, request: dict[str, Any], descriptors: list[int]) -> int:
        """Fork whoever answers this request."""
        pid = os.fork()
        if pid:
            return pid
        try:
            if request["op"] == "changes":
                self.answer_changes(request_id)
            elif request["op"] == "seal":
                self.answer_seal(request_id, request["most_bytes"])
            else:
                run_file_operation(self.channel, request_id, request, descriptors, self.settings)
        except BaseException as error:  # noqa: BLE001 - a child must always answer, and never return into init's loop
            answer(self.channel, request_id, {"failed": f"{type(error).__name__}: {error}"})
        finally:
            os._exit(0)

    def answer_changes(self, request_id: int) -> None:
        try:
            found = self.changes_below(self.upper, self.base)
        except TooMuch as much:
            answer(self.channel, request_id, {"failed": str(much), "cause": POLICY})
            return
        answer(self.channel, request_id, {}, json.dumps(found).encode())

    def answer_seal(self, request_id: int, most_bytes: int) -> None:
        """Send the episode's files whole: the data as it is read, then the table."""
        settings, waiting = self.settings, bytearray()

        def send(part: bytes) -> None:
            waiting.extend(part)
            while len(waiting) >= CHUNK:
                self.channel.sendall(HEADER.pack(CHUNK, request_id, DATA) + waiting[:CHUNK])
                del waiting[:CHUNK]

        try:
            if settings.tier == "chamber":
                sealing = Sealing(settings.uid, most_bytes, send)
                sealing.walk(self.upper, "", 1)
                Provenance(self.base, settings.uid, sealing.rows).check()
            else:
                sealing = changed = ChangeSealing(settings.uid, most_bytes, self.before, send)
                changed.places([place for place in self.places if os.path.isdir(place)])
        except (TooMuch, Unfit) as problem:
            answer(self.channel, request_id, {"too_much" if isinstance(problem, TooMuch) else "unfit": str(problem)[:SAID]})
            return
        table = sealing.finish()
        answer(self.channel, request_id, {"table": len(table), "left_out": left_out(settings)}, bytes(waiting) + table)

    def cancel(self, request_id: int) -> None:
        _, control = self.runners.get(request_id, (0, None))
        if control is not None:
            with contextlib.suppress(OSError):
                control.send(HEADER.pack(0, request_id, CANCEL))

    def reap(self) -> None:
        """Collect ended children. A runner never ends by itself: one that did was killed, and its command cannot be accounted for."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                for request_id, (worker, control) in list(self.runners.items()):
                    if worker == pid:
                        del self.runners[request_id]
                        if control is not None or status:
                            self.lost(request_id, control is None)

    def lost(self, request_id: int, worker: bool) -> None:
        """A process of ours was killed. A file worker is one that has become the agent's user: the agent's processes can do it."""
        kill_everything_of(self.settings)
        starved = bool(self.memory.kills()) or worker
        cause = "out of memory, or by the agent" if starved else "unknown cause"
        answer(
            self.channel, request_id, {"failed": f"a process of the chamber was killed: {cause}", **({"cause": POLICY} if starved else {})}
        )


# --------------------------------------------------------------------------------------------------------- supervisor


class Supervisor:
    """The container's first process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.memory = MemoryCounter()
        self.redirect = ",redirect_dir=on"
        self.masks: list[tuple[str, str]] = []
        self.stack: list[str] = []
        """Layer keys from the lowest to the highest; the built-in one first."""
        self.identities: dict[str, str] = {}
        self.init = 0
        self.channel: socket.socket | None = None
        self.spares: dict[bool, tuple[int, socket.socket]] = {}
        """Init and channel of the next chambers, built ahead: `False` stands, and waits to be measured; `True` waits for sealed files."""
        self.kinds = {False}
        """Those that are built ahead: one for sealed files once a restore had some."""
        self.changes = bytearray()
        """What the newest chamber's init said of the sealed files that were laid in it: their manifest, as JSON; empty without any."""
        self.slow: set[int] = set()
        """Children at work on something slow."""
        self.pending: set[int] = set()
        self.epoch = 0
        self.inbox: dict[int, dict[int, int]] = {}
        """Bulk data on its way: request id to index to memory file."""
        self.refused: dict[int, str] = {}
        """Requests whose data could not be held, and why."""
        self.buffer = bytearray()

    def prepare(self) -> None:
        """Once per container: directories, devices, the built-in layer."""
        if self.settings.tier == "chamber":
            mount("none", "/", None, MS_REC | MS_PRIVATE)
            os.chmod(CELL, 0o700)
            for name in ("layers", "base", "box", "empty", "dev", "proc"):
                os.mkdir(f"{CELL}/{name}", 0o755)
            self.masks = proc_masks()
            self.prepare_devices()
            self.bound_sockets()
        else:
            self.close_other_places()
        self.add_layer("builtin", self.builtin_files())
        if self.settings.tier == "chamber":
            self.probe_redirect()

    def close_other_places(self) -> None:
        """Leave the agent no place to write in but the engine's size-limited mounts: the root's own layer has no limit."""
        root = os.stat("/").st_dev
        for place in writable_places(self.settings.uid):
            found = os.lstat(place)
            if found.st_dev == root:
                os.chmod(place, stat.S_IMODE(found.st_mode) & ~0o002)

    def bound_sockets(self) -> None:
        """Bound what is queued in sockets, on cgroup v1: it counts against no other limit there, and engines no longer set this one.

        The engine shows the container's own control group read-only; it is writable for this one number, and here alone.
        """
        place = "/sys/fs/cgroup/memory"
        limit = f"{place}/memory.kmem.tcp.limit_in_bytes"
        if not os.path.exists(limit):
            return
        flags = MS_BIND | MS_REMOUNT | MS_NOSUID | MS_NODEV | MS_NOEXEC
        mount("none", place, None, flags)
        try:
            descriptor = os.open(limit, os.O_WRONLY | os.O_CLOEXEC)
            os.write(descriptor, str(self.settings.sockets_mib << 20).encode())
            os.close(descriptor)
        finally:
            mount("none", place, None, flags | MS_RDONLY)

    def prepare_devices(self) -> None:
        """A small read-only /dev that each chamber binds whole: no mknod is allowed, so nodes come from the engine's."""
        mount("dev", f"{CELL}/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "size=64k,mode=755")
        for name in ("null", "zero", "full", "random", "urandom", "tty"):
            os.close(os.open(f"{CELL}/dev/{name}", os.O_CREAT | os.O_WRONLY, 0o600))
            mount(f"/dev/{name}", f"{CELL}/dev/{name}", None, MS_BIND)
        for name in ("shm", "mqueue", "pts"):
            os.mkdir(f"{CELL}/dev/{name}", 0o755)
        for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2"), ("ptmx", "pts/ptmx")):
            os.symlink(f"/proc/self/{target}" if target.startswith("fd/") else target, f"{CELL}/dev/{name}")
        mount("none", f"{CELL}/dev", None, MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NOEXEC)

    def builtin_files(self) -> list[tuple[str, int, bytes, int]]:
        """What the overlay would otherwise lack or show of the engine: (path, mode, data, owner)."""
        uid, home, host = self.settings.uid, self.settings.workdir, self.settings.hostname
        users = "".join(line + "\n" for line in read_text("/etc/passwd").splitlines() if not line.startswith("agent:"))
        groups = "".join(line + "\n" for line in read_text("/etc/group").splitlines() if not line.startswith("agent:"))
        files = [
            ("/etc/passwd", 0o644, f"{users}agent:x:{uid}:{uid}:agent:{home}:/bin/bash\n".encode(), 0),
            ("/etc/group", 0o644, f"{groups}agent:x:{uid}:\n".encode(), 0),
        ]
        return [
            *files,
            ("/etc/hosts", 0o644, f"127.0.0.1 localhost {host}\n::1 localhost\n".encode(), 0),
            ("/etc/hostname", 0o644, f"{host}\n".encode(), 0),
            ("/etc/resolv.conf", 0o644, b"", 0),
        ]

    def add_layer(self, key: str, files: list[tuple[str, int, bytes, int]]) -> None:
        """Lay a sealed set of files: as a lower directory for chambers, or straight into a fresh container's root."""
        chamber = self.settings.tier == "chamber"
        top = f"{CELL}/layers/{key}" if chamber else ""
        if key in self.stack:
            raise OSError(errno.EEXIST, f"layer {key} is there already")
        if chamber:
            os.mkdir(top, 0o755)
            pages = sum(len(data) // 4096 + 2 for _, _, data, _ in files) + 64
            mount("layer", top, "tmpfs", MS_NOSUID | MS_NODEV, f"size={pages * 4096},mode=755")
        self.make_directory(top, self.settings.workdir, self.settings.uid)
        for path, mode, data, owner in files:
            parent = path.rpartition("/")[0]
            if parent:
                self.make_directory(top, parent, owner)
            if not chamber and os.path.islink(path):
                raise OSError(errno.ELOOP, f"layer {key}: {path} is a link in the image")
            descriptor = os.open(f"{top}{path}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fchown(descriptor, owner, owner)
            os.fchmod(descriptor, mode)
            os.close(descriptor)
        self.set_times(top, [self.settings.workdir, *(path for path, *_ in files)])
        self.stack.append(key)
        if chamber:
            mount("none", top, None, MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV)  # the file system itself: nobody writes to it again
            self.identities[key] = identity(top)
            self.mount_base()

    @staticmethod
    def set_times(top: str, paths: list[str]) -> None:
        """A layer's files, and the directories that hold them, look the same in every cell, whenever it was made."""
        for path in paths:
            for end in [at for at, letter in enumerate(path) if letter == "/"] + [len(path)]:
                os.utime(f"{top}{path[:end]}" or "/", (LAYER_TIME_S, LAYER_TIME_S))

    def make_directory(self, top: str, path: str, owner: int) -> None:
        """A layer's directories carry what the image has at their path, since the uppermost one is what shows."""
        made = ""
        for part in [part for part in path.split("/") if part]:
            made += f"/{part}"
            if os.path.isdir(f"{top}{made}"):
                continue
            os.mkdir(f"{top}{made}", 0o755)
            below = [f"{CELL}/layers/{key}{made}" for key in reversed(self.stack)] + [made] if top else []
            for lower in below:
                if os.path.isdir(lower):
                    found = os.stat(lower)
                    os.chown(f"{top}{made}", found.st_uid, found.st_gid)
                    os.chmod(f"{top}{made}", stat.S_IMODE(found.st_mode))
                    break
            else:
                os.chown(f"{top}{made}", owner, owner)
        if path == self.settings.workdir:
            os.chown(f"{top}{path}", self.settings.uid, self.settings.uid)

    def mount_base(self) -> None:
        """The start state as one read-only tree, for comparing; never seen in a chamber."""
        libc.umount2(f"{CELL}/base".encode(), 2)
        lower = ":".join([*(f"{CELL}/layers/{key}" for key in reversed(self.stack)), "/"])
        mount("overlay", f"{CELL}/base", "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV, f"lowerdir={lower}")

    def probe_redirect(self) -> None:
        """Directory renames need `redirect_dir`; a kernel that refuses it gets the plain overlay."""
        box = f"{CELL}/box"
        mount("tmpfs", box, "tmpfs", 0, "size=1m")
        for name in ("upper", "work", "root"):
            os.mkdir(f"{box}/{name}")
        try:
            mount("overlay", f"{box}/root", "overlay", 0, f"lowerdir=/,upperdir={box}/upper,workdir={box}/work,redirect_dir=on")
            libc.umount2(f"{box}/root".encode(), 2)
        except OSError:
            self.redirect = ""
        libc.umount2(box.encode(), 2)

    # -- chambers

    def begin_end(self) -> int:
        """Kill the chamber's init, with which the kernel ends all that is in it; gives the pid to wait for, or 0."""
        dying, self.init = self.init, 0
        if dying:
            os.kill(dying, signal.SIGKILL)
        if self.channel is not None:
            self.channel.close()
            self.channel = None
        for request_id in sorted(self.pending):
            send_frame(request_id, END, json.dumps({"failed": "the chamber was ended"}).encode())
        self.pending.clear()
        return dying

    @staticmethod
    def finish_end(dying: int) -> None:
        """Wait until a killed chamber is gone: its init is the last to go, after every process, mount and socket of it."""
        if dying:
            os.waitpid(dying, 0)

    def make_beside(self, dying: int, files: tuple[int, ...]) -> tuple[dict[str, str], int]:
        """Make the next chamber while the old one ends; gives the leaves and what is still to be waited for.

        The two share nothing but the container's limits. Where an old one at its limits leaves no room, the new one is made after it.
        """
        try:
            return self.make(files), dying
        except OSError:
            self.finish_end(self.begin_end())
            if not dying:
                raise
            self.finish_end(dying)
            return self.make(files), 0

    def make(self, files: tuple[int, ...]) -> dict[str, str]:
        """Take the chamber that was built ahead, or build one; gives the leaves that its init measures now.

        One that begins with sealed files is another, since they must lie before its overlay stands.
        """
        self.memory.begin()
        spare = self.spares.pop(bool(files), None)
        if spare is not None:
            self.init, self.channel = spare
            with contextlib.suppress(OSError):  # it did not come up, as in a container at its limits
                return self.report(files)
            self.finish_end(self.begin_end())
        self.init, self.channel = self.spawn(bool(files))
        return self.report(files)

    def build_ahead(self) -> None:
        """Build the next chamber while this one is in use. It shares nothing with it but the container's limits."""
        if self.settings.tier == "chamber":
            for laden in self.kinds - set(self.spares):
                with contextlib.suppress(OSError):  # the next `make` builds one
                    self.spares[laden] = self.spawn(laden)

    def discard_spares(self, *kinds: bool) -> None:
        """End chambers that were built ahead: they have ended, or their layers are no longer those of the next one."""
        for pid, channel in [self.spares.pop(laden) for laden in kinds if laden in self.spares]:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            channel.close()

    def spawn(self, laden: bool) -> tuple[int, socket.socket]:
        """Start a chamber's init, which builds at once, and measures and reports once it is told to. `laden`: it is given sealed files."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        flags = NEWNS | NEWUTS | NEWIPC | NEWPID | NEWNET if self.settings.tier == "chamber" else 0
        try:
            pid = clone(flags)
        except OSError:
            ours.close()
            theirs.close()
            raise
        if pid == 0:
            try:
                ctypes.pythonapi.PyOS_AfterFork_Child()
                for inherited in (ours, self.channel):
                    if inherited is not None:
                        inherited.detach()
                null = os.open("/dev/null", os.O_RDWR)
                os.dup2(null, 0)
                os.dup2(null, 1)
                close_all_but([theirs.fileno(), self.memory.descriptor])
                Init(self, theirs, laden).run()
            except Unfit as problem:
                receive(theirs)  # what is unread at the end would take the place of the answer
                answer(theirs, 0, {"unfit": str(problem)[:SAID]})
            except BaseException as error:  # noqa: BLE001 - the clone must never return into the supervisor's loop
                answer(theirs, 0, {"failed": f"{type(error).__name__}: {error}"[:SAID]})
            finally:
                os._exit(1)
        theirs.close()
        return pid, ours

    def report(self, files: tuple[int, ...]) -> dict[str, str]:
        """Have the new chamber's init lay the sealed files where there are some, and measure; gives what it says.

        Raises:
            OSError: it could not be built, or has ended.
            Unfit: the sealed files that it was to begin with cannot be laid.
        """
        assert self.channel is not None
        if files:
            self.channel.sendmsg([HEADER.pack(0, 0, REQUEST)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))])
        self.channel.send(HEADER.pack(0, 0, REQUEST))
        self.changes = bytearray()
        while True:
            _, kind, body, _ = receive(self.channel)
            if kind == 0:
                raise OSError(errno.ECHILD, "the chamber's init ended before it was ready")
            if kind == END:
                break
            self.changes += body
        report = json.loads(body)
        if "unfit" in report:
            raise Unfit(report["unfit"])
        if "failed" in report:
            raise OSError(errno.EIO, report["failed"])
        leaves: dict[str, str] = report["leaves"]
        return leaves

    def measure_outside(self) -> dict[str, str]:
        """Leaves that the supervisor tells: layers, and that nothing but itself, the new init and what is built ahead runs here."""
        ahead = {laden: pid for laden, (pid, _) in self.spares.items()}
        allowed, layers = {1, self.init, *ahead.values()}, 0
        strangers = []
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) not in allowed:
                try:
                    program, _, rest = read_text(f"/proc/{name}/stat").partition(")")
                except OSError:
                    continue
                if int(rest.split()[1]) == ahead.get(True) and not layers:  # the child that will lay the files
                    layers += 1
                else:
                    strangers.append(program.partition("(")[2] or name)
        return {"strangers": ",".join(sorted(strangers)), "layers": self.measure_layers()}

    def measure_layers(self) -> str:
        rows = []
        for key in self.stack:
            if self.settings.tier == "chamber":
                intact = identity(f"{CELL}/layers/{key}") == self.identities[key]
                rows.append(f"{key[:12]}={'sealed' if intact else 'changed'}")
            else:
                rows.append(f"{key[:12]}=laid")
        return ",".join(rows)

    def restore(self, request_id: int, files: tuple[int, ...]) -> dict[str, Any]:
        """End what was, make it anew, with sealed files where there are some, and tell what stands there now; their manifest as data."""
        while self.slow:  # one that has answered may not be gone yet
            os.waitpid(self.slow.pop(), 0)
        times = [time.monotonic()]
        dying = self.begin_end()
        if self.settings.tier == "fresh":  # one that was not used; both would be in one process list
            self.finish_end(dying)
            dying = 0
        try:
            leaves, dying = self.make_beside(dying, files)
        except Unfit:
            self.finish_end(self.begin_end())
            self.finish_end(dying)
            raise
        times.append(time.monotonic())
        self.finish_end(dying)
        self.memory.begin()  # the old chamber's last kills are not the new one's
        times.append(time.monotonic())
        leaves.update(self.measure_outside())
        times.append(time.monotonic())
        self.epoch += 1
        for start in range(0, len(self.changes), CHUNK):
            send_frame(request_id, DATA, bytes(self.changes[start : start + CHUNK]))
        made, ended, verified = ((b - a) * 1e3 for a, b in itertools.pairwise(times))
        return {
            "leaves": leaves,
            "epoch": self.epoch,
            "ended_ms": ended,
            "made_ms": made,
            "verified_ms": verified,
            "redirect": bool(self.redirect),
        }

    def deep(self) -> dict[str, Any]:
        """Digests of every file of the image's root, and of each layer; slow, on demand, in a child."""
        tops = {"image": ""}
        if self.settings.tier == "chamber":
            tops |= {key: f"{CELL}/layers/{key}" for key in self.stack}
        return {"digests": {name: self.digest_below(top) for name, top in tops.items()}}

    def digest_below(self, top: str) -> str:
        """Digest of every entry below `top` that is of its own file system."""
        hasher, allowance = blake2b(digest_size=16), unlimited()
        uid = self.settings.uid if top else -1  # owners in the image are as they are; a layer's files belong to the cell's agent
        device = os.stat(top or "/").st_dev
        for path, directories, names in os.walk(top or "/", onerror=None):
            directories[:] = sorted(name for name in directories if self.same_device(os.path.join(path, name), device))
            parent = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            for name in sorted([*names, *directories]):
                full = os.path.join(path, name)
                if not top and full in ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf"):
                    continue
                found = os.lstat(full)
                if stat.S_IFMT(found.st_mode) in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR):
                    entry = shown(found, parent, name, uid, allowance)
                    hasher.update(repr((full[len(top) :], entry)).encode("utf-8", "surrogateescape"))
            os.close(parent)
        return hasher.hexdigest()

    @staticmethod
    def same_device(path: str, device: int) -> bool:
        return os.lstat(path).st_dev == device

    # -- requests

    def handle(self, request_id: int, request: dict[str, Any], descriptors: list[int]) -> None:
        """Answer one request of the host, or pass it to the chamber."""
        try:
            self.dispatch(request_id, request, descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def dispatch(self, request_id: int, request: dict[str, Any], descriptors: list[int]) -> None:
        operation = request["op"]
        if operation == "ping":
            self.finish(
                request_id,
                {"pid": os.getpid(), "python": sys.version.split()[0], "redirect": bool(self.redirect), "kills": self.memory.kills()},
            )
        elif operation == "layer":
            self.receive_layer(request_id, request, descriptors)
        elif operation == "restore":
            self.kinds.add(bool(descriptors))
            self.guarded(request_id, lambda: self.restore(request_id, tuple(descriptors)))
            self.build_ahead()
        elif operation == "deep":
            self.in_child(request_id, self.deep)
        elif self.channel is None:
            self.finish(request_id, {"failed": "there is no chamber: restore the cell first"})
        else:
            self.forward(request_id, request, descriptors)

    def guarded(self, request_id: int, action: object) -> None:
        try:
            self.finish(request_id, action())  # type: ignore[operator]
        except Unfit as problem:
            self.finish(request_id, {"unfit": str(problem)})
        except OSError as error:
            self.finish(request_id, {"failed": str(error)})

    def in_child(self, request_id: int, action: object) -> None:
        """Run something slow without holding the loop up; the child writes its own frame, below the size that is atomic."""
        pid = os.fork()
        if pid:
            self.slow.add(pid)
            return
        try:
            self.guarded(request_id, action)
        finally:
            os._exit(0)

    def receive_layer(self, request_id: int, request: dict[str, Any], descriptors: list[int]) -> None:
        """Lay a world's files: descriptor 0 holds the table of (path, mode, size), descriptor 1 the bytes in that order."""

        def lay() -> dict[str, Any]:
            table = json.loads(os.pread(descriptors[0], os.fstat(descriptors[0]).st_size, 0))
            at, files = 0, []
            for path, mode, size in table:
                files.append((path, mode, os.pread(descriptors[1], size, at), self.settings.uid))
                at += size
            self.discard_spares(False, True)
            self.add_layer(request["key"], files)
            return {}

        self.guarded(request_id, lay)

    def forward(self, request_id: int, request: dict[str, Any], descriptors: list[int]) -> None:
        """Pass a request to the chamber. Bulk data goes along as sealed memory files, by descriptor."""
        assert self.channel is not None
        for descriptor in descriptors:
            os.lseek(descriptor, 0, os.SEEK_SET)
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, 0x1 | 0x2 | 0x4 | 0x8)
        body = json.dumps(request).encode()
        message = HEADER.pack(len(body), request_id, REQUEST) + body
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        if request["op"] != "cancel":
            self.pending.add(request_id)
        try:
            self.channel.sendmsg([message], rights)
        except OSError as error:
            self.pending.discard(request_id)
            self.finish(request_id, {"failed": f"the chamber does not answer: {error.strerror}"})

    def finish(self, request_id: int, result: dict[str, Any]) -> None:
        send_frame(request_id, END, json.dumps(result).encode())

    # -- the loop

    def from_host(self) -> bool:
        """Read frames; False when the host has gone."""
        data = os.read(0, 1 << 18)
        if not data:
            return False
        self.buffer += data
        while len(self.buffer) >= HEADER.size:
            size, request_id, kind = HEADER.unpack_from(self.buffer)
            if len(self.buffer) < HEADER.size + size:
                break
            body = bytes(self.buffer[HEADER.size : HEADER.size + size])
            del self.buffer[: HEADER.size + size]
            if kind == DATA:
                self.take_data(request_id, body)
            else:
                files = self.inbox.pop(request_id, {})
                descriptors = [files[index] for index in sorted(files)]
                if request_id in self.refused:
                    for descriptor in descriptors:
                        os.close(descriptor)
                    self.finish(request_id, {"failed": self.refused.pop(request_id)})
                else:
                    self.handle(request_id, json.loads(body), descriptors)
        return True

    def take_data(self, request_id: int, body: bytes) -> None:
        """Append a piece of bulk data to its memory file; the first byte says to which of the request's."""
        files = self.inbox.setdefault(request_id, {})
        if request_id in self.refused:
            return
        try:
            if body[0] not in files:
                files[body[0]] = os.memfd_create("wardian", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            rest = memoryview(body)[1:]
            while rest:
                rest = rest[os.write(files[body[0]], rest) :]
        except OSError as error:
            self.refused[request_id] = f"the request's data cannot be held: {error.strerror}"

    def from_chamber(self) -> None:
        assert self.channel is not None
        request_id, kind, body, _ = receive(self.channel)
        if kind == 0:
            starved = bool(self.memory.kills())
            cause = "out of memory" if starved else "unknown cause"
            self.channel.close()
            self.channel = None
            for waiting in sorted(self.pending):
                self.finish(waiting, {"failed": f"the chamber's init died: {cause}", **({"cause": POLICY} if starved else {})})
            self.pending.clear()
            return
        if kind == END:
            self.pending.discard(request_id)
        send_frame(request_id, kind, body)

    def serve(self) -> None:
        """Serve until the host goes away; leaving ends the container and all that is in it."""
        while True:
            watched = [0] if self.channel is None else [0, self.channel.fileno()]
            poller = select.poll()
            for descriptor in watched:
                poller.register(descriptor, select.POLLIN)
            for descriptor, _ in poller.poll():
                if descriptor == 0:
                    if not self.from_host():
                        return
                    break
                self.from_chamber()
            self.reap()

    def reap(self) -> None:
        """Collect children other than the chamber's init (orphans come to PID 1)."""
        try:
            while True:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if found is None or found.si_pid == self.init:
                    return
                if ended := [laden for laden, (pid, _) in self.spares.items() if pid == found.si_pid]:
                    self.discard_spares(*ended)
                else:
                    os.waitpid(found.si_pid, 0)
                    self.slow.discard(found.si_pid)
        except ChildProcessError:
            return


def identity(top: str) -> str:
    """What tells a sealed layer from any other: its file system, which is read-only as a whole, so nothing in it can change unseen."""
    found, system = os.stat(top), os.statvfs(top)
    used = system.f_blocks - system.f_bfree, system.f_files - system.f_ffree
    return f"{found.st_dev}:{found.st_ino}:{found.st_ctime_ns}:{'ro' if system.f_flag & os.ST_RDONLY else 'rw'}:{used}"


def proc_masks() -> list[tuple[str, str]]:
    """What to lay over a chamber's /proc: (path, source). A new mount lacks the engine's masks; the whole of it is read-only."""
    files = ("kcore", "keys", "timer_list", "timer_stats", "sched_debug", "latency_stats")
    directories = ("acpi", "scsi", "asound")
    found = [(f"/proc/{name}", "/dev/null") for name in files if os.path.exists(f"/proc/{name}")]
    return found + [(f"/proc/{name}", f"{CELL}/empty") for name in directories if os.path.isdir(f"/proc/{name}")]


def main() -> None:
    os.umask(0o022)
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(0))
    supervisor = Supervisor(Settings(sys.argv[1]))
    try:
        supervisor.prepare()
    except OSError as error:
        supervisor.finish(0, {"failed": str(error)})
        os._exit(3)
    sys.meta_path.clear()
    sys.path.clear()
    gc.collect()
    gc.freeze()
    supervisor.finish(0, {"ready": True})
    supervisor.serve()
    os._exit(0)


if __name__ == "__main__":
    main()
