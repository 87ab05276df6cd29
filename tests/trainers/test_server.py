"""The server as its callers and attackers meet it: frames, leases over HTTP, limits, tokens, drain."""

import io
import json
import logging
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

import wardian
from wardian.cli import build_app
from wardian.rollouts.trajectory import validate
from wardian.trainers.client import CapacityReached, NotAuthorized, Refused, SessionLost
from wardian.trainers.server.running import log_lines

from .serving import FAULTY, served

TASK = "echoes/easy/seed-1"
TOKEN = "a-token-of-trainers-0123456789"
Reply = dict[str, Any]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(FAULTY, "--sessions", "8", "--step-s", "20", "--message-mib", "1", "--drain-s", "1") as url:
        yield url


@pytest.fixture(scope="module")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    return file


@pytest.fixture(scope="module")
def guarded(token_file: Path) -> Iterator[str]:
    with served(FAULTY, "--token-file", str(token_file), "--drain-s", "1") as url:
        yield url


def socket_to(url: str, path: str = "/ws", **options: Any) -> ClientConnection:
    made: ClientConnection = connect(f"ws{url.removeprefix('http')}{path}", proxy=None, compression=None, **options)
    return made


def said(link: ClientConnection, frame: Any) -> Reply:
    link.send(frame if isinstance(frame, str) else json.dumps(frame))
    found: Reply = json.loads(link.recv(timeout=10))
    return found


# Frames


def test_wrong_frames_are_answered_by_code_and_the_socket_stays_in_step(url: str) -> None:
    with socket_to(url) as link:
        for frame, code in (
            ("{", "INVALID_JSON"),
            ("[1]", "INVALID_JSON"),
            ("1" * 5000, "INVALID_JSON"),
            ("[" * 100_000, "INVALID_JSON"),
            ({"type": "fly"}, "UNKNOWN_TYPE"),
            ({"type": ["reset"]}, "UNKNOWN_TYPE"),
            ({}, "UNKNOWN_TYPE"),
            ({"type": "reset", "extra": 1}, "VALIDATION_ERROR"),
            ({"type": "reset", "id": {}}, "VALIDATION_ERROR"),
            ({"type": "reset", "data": [1]}, "VALIDATION_ERROR"),
            ({"type": "reset", "data": {"tusk_id": TASK}}, "VALIDATION_ERROR"),
            ({"type": "reset", "data": {"seed": -1}}, "VALIDATION_ERROR"),
            ({"type": "reset", "data": {"seed": True}}, "VALIDATION_ERROR"),
            ({"type": "step", "data": {"type": "call_tool"}}, "VALIDATION_ERROR"),
            ({"type": "step", "data": {"type": "call_tool", "tool_name": "echo", "arguments": 3}}, "VALIDATION_ERROR"),
            ({"type": "step", "data": {"type": "message", "text": "x"}}, "EXECUTION_ERROR"),
            ({"type": "fork", "data": {"count": 0}}, "VALIDATION_ERROR"),
            ({"type": "snapshot"}, "EXECUTION_ERROR"),
        ):
            reply = said(link, frame)
            assert (reply["type"], reply["data"]["code"]) == ("error", code), (frame, reply)
        assert said(link, {"type": "reset", "data": {"task_id": TASK}, "id": 7})["id"] == 7


def test_frames_that_are_sent_ahead_are_answered_in_their_order(url: str) -> None:
    with socket_to(url) as link:
        link.send(json.dumps({"type": "reset", "data": {"task_id": TASK}, "id": "first"}))
        for number in range(5):
            link.send(json.dumps({"type": "step", "data": {"type": "call_tool", "tool_name": "fail"}, "id": number}))
        assert [json.loads(link.recv(timeout=10))["id"] for _ in range(6)] == ["first", 0, 1, 2, 3, 4]


def test_a_frame_sent_again_with_its_id_is_done_once(url: str) -> None:
    with socket_to(url) as link:
        said(link, {"type": "reset", "data": {"task_id": TASK}})
        frame = {"type": "step", "data": {"type": "call_tool", "tool_name": "echo", "arguments": {"text": "x"}}, "id": "once"}
        assert said(link, frame) == said(link, frame)
        assert said(link, {"type": "state"})["data"]["step_count"] == 1


