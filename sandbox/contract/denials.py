"""Denials: what an agent's process tries and must not get. Each is tried from inside, as the agent."""

import secrets
import socket
from pathlib import Path

import anyio
import pytest

from wardian.sandbox.cell import Cell
from wardian.sandbox.contract.base import SPEC, UID, CellSuite, MakeCell, alive, printed, python, run

TRY = """
import ctypes, os, platform, socket
libc = ctypes.CDLL(None, use_errno=True)
def call(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
def number(x86, arm):
    return x86 if platform.machine() == 'x86_64' else arm
def put(path, text):
    descriptor = os.open(path, os.O_WRONLY)
    os.write(descriptor, text)
def system(x86, arm, *arguments):
    return call(libc.syscall(number(x86, arm), *arguments))
try:
    {code}
except OSError as error:
    print('denied', error.errno)
else:
    print('allowed')
"""
CALLS = {
    "mount": "call(libc.mount(b'tmpfs', b'/tmp', b'tmpfs', 0, None))",
    "bind mount": "call(libc.mount(b'/etc', b'/tmp', None, 4096, None))",
    "remount": "call(libc.mount(None, b'/', None, 32, None))",
    "unmount": "call(libc.umount2(b'/proc', 2))",
    "new mount interface": "system(430, 430, b'tmpfs', 0)",
    "user namespace": "call(libc.unshare(0x10000000))",
    "mount namespace": "call(libc.unshare(0x20000))",
    "network namespace": "call(libc.unshare(0x40000000))",
    "namespace by clone": "pid = system(56, 220, 0x10000000 | 17, 0, 0, 0, 0); os._exit(0) if pid == 0 else None",
    "namespace by clone3": "system(435, 435, (ctypes.c_uint64 * 8)(0x10000000, 0, 0, 0, 17, 0, 0, 0), 64)",
    "enter a namespace": "call(libc.setns(os.open('/proc/self/ns/net', 0), 0))",
    "chroot": "os.chroot('/tmp')",
    "ptrace of init": "call(libc.ptrace(16, 1, 0, 0))",
    "memory of init": "open('/proc/1/mem', 'rb').read(1)",
    "environment of init": "open('/proc/1/environ', 'rb').read()",
    "descriptors of init": "os.listdir('/proc/1/fd')",
    "root of init": "os.listdir('/proc/1/root/')",
    "map of init": "open('/proc/1/maps', 'rb').read()",
    "key ring": "system(248, 217, b'user', b'name', b'data', 4, -3)",
    "key control": "system(250, 219, 0, -3, 0)",
    "bpf": "system(321, 280, 0, 0, 0)",
    "perf": "system(298, 241, ctypes.create_string_buffer(128), 0, -1, -1, 0)",
    "userfaultfd": "system(323, 282, 1)",
    "io_uring": "system(425, 425, 1, ctypes.create_string_buffer(256))",
    "kernel log": "call(libc.klogctl(3, ctypes.create_string_buffer(64), 64))",
    "clock": "call(libc.settimeofday((ctypes.c_long * 2)(1, 0), None))",
    "host name": "socket.sethostname('other')",
    "reboot": "call(libc.reboot(0))",
    "swap": "call(libc.swapoff(b'/tmp/x'))",
    "device node": "os.mknod('/tmp/null', 0o20666, os.makedev(1, 3))",
    "disk node": "os.mknod('/tmp/disk', 0o60666, os.makedev(8, 0))",
    "open by handle": "system(304, 265, 0, 0, 0)",
    "packet socket": "socket.socket(17, socket.SOCK_RAW)",
    "raw socket": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "vsock": "socket.socket(40, socket.SOCK_STREAM)",
    "kernel crypto": "socket.socket(38, socket.SOCK_SEQPACKET)",
    "become root": "os.setuid(0)",
    "another user": "os.setuid(12345)",
    "another group": "os.setgroups([0])",
    "raise limits": "call(libc.setrlimit(7, (ctypes.c_ulong * 2)(10**6, 10**6)))",
    "shield from memory limits": "put('/proc/self/oom_score_adj', b'-1000')",
    "priority": "os.setpriority(os.PRIO_PROCESS, 0, -10)",
    "end init": "os.kill(1, 9); os.stat('/no/such')",
    "kernel settings": "put('/proc/sys/kernel/hostname', b'x')",
    "core pattern": "put('/proc/sys/kernel/core_pattern', b'|/tmp/x')",
    "system request": "put('/proc/sysrq-trigger', b'h')",
    "kernel memory": "open('/proc/kcore', 'rb').read(1) or os.stat('/no/such')",
    "kernel keys": "open('/proc/keys', 'rb').read(1) or os.stat('/no/such')",
    "device tree": "put('/sys/kernel/uevent_helper', b'x')",
    "cgroups": "os.mkdir('/sys/fs/cgroup/memory/x')",
    "physical memory": "open('/dev/mem', 'rb').read(1)",
    "kernel messages": "open('/dev/kmsg', 'rb').read(1)",
    "fuse": "open('/dev/fuse', 'rb')",
    "disk": "[open(f'/dev/{name}', 'rb') for name in ('sda', 'vda', 'nvme0n1', 'xvda')]",
    "programs": "open('/usr/bin/true', 'r+b')",
    "configuration": "open('/etc/passwd', 'a')",
    "supervisor's code": "open('/opt/wardian/supervisor.pyc', 'a')",
    "engine's socket": "socket.socket(socket.AF_UNIX).connect('/var/run/docker.sock')",
    "the outside": "socket.create_connection(('1.1.1.1', 53), 3)",
    "the outside, IPv6": "socket.create_connection(('2606:4700:4700::1111', 53), 3)",
    "names": "socket.getaddrinfo('example.com', 80)",
    "metadata service": "socket.create_connection(('169.254.169.254', 80), 3)",
    "datagrams": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('8.8.8.8', 53))",
}

