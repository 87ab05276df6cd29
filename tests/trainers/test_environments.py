"""Adapters against the real packages, each in an environment of its own, made by `scripts/trainer-env.sh`."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent.parent
ENVIRONMENTS = TOP / ".build" / "trainers"
LIGHT = ("openenv", "mcp", "inspect")
"""Small and soon made: part of `make test`."""
ALL = (*LIGHT, "mcp1", "verifiers", "trl")
EVERYTHING = os.environ.get("WARDIAN_TRAINERS") == "all"
"""`make test-trainers` sets it."""
CHOSEN = ALL if EVERYTHING else LIGHT
TYPED = ("inspect",)
"""Adapters whose package has types."""
LATEST = ("trl==1.16.0", "verifiers==0.4.0", "openenv==0.10.0", "inspect-ai==0.3.285", "mcp==2.3.0", "mcp==1.30.0")


def run(command: Sequence[str | Path], **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, cwd=TOP, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    sys.stdout.write(done.stdout + done.stderr)
    return done


def python_of(name: str) -> Path:
    python = ENVIRONMENTS / name / "bin" / "python"
    assert python.exists(), f"no environment for {name}: run scripts/trainer-env.sh {name}"
    return python


@pytest.mark.parametrize("name", CHOSEN)
def test_wardian_breaks_no_requirement_of_what_it_stands_beside(name: str) -> None:
    assert run([python_of(name), "-m", "pip", "check", "--disable-pip-version-check"]).returncode == 0


@pytest.mark.parametrize("name", CHOSEN)
def test_the_adapters_own_tests_pass_in_its_environment(name: str) -> None:
    assert list((TOP / "tests" / "trainers" / name).glob("test_*.py")), f"no tests of the adapter {name}"
    wardian = Path(sys.executable).parent / "wardian"
    command: list[str | Path] = [python_of(name), "-m", "pytest", "-p", "no:cacheprovider", f"tests/trainers/{name}"]
    assert run(command, WARDIAN_BIN=str(wardian)).returncode == 0


@pytest.mark.skipif(not EVERYTHING, reason="takes a while: part of make test-trainers")
@pytest.mark.parametrize("name", TYPED)
def test_the_adapter_keeps_to_the_types_of_the_real_package(name: str, tmp_path: Path) -> None:
    """`make check` knows nothing of the package, which is not installed there."""
    mypy = [sys.executable, "-m", "mypy", "--python-executable", str(python_of(name)), "--cache-dir", str(tmp_path)]
    assert run([*mypy, f"src/wardian/trainers/{name}"]).returncode == 0


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    assert run([sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder), str(TOP)]).returncode == 0
    return next(folder.glob("*.whl"))


@pytest.mark.skipif(not EVERYTHING, reason="asks the package index: part of make test-trainers")
@pytest.mark.parametrize("trainer", LATEST)
def test_the_wheel_can_be_installed_beside_it(wheel: Path, trainer: str) -> None:
    """Nothing is installed: pip says whether it could."""
    install = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-input", "-q", str(wheel), trainer]
    assert run(install).returncode == 0
