"""A copy of the toy world is a world of its own."""

import shutil
import subprocess
import sys
from pathlib import Path

from wardian.envs.worlds import toy

WALK = """
import pathlib, sys
from desk import definition
world = definition()
made = [tool.handler.__module__ for tool in world.tools[:6]] + [type(family).__module__ for family in world.families]
made += [world.template.seed_rows.__module__]
assert all(name.startswith("desk") for name in made), made
assert not [name for name in sys.modules if name.startswith("wardian.envs.worlds.toy")]
"""


def test_a_copy_runs_its_own_code(tmp_path: Path) -> None:
    shutil.copytree(Path(toy.__file__).parent, tmp_path / "desk", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run([sys.executable, "-c", WALK], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
