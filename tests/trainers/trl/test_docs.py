"""The page on TRL: its files are written and its commands are run, with a model of our own in place of one from a hub."""

import os
import subprocess
import sys
from pathlib import Path

from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

import wardian
from tests.trainers.pages import BLOCK, TOP
from tests.trainers.serving import served
from tests.trainers.trl import tiny

BLOCKS = BLOCK.findall((TOP / "docs" / "trainers" / "trl.md").read_text())
FILES = {body.split("\n")[0].removeprefix("# "): body for kind, body in BLOCKS if kind == "python"}
COMMANDS = [line for kind, body in BLOCKS if kind == "bash" for line in body.strip().split("\n")]
ADDRESS, MODEL = "http://127.0.0.1:8931", "Qwen/Qwen3-0.6B"
BEFORE = ["pip install 'wardian[trl,serve]'"]
"""What this environment has already."""
LATER = [line for line in COMMANDS if "learn_grpo" in line]
"""Takes minutes; `test_learning.py` runs it with small numbers."""


def run(folder: Path, *command: str) -> None:
    variables = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_files_run_as_they_stand(words: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    assert COMMANDS[: len(BEFORE)] == BEFORE
    serve, train = (line for line in COMMANDS[len(BEFORE) :] if line not in LATER)
    assert train == f"python train.py {MODEL}"
    Qwen3ForCausalLM(tiny.config(len(words), words.eos_token_id)).save_pretrained(tmp_path / "model")
    words.save_pretrained(tmp_path / "model")
    for name, body in FILES.items():
        (tmp_path / name).write_text(body)
    with served(*serve.replace(" --port 8931", "").split()[2:], "--out", str(tmp_path / "trajectories")) as url:
        text = FILES["train.py"].replace(ADDRESS, url).replace("max_steps=100", "max_steps=1, use_cpu=True, bf16=False, report_to='none'")
        (tmp_path / "train.py").write_text(text.replace("max_completion_length=2048", "max_completion_length=64"))
        run(tmp_path, sys.executable, *train.replace(MODEL, "model").split()[1:])
        with wardian.connect(url) as client:
            counted = client.counters()
        assert counted["sessions_opened"] == counted["sessions_closed"] == 8
    run(tmp_path, sys.executable, "fresh.py")
