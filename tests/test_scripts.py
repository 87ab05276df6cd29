"""What `make engine` does where there is nothing for it to start."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent
ENGINE = TOP / "scripts" / "engine.sh"
DEAD = {"PATH": os.environ["PATH"], "DOCKER_HOST": "unix:///nowhere/docker.sock"}


def processes(name: str) -> set[int]:
    """Pids of every living process called `name`."""
    comms = {entry: entry / "comm" for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    return {int(entry.name) for entry, comm in comms.items() if comm.exists() and comm.read_text().strip() == name}


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


def test_make_alone_prints_its_targets() -> None:
    done = subprocess.run(["make"], cwd=TOP, capture_output=True, text=True, check=True)
    listed = [line.split()[1] for line in done.stdout.splitlines()]
    assert listed == ["help", "run", "test", "test-trainers", "check", "build-images", "engine", "bench", "reap", "clean"]