def test_texts_and_numbers_that_are_hard_to_carry_arrive_as_they_are(url: str) -> None:
    with socket_to(url) as link:
        said(link, {"type": "reset", "data": {"task_id": TASK}})
        for text in ("\ud83d", "a\u2028b", "Zo\u00eb", "<|im_end|>", "\x7f"):
            reply = said(link, {"type": "step", "data": {"type": "call_tool", "tool_name": "echo", "arguments": {"text": text}}})
            seen = reply["data"]["observation"]
            if seen["results"][0]["status"] == "ok":
                assert seen["results"][0]["result"]["texts"] == [text]
            assert "<|im_end|>" not in seen["text"]
        big = {"type": "step", "data": {"type": "call_tool", "tool_name": "echo", "arguments": {"text": "x", "times": 2**70}}}
        assert said(link, big)["data"]["observation"]["results"][0]["status"] != "ok"


def test_a_lease_without_a_name_ends_with_its_socket_also_in_the_middle_of_a_call(url: str) -> None:
    with wardian.connect(url) as client:
        with socket_to(url) as link:
            said(link, {"type": "reset", "data": {"task_id": TASK}})
            link.send(json.dumps({"type": "step", "data": {"type": "call_tool", "tool_name": "slow", "arguments": {"seconds": 60}}}))
            time.sleep(0.1)
            assert client.counters()["sessions_open"] == 1
            link.socket.shutdown(socket.SHUT_RDWR)
        until = time.monotonic() + 10
        while client.counters()["sessions_open"] and time.monotonic() < until:
            time.sleep(0.02)
        assert client.counters()["sessions_open"] == 0
        assert "timeout" not in client.counters()["failed"], "it was given up, and did not run into its bound"


def test_too_large_a_frame_or_body_is_refused(url: str) -> None:
    with socket_to(url) as link:
        link.send(json.dumps({"type": "step", "data": {"type": "message", "text": "x" * (1 << 21)}}))
        with pytest.raises(ConnectionClosed) as caught:
            link.recv(timeout=10)
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1009
    with wardian.connect(url) as client, client.session() as session:
        session.reset(TASK)
        with pytest.raises(Refused, match="more than the server takes"):
            session.say("x" * (1 << 21))
        assert session.call("fail").step == 1
    body = b'{"session_id": "' + b"x" * (1 << 21) + b'"}'
    assert httpx2.post(f"{url}/sessions", content=body).status_code == 413

    def chunks() -> Iterator[bytes]:
        for _ in range(40):
            yield b"x" * (1 << 16)

    assert httpx2.post(f"{url}/sessions", content=chunks()).status_code == 413


# Leases


def test_a_lease_is_made_once_and_closed_once(url: str) -> None:
    made = [httpx2.post(f"{url}/sessions", json={"session_id": "twice"}).json() for _ in range(2)]
    assert [one["created"] for one in made] == [True, False]
    assert made[0]["policy_token"] == made[1]["policy_token"]
    first, second = (httpx2.post(f"{url}/sessions/twice/reset", json={"task_id": TASK}).json()["metadata"] for _ in range(2))
    assert first["policy_token"] == made[0]["policy_token"] != second["policy_token"]
    assert httpx2.post(f"{url}/sessions/twice/heartbeat").json()["session_id"] == "twice"
    assert [httpx2.delete(f"{url}/sessions/twice").json()["closed"] for _ in range(2)] == [True, False]
    assert httpx2.get(f"{url}/sessions/twice").status_code == 404
    for wrong in ("", "a b", "../x", "x" * 200):
        assert httpx2.post(f"{url}/sessions", json={"session_id": wrong}).status_code == 422


def test_a_whole_episode_over_http(url: str) -> None:
    name = httpx2.post(f"{url}/sessions", json={"policy_version": "step-3"}).json()["session_id"]
    at = f"{url}/sessions/{name}"
    assert httpx2.post(f"{at}/reset", json={"task_id": TASK}).json()["metadata"]["task_id"] == TASK
    action = {"type": "call_tool", "tool_name": "echo", "arguments": {"text": "x"}}
    first, again = (httpx2.post(f"{at}/step", json={"action": action, "id": "a"}).json() for _ in range(2))
    assert first == again
    assert first["observation"]["result"]["data"] == {"status": "ok", "result": {"texts": ["x"]}}
    key = httpx2.post(f"{at}/snapshot").json()["snapshot"]
    forks = httpx2.post(f"{at}/fork", json={"count": 2, "prefix": "branch"}).json()["sessions"]
    assert [one["session_id"] for one in forks] == ["branch-0", "branch-1"]
    assert httpx2.post(f"{at}/restore", json={"snapshot": key}).json()["metadata"]["step"] == 1
    state = httpx2.get(at).json()
    assert (state["step_count"], state["policy_version"]) == (1, "step-3")
    for one in (name, "branch-0", "branch-1"):
        assert httpx2.delete(f"{url}/sessions/{one}").json()["closed"]


