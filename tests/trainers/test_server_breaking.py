"""What once broke the server: calls that end too late, leases that end under their sockets, names and heads that are none."""

import json
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import httpx2
import pytest
from websockets.sync.client import ClientConnection, connect

from wardian.rollouts.trajectory import validate

from .serving import FAULTY, served
from .worlds import STEPS

TASK = "echoes/easy/seed-1"
RESET = {"type": "reset", "data": {"task_id": TASK}}
Reply = dict[str, Any]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("out")


@pytest.fixture(scope="module")
def url(out: Path) -> Iterator[str]:
    with served("worlds:stubborn_world", "--step-s", "0.3", "--drain-s", "1", "--out", str(out)) as url:
        yield url


@contextmanager
def lease(url: str, name: str) -> Iterator[ClientConnection]:
    with connect(f"ws{url.removeprefix('http')}/ws?session_id={name}&create=1", proxy=None, compression=None) as link:
        yield link


def said(link: ClientConnection, frame: Reply) -> Reply:
    link.send(json.dumps(frame))
    found: Reply = json.loads(link.recv(timeout=10))
    return found


def calling(tool: str, **arguments: Any) -> Reply:
    return {"type": "step", "data": {"type": "call_tool", "tool_name": tool, "arguments": arguments}}


@pytest.mark.parametrize("before", [0, STEPS - 1])
def test_a_call_that_ends_after_it_was_given_up_changes_nothing(url: str, out: Path, before: int) -> None:
    """Also where it is the last one of the budget, and would have been judged."""
    with lease(url, f"late-{before}") as link:
        said(link, RESET)
        for _ in range(before):
            said(link, calling("echo", text="x"))
        assert said(link, calling("stubborn", seconds=0.5))["data"]["failure_kind"] == "timeout"
        time.sleep(0.4)
        state = said(link, {"type": "state"})["data"]
        assert (state["step_count"], state["end_cause"], state["succeeded"], state["total_reward"]) == (before, "timeout", None, None)
        assert said(link, RESET)["type"] == "observation"
        link.send('{"type": "close"}')
    time.sleep(0.6)  # what is written comes onto the disk
    assert [finding for _, findings in validate(out) for finding in findings] == []


def test_a_socket_ends_its_own_lease_and_no_later_one_of_that_name(url: str) -> None:
    with lease(url, "again") as first:
        said(first, RESET)
        assert httpx2.delete(f"{url}/sessions/again").json()["closed"]
        with lease(url, "again") as second:
            said(second, RESET)
            first.send('{"type": "close"}')
            first.close()
            assert said(second, calling("echo", text="x"))["type"] == "observation"
            second.send('{"type": "close"}')


def test_a_lease_whose_socket_is_gone_is_taken_up_although_a_call_is_under_way(url: str) -> None:
    with lease(url, "cut") as first:
        said(first, RESET)
        first.send(json.dumps({**calling("slow", seconds=0.2), "id": "lost"}))
        first.socket.shutdown(socket.SHUT_RDWR)
    with lease(url, "cut") as second:
        reply = said(second, {**calling("slow", seconds=0.2), "id": "lost"})
        assert (reply["id"], reply["data"]["metadata"]["step"]) == ("lost", 1)
        second.send('{"type": "close"}')


def test_an_id_is_of_a_call_of_its_kind(url: str) -> None:
    with lease(url, "ids") as link:
        said(link, {**RESET, "id": 0})
        assert said(link, {**calling("echo", text="x"), "id": 0})["data"]["metadata"]["step"] == 1
        link.send('{"type": "close"}')


def test_a_group_begins_from_a_snapshot(url: str) -> None:
    with lease(url, "kept") as link:
        said(link, {"type": "reset", "data": {"task_id": TASK, "seed": 5}})
        said(link, calling("echo", text="x"))
        key = said(link, {"type": "snapshot"})["data"]["snapshot"]
        made = httpx2.post(f"{url}/groups", json={"size": 2, "injected_state": {"snapshot": key}}).json()["group"]
        told = [one["first"]["metadata"] for one in made]
        assert [(one["task_id"], one["seed"], one["step"]) for one in told] == [(TASK, 5, 1)] * 2
        for one in made:
            httpx2.delete(f"{url}/sessions/{one['session_id']}")
        link.send('{"type": "close"}')


