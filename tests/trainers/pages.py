"""Walks a page of `docs/trainers/` as a reader would: files are written, servers started and commands run, in the order of the page."""

import os
import re
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from .serving import served

TOP = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ADDRESS = "http://127.0.0.1:8900"
"""Of the server on every page; in its place stands the one that the walk started."""


def walk(page: str, project: Path, programs: Mapping[str, Path]) -> dict[str, str]:
    """Do all that `page` says in the empty folder `project`; what each command printed. `pip` is left out: what it installs is there."""
    commands = project / ".bin"
    commands.mkdir()
    for name, program in programs.items():
        # No link: Python looks beside itself for the environment that it is of.
        (commands / name).write_text(f'#!/bin/sh\nexec "{program}" "$@"\n')
        (commands / name).chmod(0o755)
    (project / "examples").symlink_to(TOP / "examples")
    said: dict[str, str] = {}
    address = ADDRESS
    with ExitStack() as stack:
        for kind, text in BLOCK.findall((TOP / "docs" / "trainers" / page).read_text()):
            if kind == "python":
                name = text.split("\n")[0].removeprefix("# ")
                (project / name).write_text(text.replace(ADDRESS, address))
            for line in text.splitlines() if kind == "bash" else ():
                if line.startswith("wardian serve "):
                    address = stack.enter_context(served(*line.replace(" --port 8900", "").split()[2:], "--drain-s", "1"))
                elif not line.startswith("pip install "):
                    said[line] = run(line.replace(ADDRESS, address), project, commands)
    return said


def run(line: str, project: Path, commands: Path) -> str:
    """What it printed. It must succeed."""
    environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", line], cwd=project, env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout
