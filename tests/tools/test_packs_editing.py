"""The tools `write_file` and `edit_file` in a real cell."""

from typing import Any

import pytest

from wardian.tools.contract import Status

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"one\r\ntwo\r\nthree", "one\ntwo", "1\n2", b"1\r\n2\r\nthree"),
        (b"one\r\ntwo\r\nthree", "two", "2\n2b", b"one\r\n2\r\n2b\r\nthree"),
        (b"one\r\ntwo\r\n", "two\r\n", "2\r\n", b"one\r\n2\r\n"),
        (b"one\ntwo\n", "one\r\ntwo", "1\r\n2", b"1\n2\n"),
        (b"one\ntwo\n", "two", "a\r\nb", b"one\na\r\nb\n"),
        (b"a\r\nb\nc\r\nd\n", "c\nd", "x\ny", b"a\r\nb\nx\r\ny\n"),
        (b"a\r\nb\nc\r\nd\n", "a\nb", "x\ny", b"x\r\ny\nc\r\nd\n"),
        (b"\xef\xbb\xbfone\ntwo", "one\n", "1\n", b"\xef\xbb\xbf1\ntwo"),
        ("\ufeffone".encode(), "\ufeffone", "1", b"1"),
        (b"no end", "end", "finish", b"no finish"),
        ("naïve é\n".encode(), "é", "e", "naïve e\n".encode()),
        (b"na\xefve a\n\xff", "a\n", "b\n", b"na\xefve b\n\xff"),
        (b"one\x00two", "two", "2", b"one\x002"),
        (b"\\1 $x &", "$x", "\\2 $& \\n", b"\\1 \\2 $& \\n &"),
        (b"x\n", "x\n", "", b""),
    ],
)
async def test_an_edit_changes_its_text_and_no_other_byte(hands: Any, before: bytes, old: str, new: str, after: bytes) -> None:
    await hands.put("f", before, 0o755)
    result, _ = await hands.call("edit_file", path="f", old=old, new=new)
    assert (result.status, await hands.bytes_of("f")) == (Status.OK, after)
    assert (await hands.cell.stat("/workspace/f")).mode & 0o777 == 0o755


async def test_an_edit_that_is_not_unique_names_the_lines_and_changes_nothing(hands: Any) -> None:
    data = b"x\n\na x x\n" + b"x\n" * 20
    await hands.put("f", data)
    result, _ = await hands.call("edit_file", path="f", old="x", new="y")
    assert result.status is Status.CONFLICT
    assert "stands there 23 times, not once, in lines 1, 3, 3, 4, 5, 6, 7, 8, 9, 10, ...; nothing" in result.message
    assert await hands.bytes_of("f") == data


async def test_replace_all_replaces_all_and_says_where(hands: Any) -> None:
    await hands.put("f", b"x y\nxx\nz")
    found = await hands.content("edit_file", path="f", old="x", new="xx", replace_all=True)
    assert (found["replaced"], found["lines"], await hands.bytes_of("f")) == (3, [1, 2, 2], b"xx y\nxxxx\nz")
    result, _ = await hands.call("edit_file", path="f", old="none", new="", replace_all=True)
    assert result.status is Status.CONFLICT


@pytest.mark.parametrize(
    ("data", "old", "hint"),
    [
        ("a\n  if x:\n\treturn\n", "if x:\n  return", "differs only in blanks stands in line 2"),
        ("if x:  \nend", "if x:\nend", "differs only in blanks stands in line 1"),
        ("one\ncafe\u0301\n", "café", "accents are composed stands in line 2"),
        ("one\n", "two", "0 times, not once; nothing was changed. Read"),
    ],
)
async def test_a_text_that_is_not_there_says_what_comes_near(hands: Any, data: str, old: str, hint: str) -> None:
    await hands.put("f", data.encode())
    result, _ = await hands.call("edit_file", path="f", old=old, new="")
    assert (result.status, hint in result.message) == (Status.CONFLICT, True)


async def test_a_file_too_large_to_edit_is_refused_by_its_size(hands: Any) -> None:
    await hands.shell("truncate -s 60M f")
    result, _ = await hands.call("edit_file", path="f", old="a", new="b")
    assert (result.status, "62914560 bytes" in result.message) == (Status.INVALID_ARGUMENTS, True)


async def test_edits_of_one_file_in_a_row_see_each_other(hands: Any) -> None:
    await hands.put("f", b"1")
    for number in range(1, 6):
        assert (await hands.call("edit_file", path="f", old=str(number), new=str(number + 1)))[0].status is Status.OK
    assert await hands.bytes_of("f") == b"6"


async def test_a_link_stays_a_link_and_its_file_keeps_its_mode(hands: Any) -> None:
    await hands.shell("mkdir d; printf old > d/real; chmod 750 d/real; ln -s d/real a; ln -s a b")
    await hands.call("edit_file", path="b", old="old", new="new")
    assert (await hands.shell("readlink a b; cat d/real; stat -c %a d/real"))["stdout"] == "d/real\na\nnew750\n"
    await hands.call("write_file", path="b", content="all")
    assert (await hands.shell("readlink a b; cat d/real; stat -c %a d/real"))["stdout"] == "d/real\na\nall750\n"


@pytest.mark.parametrize("path", ["fifo", "/dev/null", "socket", "loop"])
async def test_what_is_no_file_is_never_written_over(hands: Any, path: str) -> None:
    script = (
        "mkfifo fifo; ln -s loop loop; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'; stat -c %F * /dev/null"
    )
    before = await hands.shell(script)
    for tool, more in (("write_file", {"content": "x"}), ("edit_file", {"old": "a", "new": "b"})):
        assert (await hands.call(tool, path=path, **more))[0].status is Status.INVALID_ARGUMENTS
    assert (await hands.shell("stat -c %F * /dev/null"))["stdout"] == before["stdout"]


async def test_writing_keeps_the_mode_and_says_what_it_made(hands: Any) -> None:
    await hands.put("run.sh", b"old", 0o755)
    assert (await hands.content("write_file", path="run.sh", content="new"))["created"] is False
    assert (await hands.cell.stat("/workspace/run.sh")).mode & 0o777 == 0o755
    assert (await hands.content("write_file", path="x/y/z", content=""))["created"] is True
    for path, status in (("x/", Status.INVALID_ARGUMENTS), ("x", Status.INVALID_ARGUMENTS), ("/etc/passwd", Status.PERMISSION_DENIED)):
        assert (await hands.call("write_file", path=path, content=""))[0].status is status


@pytest.mark.parametrize("size", [1, 96 << 10, 128 << 10, (1 << 20) + 1, 10 << 20])
async def test_a_file_of_any_size_is_written_whole(hands: Any, size: int) -> None:
    assert (await hands.content("write_file", path="f", content="é" + "x" * (size - 2) if size > 1 else "x"))["size_bytes"] == size
    assert (await hands.shell("wc -c < f; tail -c 1 f"))["stdout"] == f"{size}\nx"


async def test_a_full_disk_is_named_and_leaves_the_old_file(hands: Any) -> None:
    await hands.put("f", b"old")
    await hands.shell("head -c 60M /dev/zero > fill")
    result, _ = await hands.call("write_file", path="f", content="x" * (8 << 20))
    assert (result.status, result.content, await hands.bytes_of("f")) == (Status.CONFLICT, {"problem": "disk_full"}, b"old")
