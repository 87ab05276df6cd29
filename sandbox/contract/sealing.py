"""Sealed files: whatever an agent can make comes back in any cell, and nothing more than that."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import anyio
import pytest

from wardian.sandbox.cell import Cell, Tier
from wardian.sandbox.contract.base import SPEC, UID, CellSuite, MakeCell, printed, python, run
from wardian.sandbox.errors import LeakDetected, SnapshotRefused, SnapshotTooLarge
from wardian.sandbox.files import FileEntry, FileLayer
from wardian.sandbox.sealed import SealedFiles

ALL_KINDS = r"""
set -e
mkdir -p a/b/c empty; echo hi > a/f; chmod 640 a/f; chmod 000 a/b; ln -s /etc/passwd lnk; ln -s / up; ln a/f a/g; ln a/f hard
mkfifo fifo; ln fifo fifo2
python3 - <<'END'
import os, socket
socket.socket(socket.AF_UNIX).bind('sock')
os.mkdir(b'odd\xff\xfe')
open(b'odd\xff\xfe/new\nline', 'w').write('x')
with open('sparse', 'wb') as sparse:
    sparse.truncate(15 << 20)
    sparse.seek(5 << 20)
    sparse.write(b'z' * 5000)
os.mkdir('read_only')
open('read_only/file', 'w')
for path, name, value in (('a/f', 'user.note', b'\x00\x01'), ('empty', 'user.\u00e9', b'v'),
                          ('read_only', 'user.a', b'1'), ('read_only/file', 'user.b', b'2')):
    try:
        os.setxattr(path, name, value)
    except OSError:
        pass