def test_a_group_that_nobody_waits_for_any_more_is_ended(url: str) -> None:
    host, _, port = url.removeprefix("http://").partition(":")
    before = httpx2.get(f"{url}/counters").json()["sessions_closed"]
    body = json.dumps({"size": 64, "task_id": TASK})
    head = f"POST /groups HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((host, int(port))) as gone:
        gone.sendall((head + body).encode())
    until = time.monotonic() + 10
    while httpx2.get(f"{url}/counters").json()["sessions_closed"] < before + 64 and time.monotonic() < until:
        time.sleep(0.02)
    assert httpx2.get(f"{url}/counters").json()["sessions_open"] == 0


def test_names_that_are_no_text_are_answered_and_make_no_numbers_of_their_own(url: str) -> None:
    json_type = {"Content-Type": "application/json"}
    name = httpx2.post(f"{url}/sessions", json={}).json()["session_id"]
    httpx2.post(f"{url}/sessions/{name}/reset", json={"task_id": TASK})
    for tool in ("\ud83d", "made-up-1", "made-up-2"):
        body = json.dumps({"action": {"type": "call_tool", "tool_name": tool}})
        answer = httpx2.post(f"{url}/sessions/{name}/step", content=body, headers=json_type)
        assert answer.json()["observation"]["results"][0]["status"] == "unknown_tool"
    rpc = '{"jsonrpc": "2.0", "id": "\\ud83d", "method": "tools/list"}'
    assert httpx2.post(f"{url}/mcp", content=rpc, headers=json_type).json()["result"]["tools"]
    assert httpx2.get(f"{url}/counters").json()["calls"]["(unknown) unknown_tool"] == 3
    assert "made-up" not in httpx2.get(f"{url}/metrics").text
    httpx2.delete(f"{url}/sessions/{name}")


def test_a_host_that_cannot_be_read_is_refused(url: str) -> None:
    for headers in ({"Host": "["}, {"Origin": "http://["}):
        assert httpx2.get(f"{url}/counters", headers=headers).status_code == 403


def test_a_tool_call_that_waited_does_nothing_in_the_next_episode() -> None:
    pytest.importorskip("mcp_types")
    from wardian.trainers.mcp.handle import EpisodeOver
    from wardian.trainers.server.episodes import LeasedEpisode

    session: Any = SimpleNamespace(turns=anyio.Lock(), course=SimpleNamespace(done=False))
    before: Any = SimpleNamespace(done=True, end_cause="cancelled")
    with pytest.raises(EpisodeOver, match="cancelled"):
        anyio.run(LeasedEpisode(session, before).say, "Done.")


def test_an_episode_whose_lines_cannot_be_written_is_over_and_not_scored(tmp_path: Path) -> None:
    """The disk is full for a while; what is played afterwards is written, and no half of a line stands before it."""
    with served(FAULTY, "--drain-s", "1", "--out", str(tmp_path)) as url, lease(url, "full") as link:
        said(link, RESET)
        said(link, {"type": "step", "data": {"type": "message", "text": "x" * 500_000}})  # the log is the largest file now
        said(link, RESET)
        (file,) = tmp_path.glob("*.jsonl")
        most = resource.prlimit(url.pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(url.pid, resource.RLIMIT_FSIZE, (file.stat().st_size + 100, most))
        assert said(link, calling("echo", text="x"))["data"]["failure_kind"] == "environment"
        state = said(link, {"type": "state"})["data"]
        assert (state["done"], state["failure_kind"], state["total_reward"]) == (True, "environment", None)
        resource.prlimit(url.pid, resource.RLIMIT_FSIZE, (most, most))
        said(link, RESET)
        assert said(link, {"type": "step", "data": {"type": "message", "text": "Done."}})["data"]["done"]
        link.send('{"type": "close"}')
    assert [finding for _, findings in validate(tmp_path) for finding in findings] == []
    assert sum('"terminated"' in line for line in file.read_text().splitlines() if '"episode_end"' in line) == 2
