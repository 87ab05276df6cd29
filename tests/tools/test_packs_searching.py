"""The tools `list_files`, `find_files` and `search_files` in a real cell."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from wardian.sandbox.cell import Captured, CellSpec, Command, ExecOutcome, ExecResult
from wardian.sandbox.fake import FakeCell, FakeScript, exited
from wardian.sandbox.world import World
from wardian.tools.contract import CallEvent, Status, ToolCall, ToolResult
from wardian.tools.packs.files import file_tools
from wardian.tools.packs.listing import LISTED, _matching
from wardian.tools.toolbox import Toolbox

pytestmark = pytest.mark.anyio


async def faked(commands: Callable[[Command], ExecResult]) -> tuple[ToolResult, CallEvent]:
    """A search where programs answer so."""
    cell = FakeCell(CellSpec(image="none"), script=FakeScript(commands=commands))
    await cell.start()
    await cell.restore()
    world = World(start=datetime(2026, 1, 1, tzinfo=UTC), seed=1, cell=cell)
    return await Toolbox(file_tools()).call(world, ToolCall("search_files", {"pattern": "a"}), agent_id="agent", step=1)


async def test_listing_is_by_name_with_kinds_and_sizes(hands: Any) -> None:
    await hands.shell("mkdir d; printf abc > b; ln -s b a; mkfifo e")
    found = await hands.content("list_files")
    assert (found["total"], "next_offset" in found) == (4, False)
    assert found["entries"] == [
        {"name": "a", "kind": "link", "target": "b"},
        {"name": "b", "kind": "file", "size_bytes": 3},
        {"name": "d", "kind": "directory"},
        {"name": "e", "kind": "other"},
    ]


@pytest.mark.parametrize(("tool", "key"), [("list_files", "entries"), ("find_files", "files")])
async def test_a_large_directory_comes_in_pages(hands: Any, tool: str, key: str) -> None:
    await hands.shell("mkdir d; cd d; seq -f 'f%05g' 1 1234 | xargs touch")
    args: dict[str, Any] = {"path": "d", "limit": LISTED} | ({"pattern": "*"} if tool == "find_files" else {})
    names: list[Any] = []
    page: dict[str, Any] = {"next_offset": 0}
    while "next_offset" in page:
        page = await hands.content(tool, **args, offset=page["next_offset"])
        names += [entry if isinstance(entry, str) else entry["name"] for entry in page[key]]
        assert page["total"] == 1234
    assert names == [f"f{number:05}" for number in range(1, 1235)]


@pytest.mark.parametrize("tool", ["list_files", "find_files", "search_files"])
async def test_names_that_are_not_utf8_are_shown_and_said(hands: Any, tool: str) -> None:
    await hands.shell("printf 'hit\\n' > $'n\\xff'")
    args = {"find_files": {"pattern": "*"}, "search_files": {"pattern": "hit"}}.get(tool, {})
    found = await hands.content(tool, **args)
    assert "n\\xff" in str(found).replace("\\\\", "\\")
    assert "not UTF-8" in found["note"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", ["a.py", "src/b.py", "src/x/c.py"]),
        ("src/*.py", ["src/b.py"]),
        ("src/**/*.py", ["src/b.py", "src/x/c.py"]),
        ("**/*.py", ["a.py", "src/b.py", "src/x/c.py"]),
        ("**", ["a.py", "link", "src/b.py", "src/x/c.py", "src/x/d[1].txt"]),
        ("./a.py", ["a.py"]),
        ("/workspace/src/**", ["src/b.py", "src/x/c.py", "src/x/d[1].txt"]),
        ("d[[]1[]].txt", ["src/x/d[1].txt"]),
        ("?.py", ["a.py", "src/b.py", "src/x/c.py"]),
        ("src", []),
    ],
)
async def test_patterns_fit_names_or_paths(hands: Any, pattern: str, found: list[str]) -> None:
    await hands.shell("mkdir -p src/x; touch a.py src/b.py src/x/c.py 'src/x/d[1].txt'; ln -s src/b.py link; ln -s src dirlink; rm dirlink")
    assert (await hands.content("find_files", pattern=pattern))["files"] == found


def test_no_pattern_makes_matching_slow() -> None:
    """With backtracking this takes longer than anybody waits."""
    assert _matching(["/w/" + "a" * 250] * 50, "/w", "*a" * 40 + "b") == []
    assert _matching(["/w/" + "a/" * 200] * 50, "/w", "**/a/" * 40 + "b") == []


async def test_matches_come_by_path_and_line(hands: Any) -> None:
    await hands.shell("mkdir d; printf 'one\\ntwo é\\r\\n' > d/b; printf 'two\\n\\ntwo' > a; printf 'a:1:two\\n' > 'x:2:y'")
    found = await hands.content("search_files", pattern=r"^(t\w+|a:\d:two)")
    assert [(match["path"], match["line"], match["text"]) for match in found["matches"]] == [
        ("/workspace/a", 1, "two"),
        ("/workspace/a", 3, "two"),
        ("/workspace/d/b", 2, "two é"),
        ("/workspace/x:2:y", 1, "a:1:two"),
    ]
    assert (found["files_searched"], "next_offset" in found) == (3, False)


@pytest.mark.parametrize(
    ("args", "lines"),
    [
        ({"pattern": "a.c"}, [1, 2]),
        ({"pattern": "a.c", "fixed": True}, [2]),
        ({"pattern": "A.C", "ignore_case": True}, [1, 2]),
        ({"pattern": "É", "ignore_case": True}, [3]),
        ({"pattern": "-v"}, [4]),
        ({"pattern": r"\d{3}(?=x)"}, [5]),
        ({"pattern": "a.c", "path": "f"}, [1, 2]),
        ({"pattern": "a.c", "glob": "*.txt"}, []),
        ({"pattern": "nothing"}, []),
    ],
)
async def test_patterns_are_perls_or_plain_text(hands: Any, args: Any, lines: list[int]) -> None:
    await hands.put("f", "abc\na.c\né\n--v\n123x\n".encode())
    assert [match["line"] for match in (await hands.content("search_files", **args))["matches"]] == lines


async def test_matches_come_in_pages(hands: Any) -> None:
    await hands.shell("seq 1 300 > a; seq 1 300 > b")
    lines: list[Any] = []
    page: dict[str, Any] = {"next_offset": 0}
    while "next_offset" in page:
        page = await hands.content("search_files", pattern="7", limit=40, offset=page["next_offset"])
        lines += [(match["path"][-1], match["line"]) for match in page["matches"]]
    assert lines == [(name, number) for name in "ab" for number in range(1, 301) if "7" in str(number)]


async def test_what_was_left_out_is_counted(hands: Any) -> None:
    await hands.shell(
        "printf 'hit\\0' > bin; cp bin bin2; printf 'hi\\0' > bin3; echo hit > no; chmod 0 no; echo hit > ok; mkdir shut; chmod 0 shut"
    )
    found = await hands.content("search_files", pattern="hit")
    assert (len(found["matches"]), found["binary_with_matches"], found["unreadable"]) == (1, 2, 2)


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "[", "*", "(?P<", "a\nb", "a\0b"])
async def test_a_pattern_that_is_none_is_refused(hands: Any, pattern: str) -> None:
    result, _ = await hands.call("search_files", pattern=pattern)
    assert (result.status, result.message.startswith("pattern: ")) == (Status.INVALID_ARGUMENTS, True)


async def test_a_costly_pattern_is_refused_whole(hands: Any) -> None:
    """The program gives up at the first line that is too costly; what comes after it must not count as searched."""
    await hands.shell("python3 -c \"print('x' * 5_000_000)\" > long; echo xxy > short; echo 'PCRE exhausted' > 'PCRE exhausted'")
    result, _ = await hands.call("search_files", pattern="(x+x+)+y")
    assert (result.status, "too costly" in result.message) == (Status.CONFLICT, True)
    found = await hands.content("search_files", pattern="xxy|PCRE")
    assert [match["path"] for match in found["matches"]] == ["/workspace/PCRE exhausted", "/workspace/short"]


async def test_a_long_line_is_cut_and_says_so(hands: Any) -> None:
    await hands.shell("python3 -c \"print('é' * 3_000_000)\" > a; echo é > b")
    found = await hands.content("search_files", pattern="é")
    assert (len(found["matches"][0]["text"]), found["matches"][0]["cut"], "more than can be looked at" in found["note"]) == (
        400,
        True,
        True,
    )


async def test_links_and_special_files_are_not_followed(hands: Any) -> None:
    await hands.shell("mkfifo fifo; ln -s /etc/passwd lnk; ln -s / root; ln -s loop loop; mkdir d; echo root > d/f; ln -s d dir")
    found = await hands.content("search_files", pattern="root")
    assert [match["path"] for match in found["matches"]] == ["/workspace/d/f"]
    assert [match["path"] for match in (await hands.content("search_files", pattern="root", path="dir"))["matches"]] == ["/workspace/dir/f"]
    assert (await hands.call("search_files", pattern="a", path="/dev/zero"))[0].content["files_searched"] == 0


@pytest.mark.parametrize("tool", ["find_files", "search_files"])
async def test_too_many_files_are_refused_and_none_is_silently_left_out(hands: Any, tool: str) -> None:
    await hands.shell("mkdir d; cd d; seq -f '%0250g' 1 34000 | xargs touch", timeout_s=60)
    result, _ = await hands.call(tool, pattern="a")
    assert (result.status, "Choose a smaller directory" in result.message) == (Status.CONFLICT, True)


async def test_what_the_system_makes_is_inexact_and_not_entered_from_above(hands: Any) -> None:
    assert (await hands.call("search_files", pattern="Name:", path="/proc/self"))[1].inexact
    result, event = await hands.call("find_files", pattern="status", path="/")
    assert (event.inexact, "/proc/" in str(result.content)) == ("", False)


@pytest.mark.parametrize(("program", "code"), [("find", 1), ("grep", 2), ("xargs", 1)])
async def test_a_program_that_knows_less_is_named(program: str, code: int) -> None:
    def less(command: Command) -> ExecResult:
        if command.argv[0] == program:
            said = f"{program}: unrecognized option".encode()
            return ExecResult(ExecOutcome.EXITED, code, None, Captured(), Captured(said, total_bytes=len(said)), 1.0)
        return exited(0, b"/workspace/f\0" if command.argv[0] == "find" else b"")

    result, _ = await faked(less)
    assert (result.status, f"no {program} that" in result.message) == (Status.UNAVAILABLE, True)


async def test_a_path_that_is_not_there_is_not_found(hands: Any) -> None:
    for tool in ("find_files", "search_files"):
        assert (await hands.call(tool, pattern="a", path="nowhere"))[0].status is Status.NOT_FOUND


@pytest.mark.parametrize(
    ("outcome", "said", "status", "inexact"),
    [
        (ExecOutcome.COULD_NOT_START, b"", Status.UNAVAILABLE, False),
        (ExecOutcome.EXITED, b"grep: unrecognized option: P", Status.UNAVAILABLE, False),
        (ExecOutcome.TIMED_OUT, b"", Status.TIMEOUT, True),
        (ExecOutcome.OUT_OF_MEMORY, b"", Status.CONFLICT, True),
    ],
)
async def test_a_program_that_does_not_do_it_has_an_answer(outcome: ExecOutcome, said: bytes, status: Status, inexact: bool) -> None:
    streams = (Captured(), Captured(said, total_bytes=len(said)))
    result, event = await faked(lambda command: ExecResult(outcome, 2, None, *streams, elapsed_ms=1.0))
    assert (result.status, bool(event.inexact), len(result.message) > 30) == (status, inexact, True)


async def test_the_log_says_which_bytes_of_which_file_were_shown(hands: Any) -> None:
    await hands.put("f", "é\nhit é\n".encode())
    _, event = await hands.call("search_files", pattern="hit")
    assert event.effects == ({"kind": "shown", "path": "/workspace/f", "start": 3, "end": 9},)