OPEN = """
files = []
try:
    for _ in range(200000):
        files.append(open('/dev/null'))
except OSError as error:
    print(error.errno, len(files))
"""
SERVE = """
import socket
server, local = socket.create_server(("0.0.0.0", 8000)), socket.socket(socket.AF_UNIX)
local.bind("\\0them")
local.listen()
open("/workspace/up", "w").close()
server.accept()
"""


@pytest.mark.anyio
class DenialContract(CellSuite):
    @pytest.mark.parametrize("code", CALLS.values(), ids=CALLS.keys())
    async def test_the_kernel_refuses(self, cell: Cell, code: str) -> None:
        assert (await python(cell, TRY.replace("{code}", code))).startswith("denied")

    async def test_the_agent_holds_nothing(self, cell: Cell) -> None:
        status = dict(line.split(":\t", 1) for line in (await printed(cell, "cat /proc/self/status")).splitlines() if ":\t" in line)
        assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
        assert status["Uid"].split() == status["Gid"].split() == [str(cell.agent_uid)] * 4
        assert status["Groups"].split() in ([], [str(cell.agent_uid)])

    async def test_no_descriptor_is_inherited(self, cell: Cell) -> None:
        found = await python(cell, "import os; print(*os.listdir('/proc/self/fd'))")
        assert set(found.split()) <= {"0", "1", "2", "3"}  # 3 is the listing's own

    async def test_open_files_run_out_with_a_type(self, cell: Cell) -> None:
        number, held = (await python(cell, OPEN)).split()
        assert (number, int(held) < SPEC.limits.open_files) == ("24", True)

    async def test_no_program_gives_privileges(self, cell: Cell) -> None:
        assert await printed(cell, "find / -xdev -type f -perm /6000 2>/dev/null; true") == ""

    async def test_files_of_the_host_are_not_there(self, cell: Cell, tmp_path: Path) -> None:
        secret = tmp_path / f"wardian-{secrets.token_hex(8)}"
        secret.write_text("host")
        assert (await run(cell, f"cat {secret}")).exit_code == 1
        assert await printed(cell, f"find / -name {secret.name} 2>/dev/null; true") == ""

    async def test_nothing_of_the_cells_own_workings_shows(self, cell: Cell) -> None:
        assert await printed(cell, "ls -A /cell 2>/dev/null; cat /cell/*/* 2>/dev/null; true") == ""

    async def test_only_plain_devices_are_there(self, cell: Cell) -> None:
        found = set((await printed(cell, "find /dev -type c -o -type b")).split())
        plain = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts/ptmx", "console"}
        assert found <= {f"/dev/{name}" for name in plain}

    async def test_only_the_loopback_is_there(self, cell: Cell) -> None:
        assert await printed(cell, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '") == "lo\n"
        assert await printed(cell, "tail -n +2 /proc/net/route") == ""

    async def test_a_port_of_the_host_is_out_of_reach(self, cell: Cell) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            code = f"socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 3)"
            assert (await python(cell, TRY.replace("{code}", code))).startswith("denied")

    async def test_an_abstract_socket_of_the_host_is_out_of_reach(self, cell: Cell) -> None:
        name = f"wardian-{secrets.token_hex(8)}"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f"\0{name}")
            server.listen()
            code = f"socket.socket(socket.AF_UNIX).connect('\\0{name}')"
            assert (await python(cell, TRY.replace("{code}", code))).startswith("denied")

    async def test_another_cell_is_out_of_reach(self, cell: Cell, make_cell: MakeCell) -> None:
        other = make_cell(SPEC, UID + 1)
        try:
            await other.start()
            await other.restore()
            async with anyio.create_task_group() as group:
                group.start_soon(run, other, f"exec python3 -c '{SERVE}' 7731", 30.0)
                with anyio.fail_after(10):
                    while "up" not in {entry.path for entry in await other.list_dir("/workspace")}:
                        pass
                for code in ("socket.create_connection(('127.0.0.1', 8000), 3)", "socket.socket(socket.AF_UNIX).connect('\\0them')"):
                    assert (await python(cell, TRY.replace("{code}", code))).startswith("denied")
                assert not await alive(cell, "7731")
                assert await alive(other, "7731")
                await run(cell, "kill -9 -1")
                assert await alive(other, "7731")
                group.cancel_scope.cancel()
        finally:
            await other.stop()

    async def test_ending_everything_within_reach_ends_only_the_episodes_own(self, cell: Cell) -> None:
        await run(cell, "kill -9 -1", timeout_s=5)
        assert await printed(cell, "echo on") == "on\n"
        await cell.restore()
        assert await printed(cell, "echo on") == "on\n"
