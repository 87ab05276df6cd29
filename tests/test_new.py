"""`wardian new` makes what works at once, and nothing half."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from wardian.cli import build_app
from wardian.envs import worlds
from wardian.envs.errors import TaskError
from wardian.envs.scaffold import world as scaffold
from wardian.envs.scaffold.names import check_tool_name, check_world_name, renamed
from wardian.envs.scaffold.tool import OtherShape, add_tool
from wardian.envs.scaffold.world import make_world


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(build_app(), ["new", *arguments])


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_new_world_with_a_new_tool_passes_its_own_tests_from_any_folder(tmp_path: Path) -> None:
    """That it runs, the page `your-own-world.md` shows."""
    for arguments in (("world", "desk", "--into", str(tmp_path)), ("tool", "take_note", "--world", str(tmp_path / "desk"))):
        assert invoke(*arguments).exit_code == 0
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path / "desk")]
    tested = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=180, check=False)
    assert "4 passed" in tested.stdout, tested.stdout


def test_a_new_world_is_all_of_the_toy_world_under_another_name(tmp_path: Path) -> None:
    made = contents(make_world("desk", tmp_path))
    toy = Path(worlds.__file__).parent / "toy"
    given = {str(path.relative_to(toy)) for path in toy.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert made.keys() == given | {"README.md", "test_desk.py"}
    assert not [path for path, data in made.items() if re.search(rb"\btoy\b(?! world)", data)]
    assert b'name="desk"' in made["__init__.py"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("help-desk", "help_desk would do"),
        ("1st", "must be a letter"),
        ("bücher", "must be a letter"),
        ("", "must be a letter"),
        ("../desk", "must be a letter"),
        ("a" * 65, "too long"),
        ("class", "keyword"),
        ("toy", "built-in world"),
        ("json", "finds a module 'json' already"),
        ("sys", "finds a module 'sys' already"),
    ],
)
def test_a_name_that_cannot_be_a_world_is_refused(name: str, problem: str) -> None:
    with pytest.raises(TaskError, match=problem):
        check_world_name(name)


@pytest.mark.parametrize(("name", "problem"), [("RenewLoan", "small letter"), ("pass", "keyword"), ("print", "Python itself")])
def test_a_name_that_cannot_be_a_tool_is_refused(name: str, problem: str) -> None:
    with pytest.raises(TaskError, match=problem):
        check_tool_name(name)


@pytest.mark.parametrize("there", ["desk", "desk.py"])
def test_what_is_there_is_never_overwritten(tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("mine")
    with pytest.raises(TaskError, match="nothing is overwritten"):
        make_world("desk", tmp_path)
    assert contents(tmp_path) == {there: b"mine"}


def test_a_world_that_cannot_be_made_whole_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaffold, "README", "\ud800")  # cannot be written, and is the last file
    with pytest.raises(UnicodeEncodeError):
        make_world("desk", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", ["world class", "world desk --into nowhere", "tool take_note --world ."])
def test_problems_are_one_line_and_exit_code_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str) -> None:
    monkeypatch.chdir(tmp_path)
    done = invoke(*arguments.split())
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1), done.output
    assert list(tmp_path.iterdir()) == []


def test_a_tool_is_added_once(tmp_path: Path) -> None:
    world = make_world("desk", tmp_path)
    add_tool("take_note", world)
    before = contents(world)
    for name, said in (("take_note", "test_take_note.py exists already"), ("lend_item", "has a 'lend_item' already")):
        with pytest.raises(TaskError, match=said):
            add_tool(name, world)
    assert contents(world) == before


@pytest.mark.parametrize("tools", ["TOOLS = ()\n", "TOOLS: list[object] = []\n", '"""Tools."""\nX = 1\nTOOLS = (X,)  # all, for now\n'])
def test_missing_imports_come_with_a_tool_and_any_list_of_tools_takes_it(tmp_path: Path, tools: str) -> None:
    world = make_world("desk", tmp_path)
    (world / "tools.py").write_text(tools)
    add_tool("take_note", world)
    tool = runpy.run_path(str(world / "tools.py"))["TOOLS"][-1]
    assert (tool.name, tool.mutates) == ("take_note", True)


@pytest.mark.parametrize("tools", ["from .more import TOOLS\n", "TOOLS = 1,\n"])
def test_tools_kept_in_another_way_are_left_alone(tmp_path: Path, tools: str) -> None:
    world = make_world("desk", tmp_path)
    (world / "tools.py").write_text(tools)
    with pytest.raises(OtherShape):
        add_tool("take_note", world)
    done = invoke("tool", "take_note", "--world", str(world))
    assert done.exit_code == 1
    assert "async def take_note" in done.stdout
    assert (world / "tools.py").read_text() == tools


def test_words_are_renamed_and_parts_of_words_are_not() -> None:
    assert renamed('"toy" toy_world ToyWorld toys Toy', "toy", "my_desk") == '"my_desk" my_desk_world MyDeskWorld toys Toy'
