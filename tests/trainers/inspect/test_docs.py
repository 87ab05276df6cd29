"""The page on Inspect: its files are written and its commands are run, with a model behind an endpoint on this machine."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.log import list_eval_logs, read_eval_log

PAGE = Path(__file__).parents[3] / "docs" / "trainers" / "inspect.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
FILES = {body.split("\n")[0].removeprefix("# "): body for kind, body in BLOCKS if kind != "bash"}
COMMANDS = [line for kind, body in BLOCKS if kind == "bash" for line in body.strip().split("\n")]
BEFORE = ["pip install 'wardian[inspect]' openai", "wardian build-images"]
"""What this environment and this machine have already."""


class Endpoint(BaseHTTPRequestHandler):
    """A model that counts lines where it has a shell, submits where it can, and else is done at once."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        tools = {tool["function"]["name"] for tool in body.get("tools", ())}
        results = [message for message in body["messages"] if message["role"] == "tool"]
        message: dict[str, Any] = {"role": "assistant", "content": f"I am done. {results[-1]['content'] if results else ''}"}
        if "bash" in tools and not results:
            message = called("bash", command="wc -l < data.txt")
        elif "submit" in tools:
            message = called("submit", answer="I am done.")
        choice = {"index": 0, "finish_reason": "tool_calls" if "tool_calls" in message else "stop", "message": message}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        answer = {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"], "choices": [choice], "usage": usage}
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def called(name: str, **arguments: Any) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def test_its_commands_run_as_they_stand(endpoint: str, tmp_path: Path) -> None:
    for name, body in FILES.items():
        (tmp_path / name).write_text(body)
    assert COMMANDS[:2] == BEFORE
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "LOCAL_BASE_URL": endpoint, "LOCAL_API_KEY": "none"}
    for command in COMMANDS[2:]:
        done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    logs = [read_eval_log(one) for one in list_eval_logs(str(tmp_path / "logs"))]
    samples = [sample for log in logs for sample in log.samples]
    assert sorted(len(log.samples) for log in logs) == [1, 4, 4]
    assert all(sample.error is None and sample.scores for sample in samples)
    assert [sample.scores["includes"].value for sample in samples if "includes" in sample.scores] == ["C"]
