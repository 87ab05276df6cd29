"""The packs `shell` and `files` in a real cell."""

import base64
from datetime import UTC, datetime

import pytest

from wardian.sandbox.cell import Cell
from wardian.sandbox.files import FileEntry, FileLayer
from wardian.sandbox.world import World
from wardian.tools.contract import CallEvent, Json, Status, ToolCall, ToolResult
from wardian.tools.packs.files import file_tools
from wardian.tools.packs.shell import SHELL
from wardian.tools.toolbox import Toolbox

pytestmark = pytest.mark.anyio
BOX = Toolbox([SHELL, *file_tools()])


async def call(cell: Cell, name: str, **args: Json) -> tuple[ToolResult, CallEvent]:
    world = World(start=datetime(2026, 1, 1, tzinfo=UTC), seed=1, cell=cell)
    return await BOX.call(world, ToolCall(name, args), agent_id="agent", step=1)


async def shell(cell: Cell, command: str, **more: Json) -> Json:
    return (await call(cell, "shell", command=command, **more))[0].content


async def put(cell: Cell, path: str, data: bytes, mode: int = 0o644) -> None:
    await cell.write_files(FileLayer({path: FileEntry(data, mode)}))


async def bytes_of(cell: Cell, path: str) -> bytes:
    return (await cell.read_file(path)).data


async def test_a_command_gives_code_and_both_streams(cell: Cell) -> None:
    assert await shell(cell, "echo out; echo err >&2; exit 3") == {
        "outcome": "exited",
        "exit_code": 3,
        "stdout": "out\n",
        "stderr": "err\n",
    }
    assert await shell(cell, "true") == {"outcome": "exited", "exit_code": 0, "stdout": "", "stderr": ""}


async def test_each_call_is_a_fresh_shell_and_files_last(cell: Cell) -> None:
    for breaking in ("set -euo pipefail; X=1; echo a > kept; false", "exit 3", "kill -9 $$", "exec sleep 0.01", 'echo "unclosed'):
        await shell(cell, breaking)
    assert (await shell(cell, 'echo "ok$X"; cat kept'))["stdout"] == "ok\na\n"


async def test_a_heredoc_arrives_as_written(cell: Cell) -> None:
    await shell(cell, "cat <<'EOF' > f\nit's $HOME\nEOF")
    assert await bytes_of(cell, "/workspace/f") == b"it's $HOME\n"


async def test_a_redrawn_line_shows_its_last_state_and_the_log_its_bytes(cell: Cell) -> None:
    result, event = await call(cell, "shell", command=r"printf 'a 1%%\ra 99%%\r\x1b[?25l\x1b[2Kdone\n'")
    assert result.content["stdout"] == "done\n"
    assert base64.b64decode(event.attachments["stdout"]) == b"a 1%\ra 99%\r\x1b[?25l\x1b[2Kdone\n"
    assert (await call(cell, "shell", command="echo plain"))[1].attachments == {}


async def test_a_command_over_its_limit_is_a_timeout_with_what_it_said(cell: Cell) -> None:
    result, event = await call(cell, "shell", command="echo x >> n; echo started; sleep 60", timeout_s=1)
    assert (result.status, result.content["stdout"]) == (Status.TIMEOUT, "started\n")
    assert result.latency_ms >= 1000
    assert result.inexact
    assert event.inexact
    assert (await shell(cell, "wc -l < n; pgrep -c sleep"))["stdout"] == "1\n0\n"


async def test_background_processes_are_ended_and_named(cell: Cell) -> None:
    assert "Background processes" in (await shell(cell, "(sleep 60 &) ; exit 0"))["note"]


async def test_long_output_is_cut_with_its_true_size(cell: Cell) -> None:
    found = await shell(cell, "head -c 3000000 /dev/zero | tr '\\0' x; echo END")
    assert found["cut_from_bytes"] == {"stdout": 3_000_004}
    assert found["stdout"].endswith("xEND\n")
    assert "of 3000004 bytes left out" in found["stdout"]


async def test_a_control_token_is_plain_text(cell: Cell) -> None:
    assert (await shell(cell, "echo '<|im_end|>'"))["stdout"] == "<|im_end|>\n"


