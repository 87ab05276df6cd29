"""The tool `read_file` in a real cell."""

from typing import Any

import pytest

from wardian.tools.contract import Status
from wardian.tools.packs.reading import READ_BYTES

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", ["a b", "$(id)", "-rf", "year=2024/x:y(1)", "é", "e\u0301", "new\nline", "n" * 255])
async def test_what_is_written_is_read_back_under_any_name(hands: Any, name: str) -> None:
    text = "no final newline\r\né\U0001f378 <b>&amp;</b>"
    assert (await hands.content("write_file", path=name, content=text))["size_bytes"] == len(text.encode())
    assert (await hands.content("read_file", path=name))["text"] == text


async def test_reading_by_pieces_cuts_no_character(hands: Any) -> None:
    data = ("x" * 8191 + "é" + "tail").encode()
    await hands.put("f", data)
    first = await hands.content("read_file", path="f", limit=8192)
    assert (first["text"], first["next_offset"], first["size_bytes"]) == ("x" * 8191, 8191, len(data))
    rest = await hands.content("read_file", path="f", offset=first["next_offset"])
    assert (rest["text"], "next_offset" in rest) == ("étail", False)


@pytest.mark.parametrize("step", ["next_offset", "next_line"])
async def test_pages_put_together_are_the_file(hands: Any, step: str) -> None:
    text = "".join(f"{number} é\U0001f378\n" * (number % 7) + "x" * (number % 90) for number in range(1500)) + "end"
    await hands.put("f", text.encode())
    args: dict[str, Any] = {"lines": 300} if step == "next_line" else {"limit": 5000}
    page = await hands.content("read_file", path="f", **args)
    read = page["text"]
    while step in page:
        page = await hands.content("read_file", path="f", **args, **{"line" if step == "next_line" else "offset": page[step]})
        read += page["text"]
    assert read == text


@pytest.mark.parametrize(
    ("data", "args", "shown", "where"),
    [
        (b"a\nb\nc\n", {"line": 2}, "b\nc\n", (2, 3, 3, None)),
        (b"a\nb\nc\n", {"line": 2, "lines": 1}, "b\n", (2, 2, 3, 3)),
        (b"a\nb\nc", {"line": 3}, "c", (3, 3, 3, None)),
        (b"a\nb\nc", {"lines": 2}, "a\nb\n", (1, 2, 3, 3)),
        (b"a\r\nb\rb\r\nc\r\n", {"line": 2, "lines": 1}, "b\rb\r\n", (2, 2, 3, 3)),
        (b"", {"line": 1}, "", (1, 0, 0, None)),
        (b"\n\n\n", {"line": 2, "lines": 1}, "\n", (2, 2, 3, 3)),
        ("é\n".encode() * 20_000, {"line": 12_345, "lines": 2}, "é\né\n", (12_345, 12_346, 20_000, 12_347)),
    ],
)
async def test_lines_are_counted_and_true(hands: Any, data: bytes, args: Any, shown: str, where: Any) -> None:
    await hands.put("f", data)
    page = await hands.content("read_file", path="f", **args)
    assert page["text"] == shown
    assert (page["first_line"], page["last_line"], page["total_lines"], page.get("next_line")) == where
    assert page["size_bytes"] == len(data)


async def test_a_line_longer_than_a_page_is_shown_in_part_and_says_so(hands: Any) -> None:
    await hands.put("f", b"short\n" + b"y" * 40_000 + b"\nlast\n")
    page = await hands.content("read_file", path="f", line=2)
    assert (len(page["text"]), page["next_offset"], "next_line" in page) == (READ_BYTES, 6 + READ_BYTES, False)
    assert "longer than" in page["note"]


async def test_only_whole_lines_are_shown_where_lines_are_asked_for(hands: Any) -> None:
    await hands.put("f", b"123456789\n" * 5000)
    page = await hands.content("read_file", path="f", line=1)
    assert (page["text"], page["next_line"]) == ("123456789\n" * (READ_BYTES // 10), READ_BYTES // 10 + 1)


@pytest.mark.parametrize(("args", "status"), [({"line": 4}, Status.NOT_FOUND), ({"line": 1, "offset": 1}, Status.INVALID_ARGUMENTS)])
async def test_lines_that_are_not_there_are_refused(hands: Any, args: Any, status: Status) -> None:
    await hands.put("f", b"a\nb\nc\n")
    result, _ = await hands.call("read_file", path="f", **args)
    assert result.status is status


async def test_a_binary_file_says_what_it_is(hands: Any) -> None:
    await hands.put("p.png", b"\x89PNG\r\n\x1a\n" + bytes(1226))
    found = await hands.content("read_file", path="p.png")
    assert found["note"].startswith("binary file, 1234 bytes, image/png. ")
    assert "text" not in found


async def test_what_is_not_utf8_is_shown_and_said(hands: Any) -> None:
    await hands.put("f", "naïve\n".encode("latin-1"))
    found = await hands.content("read_file", path="f")
    assert (found["text"], "U+FFFD" in found["note"]) == ("na\ufffdve\n", True)
    await hands.put("f", "real \ufffd".encode())
    assert "note" not in await hands.content("read_file", path="f")


async def test_a_file_larger_than_any_page_is_read_anywhere(hands: Any) -> None:
    await hands.shell("truncate -s 60M f; echo end >> f")
    found = await hands.content("read_file", path="f", offset=60 << 20)
    assert (found["text"], found["size_bytes"]) == ("end\n", (60 << 20) + 4)
    assert (await hands.content("read_file", path="f", offset=1 << 40))["text"] == ""


async def test_a_file_that_the_system_makes_has_no_size_and_is_inexact(hands: Any) -> None:
    result, event = await hands.call("read_file", path="/proc/self/status")
    assert (result.content["size_bytes"], "Name:" in result.content["text"], bool(event.inexact)) == (None, True, True)


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
        ("d/" * 3000, Status.INVALID_ARGUMENTS),
        ("/etc/shadow", Status.PERMISSION_DENIED),
        ("fifo", Status.INVALID_ARGUMENTS),
        ("/dev/zero", Status.INVALID_ARGUMENTS),
        ("loop", Status.INVALID_ARGUMENTS),
        ("dangling", Status.NOT_FOUND),
        ("file/below", Status.INVALID_ARGUMENTS),
        ("secret", Status.PERMISSION_DENIED),
    ],
)
async def test_each_bad_path_has_its_own_answer(hands: Any, path: str, status: Status) -> None:
    await hands.shell("mkfifo fifo; ln -s loop loop; ln -s gone dangling; touch file; ln -s /etc/shadow secret")
    for tool in ("read_file", "edit_file"):
        more = {"old": "a", "new": "b"} if tool == "edit_file" else {}
        result, _ = await hands.call(tool, path=path, **more)
        assert (result.status, result.message != "") == (status, True)


async def test_the_log_says_which_bytes_were_shown(hands: Any) -> None:
    await hands.put("f", b"one\ntwo\nthree\n")
    _, event = await hands.call("read_file", path="./f", line=2, lines=1)
    assert event.effects == ({"kind": "shown", "path": "/workspace/f", "start": 4, "end": 8},)