def test_leases_that_nobody_uses_lapse_and_all_end_after_their_lifetime() -> None:
    with served(FAULTY, "--ttl-s", "0.6", "--lifetime-s", "3", "--drain-s", "1") as url, wardian.connect(url) as client:
        client.lease("idle")
        with client.session("used") as session:
            session.reset(TASK)
            time.sleep(1.6)
            assert client.counters()["closed"] == {"ttl": 1}
            assert session.call("fail").step == 1, "an open socket is a heartbeat"
            time.sleep(2.2)
            with pytest.raises(SessionLost):
                session.call("fail")
        assert client.counters()["closed"] == {"lifetime": 1, "ttl": 1}


def test_a_lease_whose_trainer_is_gone_ends_after_its_grace() -> None:
    with served(FAULTY, "--ttl-s", "60", "--grace-s", "0.5") as url, wardian.connect(url) as client:
        client.lease("by-http")
        with socket_to(url, "/ws?session_id=by-socket&create=1") as link:
            said(link, {"type": "reset", "data": {"task_id": TASK}})
            link.socket.shutdown(socket.SHUT_RDWR)
        until = time.monotonic() + 10
        while client.counters()["sessions_open"] == 2 and time.monotonic() < until:
            time.sleep(0.05)
        assert client.counters()["closed"] == {"ttl": 1}
        assert client.release("by-http")


def test_what_failed_is_told_again_and_not_tried_again(url: str) -> None:
    name = httpx2.post(f"{url}/sessions", json={}).json()["session_id"]
    httpx2.post(f"{url}/sessions/{name}/reset", json={"task_id": TASK})
    asked = {"action": {"type": "message", "text": "x"}, "id": "again"}
    httpx2.post(f"{url}/sessions/{name}/step", json={"action": {"type": "call_tool", "tool_name": "breaks_us"}})
    first, again = (httpx2.post(f"{url}/sessions/{name}/step", json=asked) for _ in range(2))
    assert (first.status_code, first.json()) == (409, again.json())
    httpx2.post(f"{url}/sessions/{name}/reset", json={"task_id": TASK})
    assert httpx2.post(f"{url}/sessions/{name}/step", json=asked).json() == first.json()
    httpx2.delete(f"{url}/sessions/{name}")


def test_a_group_is_had_whole_or_not_at_all(url: str) -> None:
    with wardian.connect(url) as client:
        before = client.counters()
        for body, status in (
            ({"size": 9, "task_id": TASK}, 422),
            ({"size": 4, "task_id": "nobody/easy/seed-1"}, 422),
            ({"size": 4, "task_id": TASK, "prefix": "../"}, 422),
            ({"size": "4", "task_id": TASK}, 422),
            ({"size": 4, "task_id": TASK}, 200),
            ({"size": 0, "task_id": TASK}, 422),
        ):
            answer = httpx2.post(f"{url}/groups", json=body)
            assert answer.status_code == status, answer.text
            for one in answer.json().get("group", ()):
                client.release(one["session_id"])
        after = client.counters()
        assert after["sessions_open"] == 0
        assert after["sessions_opened"] - before["sessions_opened"] == after["sessions_closed"] - before["sessions_closed"]


def test_capacity_is_an_answer_with_a_time_to_ask_again(url: str) -> None:
    names = [httpx2.post(f"{url}/sessions", json={}).json()["session_id"] for _ in range(8)]
    full = httpx2.post(f"{url}/sessions", json={})
    assert (full.status_code, full.json()["code"], full.headers["retry-after"]) == (503, "CAPACITY_REACHED", "1")
    assert httpx2.post(f"{url}/groups", json={"size": 8, "task_id": TASK}).status_code == 503
    with socket_to(url) as link:
        assert json.loads(link.recv(timeout=5))["data"]["code"] == "CAPACITY_REACHED"
    for name in names:
        httpx2.delete(f"{url}/sessions/{name}")


