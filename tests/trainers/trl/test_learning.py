"""The learning example from its first line to its last, with numbers too small to learn anything."""

import json
import os
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).parents[3]
SMALL = ("--steps", "2", "--every", "1", "--warm", "2", "--lessons", "16", "--groups", "1", "--tasks", "2")


def test_the_example_runs_through_and_says_what_it_found(tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-W", "ignore", str(TOP / "examples" / "learn_grpo.py"), "--out", str(out), *SMALL]
    variables = {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((out / "learning.json").read_text())
    assert [line["step"] for line in found["curve"]] == [1, 2]
    assert list(found["choosing"]) == ["step_0000", "step_0001", "step_0002"]
    assert found["kept"] in found["choosing"]
    assert found["last_word"]["expert"]["mean"] == 1
    assert found["last_word"]["random"]["mean"] == 0
    assert {"step_0000", found["kept"]} <= set(found["last_word"])
