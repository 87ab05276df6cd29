"""Resets: whatever an episode did, the next one starts where it should, and the receipt says so truthfully."""

import pytest

from wardian.sandbox.cell import Cell, ExecOutcome
from wardian.sandbox.contract.base import CellSuite, alive, printed, python, run

STATE = """
import json, os, resource, socket
def content(path):
    readable = os.path.isfile(path) and not os.path.islink(path) and os.access(path, os.R_OK)
    return open(path, 'rb').read().hex() if readable else ''
def tree(top):
    for path, directories, names in os.walk(top):
        for name in directories + names:
            full = os.path.join(path, name)
            found = os.lstat(full)
            yield full, found.st_mode, found.st_uid == os.getuid(), content(full)
def lines(path):
    return len(open(path).readlines()) if os.path.exists(path) else 0
print(json.dumps({
    'files': sorted(row for top in ('/workspace', '/tmp', '/var/tmp', '/home', '/dev/shm', '/dev/mqueue') for row in tree(top)),
    'ipc': [lines('/proc/sysvipc/' + kind) for kind in ('shm', 'msg', 'sem')],
    'sockets': [lines('/proc/net/' + kind) for kind in ('tcp', 'tcp6', 'udp', 'unix')],
    'environment': dict(os.environ),
    'limits': [resource.getrlimit(kind) for kind in range(15)],
    'umask': os.umask(0o22),
    'host': [socket.gethostname(), os.getcwd(), os.getgroups()],
    'processes': len([name for name in os.listdir('/proc') if name.isdigit()]),
}, sort_keys=True))
"""
LIBC = "import ctypes; libc = ctypes.CDLL(None, use_errno=True)\n"
DIRT = {
    "files": "echo x > new; echo x > /tmp/new; echo x > ~/.bashrc; mkdir -p /var/tmp/a/b; echo x >> given/a.txt",
    "removed files": "rm -rf given; mkdir given; ln -s /etc given/deep",
    "renamed": "mv given elsewhere; mkdir given",
    "modes": "mkdir -p w/a; touch w/a/f; chmod 000 w/a; chmod 000 given; chmod 700 .",
    "many files": "mkdir many; cd many; python3 -c \"for i in range(10000): open(str(i), 'w').close()\"",
    "deep": "python3 -c \"import os\nfor i in range(900): os.mkdir('d'); os.chdir('d')\"",
    "odd nodes": "mkfifo f; ln -s loop loop; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('s')\"",
    "full disk": "for i in 1 2 3 4 5 6; do head -c 8M /dev/zero > f$i; done; head -c 3M /dev/zero > /dev/shm/x; true",
    "shm": "echo x > /dev/shm/left; mkdir /dev/shm/dir",
    "sysv": f"python3 -c '{LIBC}assert min(libc.shmget(7, 4096, 0o1666), libc.msgget(7, 0o1666), libc.semget(7, 1, 0o1666)) >= 0'",
    "mqueue": f"python3 -c '{LIBC}assert libc.mq_open(b\"/left\", 0o102, 0o666, None) >= 0'",
    "profile": "mkdir -p ~/.local/lib ~/.config; echo 'exit 9' > ~/.profile; echo 'exit 9' > ~/.bash_profile; echo 'exit 9' > ~/.bashrc",
    "path": "mkdir -p ~/bin; printf '#!/bin/sh\\nexit 9\\n' > ~/bin/ls; chmod +x ~/bin/ls; cp ~/bin/ls ls",
}
BUSY = {
    "process": "sleep 7731",
    "deaf process": "trap '' TERM INT HUP; while :; do sleep 7731; done",
    "port": "python3 -c \"import socket; s = socket.create_server(('127.0.0.1', 8000)); s.accept()\"",
    "abstract socket": "python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.bind('\\0left'); s.listen(); s.accept()\"",
    "stopped process": "kill -STOP $$",
    "writer": "while :; do echo x >> grow; done",
    "forker": "f() { f | f & }; f; sleep 20",
}


@pytest.mark.anyio
class ResetContract(CellSuite):
    @pytest.mark.parametrize("dirt", DIRT.values(), ids=DIRT.keys())
    async def test_nothing_of_an_episode_is_left(self, cell: Cell, dirt: str) -> None:
        before = await python(cell, STATE)
        result = await run(cell, dirt, timeout_s=30)
        assert (result.outcome, result.exit_code) == (ExecOutcome.EXITED, 0), result.stderr.text()
        await cell.restore()
        assert await python(cell, STATE) == before
        assert (await cell.changes()).changes == {}

    @pytest.mark.parametrize("busy", BUSY.values(), ids=BUSY.keys())
    async def test_nothing_that_runs_outlives_its_episode(self, cell: Cell, busy: str) -> None:
        before = await python(cell, STATE)
        await run(cell, busy, timeout_s=0.7)
        await cell.restore()
        assert await python(cell, STATE) == before
        assert not await alive(cell, "7731")

    async def test_a_port_can_be_listened_on_in_every_episode(self, cell: Cell) -> None:
        code = """
import socket
server = socket.create_server(('127.0.0.1', 8000))
client = socket.create_connection(('127.0.0.1', 8000))
server.accept()[0].close()
client.close()
print('served')
"""
        for _ in range(3):
            assert await python(cell, code) == "served\n"
            await cell.restore()

    async def test_process_numbers_start_again(self, cell: Cell) -> None:
        numbers = set()
        for _ in range(3):
            numbers.add(await printed(cell, "for i in $(seq 50); do /bin/true; done; echo $$"))
            await cell.restore()
        assert all(int(number) < 100 for number in numbers)

    async def test_receipts_count_and_agree(self, cell: Cell) -> None:
        first = await cell.restore()
        await run(cell, "echo x > f; sleep 7731 & exit 0")
        second = await cell.restore()
        assert second.epoch == first.epoch + 1
        assert second.fingerprint.differences(first.fingerprint) == ()
        assert second.fingerprint.leaves
        assert second.total_ms > 0

    async def test_a_clean_episode_can_follow_a_clean_one_many_times(self, cell: Cell) -> None:
        roots = {(await cell.restore()).fingerprint.root for _ in range(10)}
        assert len(roots) == 1

    async def test_stopping_twice_is_harmless(self, cell: Cell) -> None:
        await cell.stop()
        await cell.stop()
