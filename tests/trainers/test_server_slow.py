"""Callers that are slow or silent, and tools that hold everybody up."""

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from wardian.trainers.server.running import bound

from .serving import served

TASK = "echoes/easy/seed-1"
HEAD = b"POST /sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served("worlds:blocking_world", "--request-s", "0.3", "--ttl-s", "1", "--drain-s", "1") as url:
        yield url


def answer_to(url: str, sent: bytes) -> bytes:
    """All that comes until the server closes the connection."""
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as link, closing(link.makefile("rb")) as got:
        link.sendall(sent)
        return got.read()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", b"408"),
        (b"GET /health HTTP/1.1\r\nHo", b"408"),
        (HEAD + b"Content-Length: 9\r\n\r\n{", b"408"),
        (HEAD + b"A: " + b"x" * (80 << 10), b"431"),
    ],
)
def test_a_request_that_never_comes_is_not_waited_for(url: str, sent: bytes, status: bytes) -> None:
    assert answer_to(url, sent).startswith(b"HTTP/1.1 " + status)


def test_a_request_takes_longer_to_answer_than_to_send_and_a_socket_may_be_silent(url: str) -> None:
    name = httpx2.post(f"{url}/sessions", json={}).json()["session_id"]
    httpx2.post(f"{url}/sessions/{name}/reset", json={"task_id": TASK})
    action = {"type": "call_tool", "tool_name": "slow", "arguments": {"seconds": 0.5}}
    with connect(f"ws{url.removeprefix('http')}/ws", proxy=None) as link:
        assert httpx2.post(f"{url}/sessions/{name}/step", json={"action": action}).status_code == 200
        link.send('{"type": "state"}')
        assert json.loads(link.recv(timeout=10))["type"] == "state"
    httpx2.delete(f"{url}/sessions/{name}")


def test_a_socket_whose_lease_has_ended_is_closed(url: str) -> None:
    with connect(f"ws{url.removeprefix('http')}/ws?session_id=ended&create=1", proxy=None) as link:
        link.send('{"type": "state"}')
        assert json.loads(link.recv(timeout=10))["type"] == "state"
        httpx2.delete(f"{url}/sessions/ended")
        link.send('{"type": "heartbeat"}')
        assert json.loads(link.recv(timeout=10))["data"]["code"] == "SESSION_ERROR"
        with pytest.raises(ConnectionClosed):
            link.recv(timeout=10)


def test_a_body_that_is_not_said_to_be_json_names_the_fix(url: str) -> None:
    for headers in ({}, {"Content-Type": "text/plain"}):
        answer = httpx2.post(f"{url}/sessions", content=b"{}", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (415, "VALIDATION_ERROR")
        assert "Content-Type: application/json" in answer.json()["message"]
    broken = httpx2.post(f"{url}/sessions", content=b"{", headers={"Content-Type": "application/json"})
    assert (broken.status_code, broken.json()["code"]) == (400, "INVALID_JSON")
    for way, path, status in (("GET", "/nothing/there/is", 404), ("PUT", "/sessions", 405)):
        answer = httpx2.request(way, url + path)
        assert (answer.status_code, answer.json()["code"]) == (status, "UNKNOWN_TYPE")


def test_small_answers_are_not_held_back() -> None:
    """asyncio sends at once on connections that are TCP's by name; Nagle's rule costs some 40 ms on every answer."""
    with bound("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP


def blocked(url: str, seconds: float) -> socket.socket:
    """A call is under way that holds up the event loop; it began."""
    name = httpx2.post(f"{url}/sessions", json={"ttl_s": 60}).json()["session_id"]
    httpx2.post(f"{url}/sessions/{name}/reset", json={"task_id": TASK})
    action: dict[str, Any] = {"type": "call_tool", "tool_name": "blocking", "arguments": {"seconds": seconds}}
    body = json.dumps({"action": action}).encode()
    host, _, port = url.removeprefix("http://").partition(":")
    link = socket.create_connection((host, int(port)), timeout=30)
    link.sendall(HEAD.replace(b"/sessions", f"/sessions/{name}/step".encode()) + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    return link


def test_leases_do_not_lapse_while_a_tool_holds_up_the_server(url: str) -> None:
    name = httpx2.post(f"{url}/sessions", json={}).json()["session_id"]
    with blocked(url, 1.5) as link:
        assert link.recv(100).startswith(b"HTTP/1.1 200")
    assert httpx2.post(f"{url}/sessions/{name}/heartbeat").status_code == 200


def test_a_tool_that_blocks_its_thread_does_not_hold_up_the_end_for_ever() -> None:
    with served("worlds:blocking_world", "--drain-s", "0.2", "--end-s", "0.3", expect=128 + signal.SIGTERM) as url, blocked(url, 600):
        time.sleep(0.2)
        os.kill(url.pid, signal.SIGTERM)
