"""`wardian export verifiers`: what it writes, and what it refuses. Installing and playing it is tested beside verifiers itself."""

import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.trainers.serving import FAULTY, HERE
from tests.trainers.worlds import faulty
from wardian import __version__
from wardian.cli import build_app
from wardian.envs.errors import TaskError
from wardian.trainers.verifiers.export import Names, export_taskset

URL = "http://127.0.0.1:8900"


@pytest.fixture
def export(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
    """The command, in a folder of its own from which the worlds of tests are found."""
    monkeypatch.syspath_prepend(HERE)
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(build_app(), ["export", "verifiers", *words])


def test_the_package_names_the_world_and_pins_versions(export: Callable[..., Any], tmp_path: Path) -> None:
    done = export(FAULTY, "package", "--url", "http://worlds:1")
    folder = tmp_path / "package"
    assert "pip install ./package uv" in done.stdout  # a bare name would be one of the index
    assert (done.exit_code, sorted(path.name for path in folder.iterdir())) == (
        0,
        ["README.md", "eval.toml", "pyproject.toml", "wardian_faulty.py"],
    )
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert (project["name"], project["dependencies"]) == ("wardian-faulty", [f"wardian[verifiers]=={__version__}", "verifiers==0.4.0"])
    assert tomllib.loads((folder / "eval.toml").read_text())["env"]["taskset"] == {
        "id": "wardian-faulty",
        "url": "http://worlds:1",
        "split": "train",
    }
    source = (folder / "wardian_faulty.py").read_text()
    assert compile(source, "wardian_faulty.py", "exec")
    assert 'WORLD = "faulty"\n    VERSION = "1"\n' in source


@pytest.mark.parametrize("world", ["nowhere", "worlds:nothing"])
def test_an_unknown_world_is_refused(export: Callable[..., Any], tmp_path: Path, world: str) -> None:
    done = export(world, "new")
    assert (done.exit_code, f"world: no {world!r}" in done.stderr or f"world: {world!r} cannot be loaded" in done.stderr) == (2, True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("full", "dir: .*full is there and no empty folder, and nothing is overwritten"),
        ("file", "dir: .*file is there and no empty folder"),
        ("link", "dir: .*link is there and no empty folder"),
        ("none/new", "dir: there is no folder .*none; make it first"),
    ],
)
def test_a_folder_that_is_taken_is_refused_and_stays(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note").touch()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("away")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(TaskError, match=told):
        export_taskset(faulty(), FAULTY, tmp_path / name, URL)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["my world", "2nd", "a/b", "", "wörld", "-x", "x" * 65, 'a"b'])
def test_a_world_whose_name_is_none_of_a_module_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TaskError, match=r"^world: .* is no name that a package can have"):
        export_taskset(replace(faulty(), name=name), FAULTY, tmp_path / "new", URL)
    assert not list(tmp_path.iterdir())


def test_names_of_all_kinds_become_ones_that_python_imports() -> None:
    assert [Names.of(name) for name in ("billing", "my-World_2")] == [
        Names("wardian_billing", "wardian-billing", "Billing"),
        Names("wardian_my_world_2", "wardian-my-world-2", "MyWorld2"),
    ]


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    export_taskset(faulty(), FAULTY, tmp_path / "new", URL)
    assert (tmp_path / "new" / "wardian_faulty.py").is_file()


def test_a_folder_that_cannot_be_written_is_refused_without_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("wardian.trainers.verifiers.export.os.rename", full)
    with pytest.raises(TaskError, match=r"dir: .* cannot be made: No space left on device"):
        export_taskset(faulty(), FAULTY, tmp_path / "new", URL)
    assert not list(tmp_path.iterdir())
