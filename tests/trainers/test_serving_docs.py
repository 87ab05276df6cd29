"""The page on the server says what is: its program runs, its options and routes are there."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from typer.main import get_command

import wardian
from wardian.cli import build_app
from wardian.rollouts.trajectory import validate

from .serving import served

PAGE = (Path(__file__).parent.parent.parent / "docs" / "serving.md").read_text()


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("out")


@pytest.fixture(scope="module")
def url(out: Path) -> Iterator[str]:
    with served("toy", "--cells", "1", "--out", str(out)) as url:
        yield url


def test_the_program_runs_and_every_route_is_there(url: str) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    done = subprocess.run(
        [sys.executable, "-c", program.replace("http://127.0.0.1:8900", url)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# Task")
    paths = " ".join(httpx2.get(f"{url}/openapi.json").json()["paths"])
    table = PAGE.partition("## Routes")[2].partition("Actions of")[0]
    named = {word for word in re.findall(r"/([a-z_.]+)", table) if word not in ("ws", "episodes", "openapi.json")}
    assert {word for word in named if word not in paths} == set()


def test_what_goes_on_from_the_very_start_of_an_episode_is_logged_with_its_cell(url: str, out: Path) -> None:
    with wardian.connect(url) as client, client.session() as session:
        session.reset(index=0)
        session.restore(session.snapshot())
        assert session.call("list_items").step == 1
        assert session.say("Done.").done
    time.sleep(0.6)  # what is written comes onto the disk
    assert [finding for _, findings in validate(out) for finding in findings] == []


def test_every_option_that_is_named_is_there() -> None:
    command = get_command(build_app()).commands["serve"]  # type: ignore[attr-defined]
    there = {name for option in command.params for name in option.opts}
    assert set(re.findall(r"`(--[a-z-]+)", PAGE)) - {"--help"} <= there
