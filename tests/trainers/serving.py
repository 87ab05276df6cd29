"""A server for tests: `wardian serve` in a process of its own, as a user starts it. Standard library alone, for any environment."""

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FAULTY = "worlds:faulty"
"""Needs no cell; see `worlds.py`."""
READY_S = 60
WARDIAN = os.environ.get("WARDIAN_BIN", str(Path(sys.executable).parent / "wardian"))


class Address(str):
    """The server's URL, and its process."""

    pid: int


@contextmanager
def served(*words: str, expect: int = 0) -> Iterator[Address]:
    """Start `wardian serve *words` on a free port; gives its address. It is asked to end after the block, and must end with `expect`."""
    python_path = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
    process = subprocess.Popen(
        [WARDIAN, "serve", *words, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": python_path},
    )
    said: list[str] = []
    assert process.stdout is not None
    assert process.stderr is not None
    reader = threading.Thread(target=said.extend, args=(process.stderr,), daemon=True)
    reader.start()
    timer = threading.Timer(READY_S, process.kill)
    timer.start()
    try:
        line = process.stdout.readline()
        timer.cancel()
        assert line.startswith("serving "), f"no server: {line}{''.join(said)}"
        url = Address(line.split()[1])
        url.pid = process.pid
        yield url
    finally:
        timer.cancel()
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        code = process.wait(60)
        process.stdout.close()
        reader.join(10)
        process.stderr.close()
    assert code == expect, f"the server ended with {code}: {''.join(said[-20:])}"


def asked(url: str, body: Any = None, token: str = "", method: str | None = None) -> tuple[int, Any]:
    """Status and JSON of an HTTP request."""
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=30) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())
