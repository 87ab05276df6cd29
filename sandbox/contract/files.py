"""Files: any bytes, any name, typed errors, and no way out by a link."""

import contextlib
from datetime import UTC, datetime

import anyio
import pytest

from wardian.sandbox.cell import Cell, ExecOutcome, Limits
from wardian.sandbox.contract.base import SPEC, UID, CellSuite, MakeCell, peak_memory_mib, printed, python, run
from wardian.sandbox.errors import FileProblem, FileProblemKind
from wardian.sandbox.files import FileEntry, FileKind, FileLayer

ODD_NAMES = [
    "year=2024/month=01/part.csv",
    "checkpoint_2024-01-10T05:23:11.chk",
    "-rf",
    "a b",
    "$(id)",
    "new\nline",
    "(tau) [x]*?",
    "n" * 255,
    "\u00e9",
    "e\u0301",
    b"\xff\xfe".decode("utf-8", "surrogateescape"),
    "'quoted\"",
    "tab\tback\\slash",
]
TYPED = [
    ("/workspace/missing", FileProblemKind.NOT_FOUND),
    ("/workspace/missing/x", FileProblemKind.PARENT_NOT_FOUND),
    ("/workspace/given", FileProblemKind.IS_DIRECTORY),
    ("/workspace/given/a.txt/x", FileProblemKind.NOT_A_DIRECTORY),
    ("/etc/shadow", FileProblemKind.PERMISSION_DENIED),
    ("/workspace/" + "n" * 256, FileProblemKind.NAME_TOO_LONG),
    ("", FileProblemKind.INVALID_PATH),
    ("a\0b", FileProblemKind.INVALID_PATH),
    ("/workspace/..", FileProblemKind.IS_DIRECTORY),
    ("/workspace/../..", FileProblemKind.IS_DIRECTORY),
    (".", FileProblemKind.IS_DIRECTORY),
    ("/dev/zero", FileProblemKind.NOT_A_FILE),
]


def one(path: str, data: bytes, mode: int = 0o644) -> FileLayer:
    return FileLayer({path: FileEntry(data, mode)})


