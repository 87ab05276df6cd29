"""What `make engine` does where there is nothing for it to start."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent
ENGINE = TOP / "scripts" / "engine.sh"
DEAD = {"PATH": os.environ["PATH"], "DOCKER_HOST": "unix:///nowhere/docker.sock"}


def processes(name: str) -> set[int]:
    """Pids of every living process called `name`."""
    found = set()
    for entry in Path("/proc").iterdir():
        with suppress(OSError):  # it ended meanwhile
            if entry.name.isdigit() and (entry / "comm").read_text().strip() == name:
                found.add(int(entry.name))
    return found


def test_an_engine_that_answers_is_left_as_it_is() -> None:
    before = processes("dockerd")
    done = subprocess.run([ENGINE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "answers" in done.stderr
    assert processes("dockerd") == before


def test_a_dead_docker_host_is_named_and_no_local_engine_is_started_instead() -> None:
    before = processes("dockerd")
    done = subprocess.run([ENGINE], env=DEAD, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no engine answers at DOCKER_HOST=unix:///nowhere/docker.sock" in done.stderr
    assert processes("dockerd") == before


@pytest.fixture
def public_engine() -> Iterator[Path]:
    """A copy of the script in a folder that every user can read, which neither a checkout nor `tmp_path` need be."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        shutil.copytree(ENGINE.parent, Path(folder) / "scripts")
        yield Path(folder) / "scripts" / "engine.sh"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("host", [{}, {"DOCKER_HOST": DEAD["DOCKER_HOST"]}])
def test_an_ordinary_user_is_told_what_to_do(public_engine: Path, host: dict[str, str]) -> None:
    environment = {"PATH": os.environ["PATH"], **host}
    done = subprocess.run([public_engine], user="nobody", env=environment, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert ("correct DOCKER_HOST" if host else "run `make engine` as root") in done.stderr


PYTHON = """#!/bin/sh
echo "$@" >>"$LOG"
case "$1 $2" in "-m venv") mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;; "-m pip") exit "$PIP_ENDS" ;; esac
"""
"""Stands in for Python: it notes what it is asked, and `pip` ends as it is told."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for folder in ("scripts", "constraints"):
        shutil.copytree(TOP / folder, tmp_path / folder)
    shutil.copy(TOP / "pyproject.toml", tmp_path)
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    return tmp_path


def made(checkout: Path, name: str = "mcp", pip_ends: int = 0) -> tuple[int, list[str]]:
    """Exit code of the script that makes trainers' environments, and which modules of Python it ran."""
    log = checkout / "log"
    log.write_text("")
    environment = {**os.environ, "PYTHON": str(checkout / "python"), "LOG": str(log), "PIP_ENDS": str(pip_ends)}
    done = subprocess.run([checkout / "scripts" / "trainer-env.sh", name], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, [line.split()[1] for line in log.read_text().splitlines() if line.startswith("-m ")]


def test_a_trainers_environment_is_made_once_and_anew_when_its_pins_change(checkout: Path) -> None:
    assert made(checkout) == (0, ["venv", "pip"])
    assert made(checkout) == (0, [])
    for changed, again in (
        ("pyproject.toml", ["pip"]),
        ("constraints/trainers/mcp.txt", ["venv", "pip"]),
        ("constraints/trainers/trl.txt", []),
    ):
        (checkout / changed).write_text((checkout / changed).read_text() + "\n")
        assert made(checkout) == (0, again), changed


def test_a_trainers_environment_that_could_not_be_made_counts_as_none(checkout: Path) -> None:
    assert made(checkout, pip_ends=1) == (1, ["venv", "pip"])
    assert made(checkout) == (0, ["venv", "pip"])
    assert made(checkout, "no-such") == (1, [])


def test_make_alone_prints_its_targets() -> None:
    done = subprocess.run(["make"], cwd=TOP, capture_output=True, text=True, check=True)
    listed = [line.split()[1] for line in done.stdout.splitlines()]
    assert listed == ["help", "run", "test", "test-trainers", "check", "build-images", "engine", "bench", "reap", "clean"]
