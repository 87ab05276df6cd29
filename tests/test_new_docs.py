"""Pages for newcomers are walked as a newcomer would: every file is written and every command run, in the order of the page.

A block of Python begins with a comment that names its file. What a block of text shows must stand in the output of the commands before it.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"# ([\w/]+\.py)\n")


def walk(page: str, project: Path) -> str:
    """Do all that the page says, in the empty folder `project`; gives what the commands said."""
    said = ""
    for kind, text in BLOCK.findall((DOCS / page).read_text()):
        match kind:
            case "python":
                write(project, text)
            case "sh":
                said += run(project, text)
            case "text":
                assert text.strip() in said
            case _:
                pytest.fail(f"{page}: a block of kind {kind!r} cannot be executed:\n{text}")
    return said


def write(project: Path, text: str) -> None:
    named = NAMED.match(text)
    assert named, f"a block of Python begins with the name of its file, as a comment:\n{text}"
    path = project / named[1]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def run(project: Path, script: str) -> str:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTEST_ADDOPTS": "-p no:cacheprovider"}
    command = ["bash", "-e", "-o", "pipefail", "-c", script]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def rates(said: str) -> dict[str, int]:
    """Success in percent by policy, of the last run that played it."""
    return {name: int(rate) for name, rate in re.findall(r"│ policy (\S+) +│ \d+ +│ \d+ +│ (\d+)%", said)}


def test_the_walk_to_a_world_of_your_own(tmp_path: Path) -> None:
    said = walk("your-own-world.md", tmp_path)
    found = rates(said)
    assert "masked:" not in said, said
    assert (found["expert"], found["idle"]) == (100, 0)
    assert 0 < found["hasty"] < 100


def test_the_page_on_policies(tmp_path: Path) -> None:
    said = walk("policies.md", tmp_path)
    assert rates(said) == {"looker": 0, "model": 0}
    assert "invalid_call -0.05" in said
