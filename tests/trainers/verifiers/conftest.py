"""verifiers as its users run it: an exported package that is installed, `vf-eval`, a server, and a model that streams."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import wardian
from tests.trainers.serving import HERE, WARDIAN

BIN = Path(sys.prefix) / "bin"
KEY = "MODEL_API_KEY"


def pytest_configure(config: pytest.Config) -> None:
    """What verifiers imports warns of its own."""
    config.addinivalue_line("filterwarnings", "ignore::DeprecationWarning")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder into which packages are installed, and from which this process imports too."""
    folder = tmp_path_factory.mktemp("site")
    sys.path.append(str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture(scope="session")
def exported(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Export a world and install it; gives the package's folder."""
    folders: dict[str, Path] = {}

    def export(world: str) -> Path:
        if world not in folders:
            folder = tmp_path_factory.mktemp("exported") / "package"
            run([WARDIAN, "export", "verifiers", world, str(folder)], PYTHONPATH=str(HERE))
            run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-input", "--target", str(site), str(folder)])
            folders[world] = folder
        return folders[world]

    return export


def run(command: list[str], *, cwd: Path | None = None, **environment: str) -> str:
    """Run a command that must succeed; gives what it printed."""
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="session")
def tool(site: Path) -> Callable[..., str]:
    """Run one of verifiers' commands with the installed packages."""

    def run_tool(name: str, *words: str, cwd: Path) -> str:
        path = os.pathsep.join((str(BIN), os.environ["PATH"]))
        return run([str(BIN / name), *words], cwd=cwd, PATH=path, PYTHONPATH=str(site), **{KEY: "none"})

    return run_tool


def episodes_in(folder: Path) -> list[dict[str, Any]]:
    """What `vf-eval` wrote, an episode for each line."""
    (file,) = folder.rglob("traces.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def counted(url: str, token: str | None = None) -> dict[str, Any]:
    """The server's own counters."""
    with wardian.connect(url, token) as client:
        return client.counters()