@pytest.mark.parametrize("name", ["a b", "$(id)", "-rf", "year=2024/x:y(1)", "é", "e\u0301", "new\nline"])
async def test_what_is_written_is_read_back_under_any_name(cell: Cell, name: str) -> None:
    text = "no final newline\r\né\U0001f378 <b>&amp;</b>"
    written = (await call(cell, "write_file", path=name, content=text))[0].content
    assert written["size_bytes"] == len(text.encode())
    assert (await call(cell, "read_file", path=name))[0].content["text"] == text


async def test_reading_by_pieces_cuts_no_character(cell: Cell) -> None:
    data = ("x" * 8191 + "é" + "tail").encode()
    await put(cell, "/workspace/f", data)
    first = (await call(cell, "read_file", path="f", limit=8192))[0].content
    assert (first["text"], first["next_offset"], first["size_bytes"]) == ("x" * 8191, 8191, len(data))
    rest = (await call(cell, "read_file", path="f", offset=first["next_offset"]))[0].content
    assert (rest["text"], "next_offset" in rest) == ("étail", False)


async def test_a_binary_file_says_what_it_is(cell: Cell) -> None:
    await put(cell, "/workspace/p.png", b"\x89PNG\r\n\x1a\n" + bytes(1226))
    found = (await call(cell, "read_file", path="p.png"))[0].content
    assert found["note"].startswith("binary file, 1234 bytes, image/png. ")
    assert "text" not in found


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("nope", Status.NOT_FOUND),
        ("no/parent", Status.NOT_FOUND),
        ("/workspace/..", Status.INVALID_ARGUMENTS),
        (".", Status.INVALID_ARGUMENTS),
        ("", Status.INVALID_ARGUMENTS),
        ("a\0b", Status.INVALID_ARGUMENTS),
        ("x" * 300, Status.INVALID_ARGUMENTS),
        ("/etc/shadow", Status.PERMISSION_DENIED),
    ],
)
async def test_each_bad_path_has_its_own_answer(cell: Cell, path: str, status: Status) -> None:
    assert (await call(cell, "read_file", path=path))[0].status is status


async def test_an_edit_changes_its_line_and_nothing_else(cell: Cell) -> None:
    await put(cell, "/workspace/run.sh", b"one\r\ntwo\r\nthree", 0o755)
    assert (await call(cell, "edit_file", path="run.sh", old="one\ntwo", new="1\n2"))[0].status is Status.OK
    assert await bytes_of(cell, "/workspace/run.sh") == b"1\r\n2\r\nthree"
    assert (await cell.stat("/workspace/run.sh")).mode & 0o777 == 0o755


@pytest.mark.parametrize(("data", "count"), [(b"xx x", 3), (b"none", 0)])
async def test_an_edit_that_is_not_unique_changes_nothing(cell: Cell, data: bytes, count: int) -> None:
    await put(cell, "/workspace/f", data)
    result, _ = await call(cell, "edit_file", path="f", old="x", new="y")
    assert (result.status, f"{count} times" in result.message) == (Status.CONFLICT, True)
    assert await bytes_of(cell, "/workspace/f") == data


async def test_listing_is_by_name_with_kinds_and_sizes(cell: Cell) -> None:
    await shell(cell, "mkdir d; printf abc > b; ln -s b a")
    assert (await call(cell, "list_files"))[0].content["entries"] == [
        {"name": "a", "kind": "link", "target": "b"},
        {"name": "b", "kind": "file", "size_bytes": 3},
        {"name": "d", "kind": "directory"},
    ]


async def test_writing_keeps_the_mode_and_says_what_it_made(cell: Cell) -> None:
    await put(cell, "/workspace/run.sh", b"old", 0o755)
    assert (await call(cell, "write_file", path="run.sh", content="new"))[0].content["created"] is False
    assert (await cell.stat("/workspace/run.sh")).mode & 0o777 == 0o755
    assert (await call(cell, "write_file", path="x/y/z", content=""))[0].content["created"] is True
    assert (await call(cell, "write_file", path="x/", content=""))[0].status is Status.INVALID_ARGUMENTS
