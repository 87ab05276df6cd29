"""The wheel, built through the sdist and unpacked alone: one top-level name, and everything that it needs."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from wardian.sandbox.images import agent_image

TOP = Path(__file__).parent.parent
FOLDERS = ("sandbox", "tools", "envs", "rollouts", "trainers", "images")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(TOP)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def clean_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python whose environment holds this wheel and nothing else."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    install = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--no-deps", "--no-index", str(wheel)]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "bin" / "python"


def dependencies() -> str:
    """For PYTHONPATH: what the tests' environment has installed. The link to this checkout there counts only in its own environment."""
    return next(path for path in sys.path if path.endswith("site-packages"))


def test_one_top_level_name_is_added(wheel: Path) -> None:
    names = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in names if not name.endswith(".dist-info")} == {"wardian"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_file_of_a_linked_folder_is_inside(wheel: Path, folder: str) -> None:
    files = [path.relative_to(TOP) for path in (TOP / folder).rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert {f"wardian/{file}" for file in files} <= set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_alone_imports_and_names_the_same_images(clean_python: Path) -> None:
    script = (
        "import wardian.cli, wardian.sandbox.cell, wardian.trainers; wardian.cli.build_app();"
        "from wardian.sandbox.images import agent_image; print(wardian.__file__, agent_image())"
    )
    environment = {"PYTHONPATH": dependencies()}
    done = subprocess.run([clean_python, "-c", script], env=environment, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    file, image = done.stdout.split()
    assert str(clean_python.parent.parent) in file
    assert image == agent_image()
