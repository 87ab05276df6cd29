"""The README is run, not believed."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_python_example_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "drill" in done.stdout


def test_every_command_named_exists() -> None:
    named = set(re.findall(r"wardian (run|[a-z]+) ?(?:[a-z]+/|<|$|#|billing| )", README))
    known = subprocess.run([sys.executable, "-m", "wardian.cli", "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
    assert named
    assert not [name for name in named if name not in known]


def test_every_make_target_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"make ([a-z][a-z-]+)", README)) <= targets


def test_every_page_linked_exists() -> None:
    assert not [page for page in re.findall(r"\]\((docs/[^)]+)\)", README) if not (ROOT / page).exists()]