# Tasks


def test_tasks_are_listed_by_split_and_none_of_another_split(url: str) -> None:
    assert httpx2.get(f"{url}/list_environments").json() == ["faulty"]
    assert httpx2.get(f"{url}/faulty/splits").json() == [{"name": "train", "type": "train"}]
    number = httpx2.post(f"{url}/faulty/num_tasks", json={"split": "train"}).json()["num_tasks"]
    assert number == 1000
    every = httpx2.post(f"{url}/faulty/tasks", json={"split": "train"}).json()["tasks"]
    assert [task["index"] for task in every] == list(range(number))
    last = httpx2.post(f"{url}/faulty/task_range", json={"split": "train", "start": -2}).json()["tasks"]
    assert last == every[-2:]
    assert httpx2.post(f"{url}/faulty/task", json={"split": "train", "index": number}).status_code == 400
    for split in ("heldout", "eval", "nowhere"):
        assert httpx2.post(f"{url}/faulty/tasks", json={"split": split}).status_code == 422
    assert httpx2.get(f"{url}/nobody/splits").status_code == 404


def test_nothing_that_is_sent_tells_the_truth_behind_a_task(url: str) -> None:
    """`truth` is a number that the generator drew and only the verifier knows; the fault plan and the checks are as secret."""
    from wardian.envs.task import TaskId

    from .worlds import Echoes

    truth = str(Echoes().generate(TaskId.parse(TASK).difficulty, TaskId.parse(TASK).seed).parameters["truth"])
    heard: list[str] = []
    with socket_to(url, "/ws?session_id=secret&create=1") as link:
        for frame in (
            {"type": "reset", "data": {"task_id": TASK}},
            {"type": "state"},
            {"type": "step", "data": {"type": "list_tools"}},
            {"type": "step", "data": {"type": "call_tool", "tool_name": "echo", "arguments": {"text": "x"}}},
            {"type": "snapshot"},
            {"type": "mcp", "data": {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}},
            {"type": "step", "data": {"type": "message", "text": "Done."}},
            {"type": "state"},
        ):
            heard.append(json.dumps(said(link, frame)))
        paths = json.loads(httpx2.get(f"{url}/openapi.json").text)["paths"]
        heard += [
            httpx2.get(url + path.replace("{name}", "secret").replace("{world}", "faulty")).text
            for path, ways in paths.items()
            if "get" in ways
        ]
    httpx2.delete(f"{url}/sessions/secret")
    assert len(heard) > 15
    assert not [text for text in heard if truth in text]
    assert not [text for text in heard if "wanted [" in text], "the detail of a check"
    assert not [text for text in heard if '"parameters"' in text and '"truth"' in text]


# Who may ask


def test_without_a_token_only_the_loopback_is_served(url: str) -> None:
    assert httpx2.get(f"{url}/counters", headers={"Host": "evil.example"}).status_code == 403
    assert httpx2.get(f"{url}/counters", headers={"Origin": "http://evil.example"}).status_code == 403
    assert httpx2.get(f"{url}/counters", headers={"Host": "localhost:1"}).status_code == 200
    with socket_to(url, origin="http://evil.example") as link:
        assert json.loads(link.recv(timeout=5))["data"]["code"] == "NOT_AUTHORIZED"


def test_a_token_opens_and_nothing_else_does(guarded: str) -> None:
    for path in ("/counters", "/metrics", "/list_environments", "/faulty/splits", "/sessions/health", "/faulty/tools", "/state"):
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}, {"Authorization": f"Basic {TOKEN}"}):
            assert httpx2.get(guarded + path, headers=headers).status_code == 401, (path, headers)
    assert httpx2.get(f"{guarded}/counters", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    for path in ("/health", "/metadata", "/schema", "/openapi.json", "/faulty/schema"):
        assert httpx2.get(guarded + path).status_code == 200
    unsigned = httpx2.post(f"{guarded}/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"})
    assert "result" not in unsigned.json()
    with socket_to(guarded) as link:
        assert json.loads(link.recv(timeout=5))["data"]["code"] == "NOT_AUTHORIZED"
        with pytest.raises(ConnectionClosed):
            link.recv(timeout=5)
    with wardian.connect(guarded) as stranger, pytest.raises(NotAuthorized, match=r"--token-file.*Bearer"):
        stranger.counters()
    with wardian.connect(guarded, TOKEN) as client, client.session() as session:
        assert session.reset(TASK).task_id == TASK