@pytest.mark.anyio
class FileContract(CellSuite):
    @pytest.mark.parametrize("size", [0, 1, 96 * 1024, 128 * 1024, 10 * 1024 * 1024])
    async def test_any_size_is_written_and_read_back(self, cell: Cell, size: int) -> None:
        data = (bytes(range(256)) * (size // 256 + 1))[:size]
        await cell.write_files(one("/workspace/x", data))
        content = await cell.read_file("/workspace/x", max_bytes=size + 1)
        assert (content.data, content.size_bytes) == (data, size)
        assert await printed(cell, "wc -c < x") == f"{size}\n"

    @pytest.mark.parametrize("name", ODD_NAMES, ids=ascii)
    async def test_odd_names_are_kept(self, cell: Cell, name: str) -> None:
        path = f"/workspace/odd/{name}"
        await cell.write_files(one(path, b"x"))
        assert (await cell.read_file(path)).data == b"x"
        assert (await cell.stat(path)).kind is FileKind.FILE
        assert path in (await cell.changes()).changes
        if "/" not in name:
            assert name in {entry.path for entry in await cell.list_dir("/workspace/odd")}

    @pytest.mark.parametrize(("path", "kind"), TYPED, ids=ascii)
    async def test_reading_fails_with_a_type(self, cell: Cell, path: str, kind: FileProblemKind) -> None:
        with pytest.raises(FileProblem) as caught:
            await cell.read_file(path)
        assert caught.value.kind is kind

    @pytest.mark.parametrize(
        ("path", "kind"),
        [
            ("/workspace/given", FileProblemKind.IS_DIRECTORY),
            ("/workspace/given/a.txt/x", FileProblemKind.NOT_A_DIRECTORY),
            ("/etc/new", FileProblemKind.PERMISSION_DENIED),
            ("/workspace/" + "n" * 256, FileProblemKind.NAME_TOO_LONG),
        ],
        ids=ascii,
    )
    async def test_writing_fails_with_a_type(self, cell: Cell, path: str, kind: FileProblemKind) -> None:
        with pytest.raises(FileProblem) as caught:
            await cell.write_files(one(path, b"x"))
        assert caught.value.kind is kind

    @pytest.mark.parametrize(
        ("path", "kind"), [("/workspace/no", FileProblemKind.NOT_FOUND), ("given/a.txt", FileProblemKind.NOT_A_DIRECTORY)]
    )
    async def test_listing_fails_with_a_type(self, cell: Cell, path: str, kind: FileProblemKind) -> None:
        with pytest.raises(FileProblem) as caught:
            await cell.list_dir(path)
        assert caught.value.kind is kind

    async def test_files_belong_to_the_agent_with_their_modes(self, cell: Cell) -> None:
        await cell.write_files(one("/workspace/new/dir/run", b"#!/bin/bash\necho ran\n", 0o750))
        found, above = await cell.stat("/workspace/new/dir/run"), await cell.stat("/workspace/new/dir")
        assert (found.mode & 0o7777, found.uid) == (0o750, cell.agent_uid)
        assert (above.mode & 0o7777, above.uid) == (0o755, cell.agent_uid)
        assert await printed(cell, "new/dir/run; given/run.sh; echo more >> given/a.txt") == "ran\nran\n"

    async def test_files_and_the_folders_above_them_bear_the_time_that_is_given(self, cell: Cell) -> None:
        await cell.write_files(one("/workspace/dated/in/it", b"x"), datetime(2031, 5, 6, 12, 0, 0, 250_000, tzinfo=UTC))
        shown = await printed(cell, "stat -c %y /workspace /workspace/dated /workspace/dated/in /workspace/dated/in/it")
        assert shown.splitlines() == ["2031-05-06 12:00:00.250000000 +0000"] * 4

    async def test_a_part_is_read_with_the_true_size(self, cell: Cell) -> None:
        content = await cell.read_file("given/a.txt", offset=1, max_bytes=2)
        assert (content.data, content.size_bytes, content.offset) == (b"ne", 4, 1)
        assert (await cell.read_file("given/a.txt", offset=99)).data == b""

    async def test_a_huge_sparse_file_costs_nothing(self, make_cell: MakeCell) -> None:
        cell = make_cell(type(SPEC)("", limits=Limits(memory_mib=64, disk_mib=8, shm_mib=1, file_size_mib=8192)), UID)
        try:
            await cell.start()
            await cell.restore()
            await printed(cell, "truncate -s 5G big")
            before = peak_memory_mib()
            content = await cell.read_file("big", max_bytes=1000)
            assert (content.data, content.size_bytes) == (bytes(1000), 5 << 30)
            assert peak_memory_mib() - before < 32
        finally:
            await cell.stop()

    async def test_a_fifo_does_not_hang(self, cell: Cell) -> None:
        await printed(cell, "mkfifo pipe; ln -s pipe to-pipe")
        for path in ("pipe", "to-pipe"):
            with anyio.fail_after(5), pytest.raises(FileProblem) as caught:
                await cell.read_file(path)
            assert caught.value.kind is FileProblemKind.NOT_A_FILE

    async def test_a_link_never_leads_out(self, cell: Cell) -> None:
        inside = (await printed(cell, "ln -s /etc/passwd lnk; ln -s / up; ln -s loop loop; cat /etc/passwd")).encode()
        assert (await cell.read_file("lnk")).data == inside
        assert (await cell.read_file("up/etc/passwd")).data == inside
        assert ((await cell.stat("lnk")).kind, (await cell.stat("lnk")).link_target) == (FileKind.LINK, "/etc/passwd")
        assert {entry.kind for entry in await cell.list_dir("/workspace") if entry.path != "given"} == {FileKind.LINK}
        with pytest.raises(FileProblem):
            await cell.read_file("loop")

    async def test_writing_at_a_link_replaces_nothing_beyond_the_agents_reach(self, cell: Cell) -> None:
        before = await printed(cell, "ln -s /etc/passwd lnk; mkdir d; ln -s /etc d/etc; cat /etc/passwd")
        for path in ("/workspace/lnk", "/workspace/d/etc/passwd"):
            with contextlib.suppress(FileProblem):  # a link may be replaced, and what is behind it may not
                await cell.write_files(one(path, b"root::0:0::/:/bin/bash\n"))
        assert await printed(cell, "cat /etc/passwd") == before

    async def test_a_full_disk_is_typed_and_survived(self, cell: Cell) -> None:
        await cell.write_files(one("/workspace/old", b"old"))
        fill = "for i in 1 2 3 4 5 6; do head -c 8M /dev/zero > fill$i || exit 9; done"
        assert (await run(cell, fill)).exit_code == 9
        with pytest.raises(FileProblem) as caught:
            await cell.write_files(one("/workspace/old", b"x" * (8 << 20)))
        assert caught.value.kind in (FileProblemKind.DISK_FULL, FileProblemKind.TOO_LARGE)
        assert (await cell.read_file("old")).data == b"old"
        assert await printed(cell, "rm fill*; echo y > old; cat old") == "y\n"

    async def test_more_than_the_disk_is_refused_at_once(self, cell: Cell) -> None:
        with pytest.raises(FileProblem) as caught:
            await cell.write_files(one("/workspace/x", bytes(25 << 20)))
        assert caught.value.kind in (FileProblemKind.TOO_LARGE, FileProblemKind.DISK_FULL)

    async def test_a_file_beyond_its_own_limit_is_the_commands_failure(self, cell: Cell) -> None:
        result = await run(cell, "head -c 20M /dev/zero > big")
        assert result.outcome in (ExecOutcome.EXITED, ExecOutcome.KILLED)
        assert result.exit_code != 0
        assert await printed(cell, "rm -f big; echo on") == "on\n"

    async def test_a_directory_of_the_world_can_be_renamed(self, cell: Cell) -> None:
        await python(
            cell, "import os; os.rename('/workspace/given', '/workspace/taken'); os.link('/workspace/taken/a.txt', '/workspace/hard')"
        )
        assert (await cell.read_file("taken/deep/b.txt")).data == b"two\n"
        changes = (await cell.changes()).changes
        assert changes["/workspace/given"].kind is None
        assert {"/workspace/taken/a.txt", "/workspace/taken/deep/b.txt", "/workspace/hard"} <= set(changes)

    async def test_changes_are_what_changed_and_no_more(self, cell: Cell) -> None:
        assert (await cell.changes()).changes == {}
        await printed(
            cell,
            "echo new > n; echo more >> given/a.txt; rm given/deep/b.txt; chmod 700 given/run.sh; mkdir -p e/f; ln -s n l; touch given",
        )
        changes = (await cell.changes()).changes
        kinds = {path.removeprefix("/workspace/"): change.kind for path, change in changes.items()}
        assert kinds == {
            "n": FileKind.FILE,
            "given/a.txt": FileKind.FILE,
            "given/deep/b.txt": None,
            "given/run.sh": FileKind.FILE,
            "e": FileKind.DIRECTORY,
            "e/f": FileKind.DIRECTORY,
            "l": FileKind.LINK,
        }
        assert (changes["/workspace/n"].size_bytes, changes["/workspace/given/run.sh"].mode & 0o777) == (4, 0o700)

    async def test_a_change_that_was_taken_back_is_none(self, cell: Cell) -> None:
        await printed(
            cell, "cp given/a.txt k; echo x > given/a.txt; cat k > given/a.txt; rm k; chmod 600 given/a.txt; chmod 644 given/a.txt"
        )
        assert (await cell.changes()).changes == {}

    async def test_equal_changes_have_equal_digests(self, cell: Cell) -> None:
        digests = set()
        for _ in range(2):
            await printed(cell, "mkdir d; echo a > d/f; mv given/a.txt d/; sleep 0.02")
            digests.add((await cell.changes()).digest)
            await cell.restore()
        assert len(digests) == 1
