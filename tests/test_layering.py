"""The one-way dependencies, and the ban on second identities of a class."""

import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent
BIN = Path(sys.executable).parent


def test_dependencies_run_one_way() -> None:
    done = subprocess.run([BIN / "lint-imports", "--no-cache"], cwd=TOP, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("package", ["sandbox", "tools", "envs", "rollouts", "trainers"])
def test_a_bare_import_is_flagged(package: str) -> None:
    command = [str(BIN / "ruff"), "check", "--select", "TID251", "--no-cache", "--stdin-filename", "tests/example.py", "-"]
    done = subprocess.run(command, cwd=TOP, input=f"import {package}\n", capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"import wardian.{package}" in done.stdout


def test_importing_wardian_changes_nothing() -> None:
    script = """
import os, threading
before = dict(os.environ)
import wardian.cli
print(before == dict(os.environ), threading.active_count())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "True 1\n"