def test_the_token_of_an_episode_opens_no_route_of_trainers(guarded: str) -> None:
    with wardian.connect(guarded, TOKEN) as client:
        lease = client.lease()
        policy = {"Authorization": f"Bearer {lease['policy_token']}"}
        for path, ways in httpx2.get(f"{guarded}/openapi.json").json()["paths"].items():
            for way in ways:
                if path in ("/health", "/metadata", "/schema", "/faulty/health", "/faulty/metadata", "/faulty/schema"):
                    continue
                address = guarded + path.replace("{name}", lease["session_id"]).replace("{world}", "faulty")
                answer = httpx2.request(way, address, headers=policy, json=None if way == "get" else {})
                assert answer.status_code == 401 or answer.json().get("error"), (way, path, answer.text)
        client.release(lease["session_id"])


def test_too_many_requests_are_told_to_wait() -> None:
    with served(FAULTY, "--rate", "10") as url:
        answers = [httpx2.get(f"{url}/health").status_code for _ in range(40)]
        assert set(answers) == {200, 429}
        time.sleep(1.1)
        with socket_to(url) as link:
            frames = [said(link, {"type": "state"}) for _ in range(30)]
            assert {reply["type"] for reply in frames} == {"state", "error"}
            assert {reply["data"]["code"] for reply in frames if reply["type"] == "error"} == {"RATE_LIMITED"}
        time.sleep(1.1)
        assert httpx2.get(f"{url}/counters").json()["refused"]["RATE_LIMITED"] > answers.count(429)


def test_wrong_ways_to_start_are_refused(url: str, tmp_path: Path) -> None:
    shared, short = tmp_path / "shared", tmp_path / "short"
    shared.write_text(TOKEN)
    shared.chmod(0o644)
    short.write_text("short")
    short.chmod(0o600)
    for words, message in (
        (["--host", "0.0.0.0"], "token_file"),
        (["--token-file", str(shared)], "chmod 600"),
        (["--token-file", str(short)], "16 characters"),
        (["--token-file", str(tmp_path / "none")], "cannot be read"),
        (["--port", url.rpartition(":")[2]], "port"),
        (["--split", "nowhere"], "split"),
        (["--faults", "nothing"], "faults"),
        (["--step-s", "0"], "step_s"),
        (["toy"], "twice"),
    ):
        done = CliRunner().invoke(build_app(), ["serve", "toy", *words])
        assert (done.exit_code, message in done.stderr) == (2, True), (words, done.output)


# The end


def test_a_line_of_the_log_has_nothing_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(logging.root, "level", logging.root.level)
    stream = io.StringIO()
    log_lines(stream)
    logging.getLogger("uvicorn.error").warning("begun", extra={"color_message": "\x1b[36mbegun", "lease": "a"})
    line = json.loads(stream.getvalue())
    assert {name: line[name] for name in line if name != "at"} == {
        "level": "WARNING",
        "name": "uvicorn.error",
        "message": "begun",
        "lease": "a",
    }


def test_a_server_that_is_asked_to_end_lets_leases_end_and_writes_all_down(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with served(FAULTY, "--drain-s", "20", "--out", str(out)) as url, wardian.connect(url) as client:
        session, left = client.session(policy_version="step-1"), client.session()
        session.reset(TASK)
        left.reset(TASK)
        os.kill(url.pid, signal.SIGTERM)
        time.sleep(0.2)
        assert httpx2.get(f"{url}/health").status_code == 503
        with pytest.raises(CapacityReached, match="going away"):
            client.session().reset(TASK, wait_s=0)
        assert session.call("fail", sample={"policy_version": "step-2", "token_ids": [1, 2], "logprobs": [-0.1, -0.2]}).step == 1
        session.say("Done.")
        session.close()
        left.close()
    assert [finding for _, findings in validate(out) for finding in findings] == []
    lines = [json.loads(line) for file in out.glob("*.jsonl") for line in file.read_text().splitlines()]
    assert {line["policy_checkpoint"] for line in lines if line["record"] == "step"} == {"step-2"}
    assert sorted(line["outcome"] for line in lines if line["record"] == "episode_end") == ["cancelled", "terminated"]
