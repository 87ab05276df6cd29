"""`wardian mcp` as a process: what signals, closed streams and wrong options do to it. The clients' tests are in `mcp/`."""

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from wardian.cli.mcp import Command
from wardian.envs.errors import TaskError
from wardian.envs.registry import load_world
from wardian.envs.settings import MalformedPolicy, Settings
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.ground import open_ground
from wardian.rollouts.recording import AttemptRecorder, Setting, versions_of
from wardian.rollouts.records import EpisodeEnd, StepRecord
from wardian.rollouts.trajectory import TrajectoryLog
from wardian.tools.faults import NONE
from wardian.trainers.episode_log import EpisodeLog
from wardian.trainers.mcp.handle import EpisodeFailed
from wardian.trainers.mcp.local import LocalEpisode
from wardian.trainers.mcp.stdio import LINE_BYTES, Wire

HERE = Path(__file__).parent
TASK = "echoes/easy/seed-0"
PROGRAM = (sys.executable, "-m", "wardian.cli")


class Talk:
    """A client of a few lines."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process, self.number = process, 0
        self.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "test", "version": "1"})
        self.send({"method": "notifications/initialized"})

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def begin(self, method: str, **params: Any) -> None:
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        assert self.process.stdout is not None
        self.begin(method, **params)
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert answer["id"] == self.number
        return answer["result"]  # type: ignore[no-any-return]

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return self.ask("tools/call", name=tool, arguments=arguments)


@contextmanager
def serving(*arguments: str, path: Path = HERE) -> Iterator[Talk]:
    environment = {**os.environ, "PYTHONPATH": f"{path}:{HERE}"}
    command = [*PROGRAM, "mcp", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        try:
            yield Talk(process)
        finally:
            process.kill()


def ended(talk: Talk) -> tuple[int, str]:
    """Exit code and the last line of stderr, after its stdin was closed or a signal sent."""
    _, said = talk.process.communicate(timeout=60)
    return talk.process.returncode, said.decode().splitlines()[-1]


def end_in(out: Path) -> EpisodeEnd:
    log = TrajectoryLog.open(out)
    (name,) = log.ends
    end = log.last_end(name)
    assert end is not None
    return end


def refused(*arguments: str, program: tuple[str, ...] = PROGRAM, **options: Any) -> tuple[int, bytes, str]:
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **options}
    done = subprocess.run([*program, "mcp", *arguments], stderr=subprocess.PIPE, env=environment, check=False, timeout=60, **pipes)
    return done.returncode, done.stdout or b"", done.stderr.decode()


def test_a_signal_gives_an_episode_in_a_cell_up(tmp_path: Path) -> None:
    with serving("toy", "lending-desk/easy/seed-2", "--out", str(tmp_path)) as talk:
        seen = talk.call("read_file", path="/workspace/requests.txt")
        talk.process.send_signal(signal.SIGTERM)
        code, said = ended(talk)
    assert "member" in seen["content"][0]["text"]
    assert (code, end_in(tmp_path).outcome) == (128 + signal.SIGTERM, "cancelled")
    assert "cancelled" in said


def test_a_client_that_leaves_in_the_middle_of_a_call_is_not_waited_for(tmp_path: Path) -> None:
    with serving("worlds:faulty", TASK, "--out", str(tmp_path)) as talk:
        talk.call("echo", text="amber")
        talk.begin("tools/call", name="slow", arguments={"seconds": 500})
        code, said = ended(talk)
    end = end_in(tmp_path)
    assert (code, end.outcome, end.mask) == (1, "cancelled", 0)
    assert "not scored" in said


def test_what_a_world_prints_never_reaches_the_client(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text("import os\nfrom worlds import faulty\nprint('hello')\nos.write(1, b'there\\n')\n", "utf-8")
    with serving("noisy:faulty", TASK, path=tmp_path) as talk:
        assert talk.call("echo", text="amber")["structuredContent"] == {"status": "ok", "result": {"texts": ["amber"]}}
        code, said = ended(talk)
    assert (code, said) == (0, f"{TASK}: terminated (message), did not succeed, reward -0.020, 2 steps")


def test_a_line_without_end_ends_the_conversation_and_what_was_done_is_judged(tmp_path: Path) -> None:
    with serving("worlds:faulty", TASK, "--out", str(tmp_path)) as talk:
        talk.call("echo", text="amber")
        talk.send({"id": 9, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "x" * (LINE_BYTES + 1)}}})
        code, said = ended(talk)
    assert (code, end_in(tmp_path).end_cause) == (0, "message")
    assert "2 steps" in said


def test_a_wrong_option_is_named_and_nothing_reaches_the_client() -> None:
    code, out, said = refused("worlds:faulty", TASK, "--split", "heldout")
    assert (code, out) == (2, b"")
    assert said == f"{TASK}: its task is of the split 'train', and only 'heldout' may be played here\n"


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("world", "nowhere", "world: no 'nowhere'"),
        ("task", "echoes/0", "task_id: 'echoes/0'"),
        ("task", "shouts/easy/seed-0", "family: faulty has no 'shouts'"),
        ("faults", "some", "faults: no profile 'some'"),
        ("db", "mysql", "db: no 'mysql'"),
    ],
)
def test_options_are_checked_before_anything_is_started(monkeypatch: pytest.MonkeyPatch, option: str, value: str, told: str) -> None:
    monkeypatch.syspath_prepend(HERE)
    given = {"faults": "none", "malformed": "recover", "split": "train", "tier": "auto", "db": "sqlite"}
    with pytest.raises((TaskError, UsageProblem), match=told):
        Command.checked({"world": "worlds:faulty", "task": TASK, **given, option: value}, None, Wire(0, 1))


def test_files_are_no_client(tmp_path: Path) -> None:
    (tmp_path / "in").touch()
    with (tmp_path / "in").open("rb") as file:
        code, _, said = refused("worlds:faulty", TASK, stdin=file)
    assert (code, "pipes are needed" in said) == (2, True)


@pytest.mark.anyio
async def test_an_episode_whose_lines_cannot_be_written_is_over_and_not_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(HERE)
    world = load_world("worlds:faulty")

    def write(line: object) -> None:
        if isinstance(line, StepRecord):
            raise OSError(errno.ENOSPC, "No space left on device")

    async with open_ground(world, cells=1) as ground, ground.environment(NONE, MalformedPolicy.RECOVER, Settings()) as env:
        setting = Setting(world, "worlds:faulty", versions_of(ground), NONE, "recover", 0)
        episode = LocalEpisode(env, EpisodeLog(AttemptRecorder(setting, "e", TASK, 0, "mcp", "", attempt=1), write))
        await episode.begin(TASK, 0)
        async with anyio.create_task_group() as group:
            group.start_soon(episode.run)
            for _ in range(2):
                with pytest.raises(EpisodeFailed, match="trajectory"):
                    await episode.call("echo", {"text": "amber"})
            await episode.leave()
            episode.give_up("the test is over")
            group.cancel_scope.cancel()
    assert (episode.end, episode.unwritable is None) == (None, False)


def test_without_the_package_it_says_what_to_install() -> None:
    without = "import sys; sys.modules['mcp_types'] = None; from wardian.cli import main; main()"
    code, out, said = refused("worlds:faulty", TASK, program=(sys.executable, "-c", without))
    assert (code, out) == (2, b"")
    assert "pip install 'wardian[mcp]'" in said