END
echo more >> given/a.txt; rm given/deep/b.txt; rmdir given/deep; mkdir given/deep; mv given taken; mkdir given; echo n > given/a.txt
chmod 4755 hard; chmod 2755 empty; chmod 1777 a; touch -d 2001-02-03 a/g; rm -f taken/run.sh; ln -s run taken/run.sh
echo t > /tmp/t; mkdir -p /var/tmp/x; echo y > /var/tmp/x/y; ln /var/tmp/x/y /var/tmp/x/z; chmod 500 odd*
chmod 444 read_only/file; chmod 555 read_only; mkdir shut_1 shut_2
echo s > shut_1/s; ln shut_1/s shut_2/s; ln shut_1/s s; chmod 111 shut_1; chmod 0 shut_2
"""
SHOWN = r"""
find . /tmp /var/tmp -mindepth 1 -not -path ./a/b/c -printf '%p %y %m %s %n %l %U %G\n' 2>/dev/null | sed "s/ $(id -u)\b/ me/g" | sort
du -k sparse; stat -c %Y a/g; cat taken/a.txt given/a.txt odd*/*; [ hard -ef a/g ] && echo same; [ fifo -ef fifo2 ] && echo same
[ shut_1/s -ef s ] && echo same
python3 -c "
import os
for path in 'a/f', 'empty', 'read_only', 'read_only/file':
    print(sorted((name, os.getxattr(path, name)) for name in os.listxattr(path)))"
"""

TIMES = "find given given/* -printf '%p %T@\\n'; stat -c '%n %.Y' / /etc /etc/passwd /workspace"

AGENT = -1
"""Stands for the agent's uid in a table."""


def forged(files: SealedFiles, **changes: Any) -> SealedFiles:
    """The same files with their first entry changed: `name`, `kind`, `depth`, `content` or `attributes`."""
    rows = json.loads(files.table)
    places = {"depth": 0, "name": 1, "kind": 2, "content": 7, "attributes": 8}
    for field, value in changes.items():
        rows[-1][places[field]] = value
    return replace(files, table=json.dumps(rows).encode())


FORGERIES: tuple[dict[str, Any], ...] = (
    {"name": ".."},
    {"name": "../../escaped"},
    {"name": "/workspace/escaped"},
    {"name": ""},
    {"depth": 9},
    {"depth": 0},
    {"kind": "device"},
    {"content": [4, [[0, 1 << 20]]]},
    {"attributes": {"security.capability": "00"}},
    {"attributes": {"trusted.overlay.metacopy": ""}},
)


def entry(depth: int, name: str, kind: str, mode: int = 0o755, owner: int = 0, content: Any = None, **attributes: str) -> list[Any]:
    return [depth, name, kind, mode, owner, owner, 0, content, {f"trusted.overlay.{key}": value for key, value in attributes.items()}]


WORKSPACE, ETC = entry(1, "workspace", "directory", owner=AGENT), entry(1, "etc", "directory")
NOTHING = [0, []]
UNMAKEABLE: Mapping[str, tuple[list[Any], ...]] = {
    "a root's program": (WORKSPACE, entry(2, "su", "file", 0o6755, 0, NOTHING)),
    "a root's program for all": (WORKSPACE, entry(2, "su", "file", 0o6777, 0, NOTHING)),
    "a file of root": (WORKSPACE, entry(2, "f", "file", 0o644, 0, NOTHING)),
    "a file of another user": (WORKSPACE, entry(2, "f", "file", 0o644, 12345, NOTHING)),
    "a directory of root": (WORKSPACE, entry(2, "d", "directory")),
    "a start state's directory given to root": (entry(1, "workspace", "directory"),),
    "the list of users": (ETC, entry(2, "passwd", "file", 0o644, 0, NOTHING)),
    "the list of users, now the agent's": (ETC, entry(2, "passwd", "file", 0o644, AGENT, NOTHING)),
    "a directory of root, now the agent's": (entry(1, "etc", "directory", owner=AGENT),),
    "a directory of root, now for all": (entry(1, "etc", "directory", 0o777),),
    "a new name for what is closed": (WORKSPACE, entry(2, "root", "directory", 0o700, 0, redirect=b"/root".hex())),
    "the agent's name for what is closed": (entry(1, "workspace", "directory", owner=AGENT, redirect=b"/root".hex()),),
    "a way out": (WORKSPACE, entry(2, "out", "directory", owner=AGENT, redirect=b"/workspace/../../layers".hex())),
    "an opaque directory of root": (entry(1, "etc", "directory", opaque=b"y".hex()),),
    "no programs": (entry(1, "usr", "whiteout"),),
    "a file beside the root's": (entry(1, "new", "file", 0o644, AGENT, NOTHING),),
    "devices elsewhere": (entry(1, "dev", "link", 0o777, AGENT, "/workspace"),),
    "processes elsewhere": (entry(1, "proc", "directory"),),
    "temporary files elsewhere": (entry(1, "tmp", "link", 0o777, AGENT, "/proc/1/root"),),
    "another name for an entry from behind": (WORKSPACE, entry(2, "f", "file", 0o644, AGENT, NOTHING), entry(2, "g", "hard", content=-2)),
}


@pytest.mark.anyio
class SealContract(CellSuite):
    async def test_all_that_an_agent_made_comes_back_in_this_cell_and_in_another(self, cell: Cell, make_cell: MakeCell) -> None:
        await printed(cell, ALL_KINDS)
        shown, changes = await printed(cell, SHOWN), await cell.changes()
        files = await cell.seal_files()
        assert files.size_bytes < 64 * 1024
        other = make_cell(SPEC, UID + 1)
        try:
            await other.start()
            await other.restore()
            await cell.restore()
            assert await printed(other, TIMES) == await printed(cell, TIMES)
            for place in (other, cell):
                found = (await place.restore(files)).changes
                assert found == await place.changes()
                assert found == changes
                assert (await place.seal_files()).key == files.key
                assert await printed(place, SHOWN) == shown
                assert await printed(place, "rm -rf taken/deep; echo on > given/a.txt; cat given/a.txt") == "on\n"
            await cell.restore()
            assert (await cell.changes()).changes == {}
        finally:
            await other.stop()

    async def test_more_than_allowed_is_refused_and_the_episode_goes_on(self, cell: Cell) -> None:
        await cell.write_files(FileLayer({"/workspace/big": FileEntry(bytes(range(256)) * 40)}))
        with pytest.raises(SnapshotTooLarge, match="more than 10000 bytes"):
            await cell.seal_files(10_000)
        await python(cell, "import os\nfor i in range(1100): os.symlink('x' * 4000, str(i))")
        with pytest.raises(SnapshotTooLarge, match="too many or too long"):
            await cell.seal_files()
        assert await printed(cell, "find . -type l -delete; wc -c < big") == "10240\n"
        assert len((await cell.seal_files(20_000)).data) == 10_240

    async def test_what_runs_meanwhile_is_named_and_left_out(self, cell: Cell) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(run, cell, "exec sleep 7731")
            with anyio.fail_after(10):
                while not any("sleep 7731" in one for one in (await cell.seal_files()).left_out.processes):
                    pass
            group.cancel_scope.cancel()
        await printed(cell, "echo x > /dev/shm/left")
        with anyio.fail_after(10):  # who gave up does not wait for the command's end
            while (files := await cell.seal_files()).left_out.processes:
                pass
        assert files.left_out.objects == ("/dev/shm/left",)
        assert files.empty
        await cell.restore(files)
        assert (await cell.changes()).changes == {}

    async def test_forged_damaged_and_foreign_files_are_refused_and_reach_nothing(self, cell: Cell) -> None:
        await printed(cell, "echo abc > zz")
        files = await cell.seal_files()
        start = {**json.loads(files.start), "image": "another", "tier": "none"}
        with pytest.raises(SnapshotRefused, match=r"image: 'another', and here .*tier: 'none', and here"):
            await cell.restore(replace(files, start=json.dumps(start)))
        assert await printed(cell, "cat zz") == "abc\n"
        for changes in FORGERIES if cell.tier is Tier.CHAMBER else FORGERIES[:2]:
            with pytest.raises(SnapshotRefused, match="cannot be laid"):
                await cell.restore(forged(files, **changes))
        for rows in UNMAKEABLE.values() if cell.tier is Tier.CHAMBER else ():
            with pytest.raises(SnapshotRefused, match=r"the agent can|the cell's own|of no entry"):
                await cell.restore(replace(files, table=json.dumps(rows).encode(), data=b""))
        await cell.restore(files)
        assert await printed(cell, "cat zz; ls / /workspace | grep -c escaped; true") == "abc\n0\n"
        with pytest.raises(LeakDetected, match="upper"):
            await cell.restore(replace(files, table=files.table + b" "))
