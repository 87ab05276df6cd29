"""The page on Inspect: its files are written and its commands are run, with a model behind an endpoint on this machine."""

import os
import subprocess
import sys
from pathlib import Path

from inspect_ai.log import list_eval_logs, read_eval_log

from tests.trainers.endpoints import endpoint
from tests.trainers.pages import BLOCK, TOP
from wardian.rollouts.inference.fake import Asked, Completes, calls_of

BLOCKS = BLOCK.findall((TOP / "docs" / "trainers" / "inspect.md").read_text())
FILES = {body.split("\n")[0].removeprefix("# "): body for kind, body in BLOCKS if kind != "bash"}
COMMANDS = [line for kind, body in BLOCKS if kind == "bash" for line in body.strip().split("\n")]
BEFORE = ["pip install 'wardian[inspect]' openai", "wardian build-images"]
"""What this environment and this machine have already."""
USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def acts(asked: Asked) -> Completes:
    """A model that counts lines where it has a shell, submits where it can, and else is done at once."""
    tools = {tool["function"]["name"] for tool in asked.body.get("tools", ())}
    results = [message for message in asked.body["messages"] if message["role"] == "tool"]
    if "bash" in tools and not results:
        return Completes(calls=calls_of(("bash", {"command": "wc -l < data.txt"})), finish="tool_calls", usage=USAGE)
    if "submit" in tools:
        return Completes(calls=calls_of(("submit", {"answer": "I am done."})), finish="tool_calls", usage=USAGE)
    return Completes(f"I am done. {results[-1]['content'] if results else ''}", usage=USAGE)


def test_its_commands_run_as_they_stand(tmp_path: Path) -> None:
    for name, body in FILES.items():
        (tmp_path / name).write_text(body)
    assert COMMANDS[:2] == BEFORE
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with endpoint(acts) as address:
        environment = {**os.environ, "PATH": path, "LOCAL_BASE_URL": address, "LOCAL_API_KEY": "none"}
        for command in COMMANDS[2:]:
            done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    logs = [read_eval_log(one) for one in list_eval_logs(str(tmp_path / "logs"))]
    samples = [sample for log in logs for sample in log.samples]
    assert sorted(len(log.samples) for log in logs) == [1, 4, 4]
    assert all(sample.error is None and sample.scores for sample in samples)
    assert [sample.scores["includes"].value for sample in samples if "includes" in sample.scores] == ["C"]
