"""The page on the server says what is: its program runs, its options and routes are there."""

import re
import subprocess
import sys
from pathlib import Path

import httpx2
from typer.main import get_command

from wardian.cli import build_app

from .serving import served

PAGE = (Path(__file__).parent.parent.parent / "docs" / "serving.md").read_text()


def test_the_program_runs_and_every_route_is_there() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    with served("toy", "--cells", "1") as url:
        done = subprocess.run(
            [sys.executable, "-c", program.replace("http://127.0.0.1:8900", url)], capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("# Task")
        paths = " ".join(httpx2.get(f"{url}/openapi.json").json()["paths"])
    table = PAGE.partition("## Routes")[2].partition("Actions of")[0]
    named = {word for word in re.findall(r"/([a-z_.]+)", table) if word not in ("ws", "episodes", "openapi.json")}
    assert {word for word in named if word not in paths} == set()


def test_every_option_that_is_named_is_there() -> None:
    command = get_command(build_app()).commands["serve"]  # type: ignore[attr-defined]
    there = {name for option in command.params for name in option.opts}
    assert set(re.findall(r"`(--[a-z-]+)", PAGE)) - {"--help"} <= there
