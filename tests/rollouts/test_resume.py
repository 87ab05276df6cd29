"""Runs that stop and go on, and runs whose workers are killed: each episode is played to its end once."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.rollouts.summing import adds_up
from wardian.cli import build_app
from wardian.rollouts.crew import Crew
from wardian.rollouts.records import ADAPTER, EpisodeEnd
from wardian.rollouts.resume import is_final
from wardian.rollouts.summary import Tally
from wardian.rollouts.trajectory import FILE

COMMAND = [sys.executable, "-m", "wardian.cli"]
RUN = ["run", "toy", "--policy", "expert", "--faults", "mild", "--cells", "2", "--json"]


def wardian(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=180, check=False)


def started(out: Path, *arguments: str, stderr: int = subprocess.DEVNULL) -> "subprocess.Popen[str]":
    """A run that has some ends on disk."""
    process = subprocess.Popen([*COMMAND, *RUN, "--out", str(out), *arguments], stdout=subprocess.PIPE, stderr=stderr, text=True)
    deadline = time.monotonic() + 60
    while len(ends(out)) < 4:
        assert process.poll() is None
        assert time.monotonic() < deadline
        os.sched_yield()
    return process


def ends(out: Path) -> Counter[str]:
    """Final ends by episode, torn lines left out."""
    lines = [line for file in out.glob("*.jsonl") for line in file.read_text().split("\n")[:-1]]
    records = [ADAPTER.validate_json(line) for line in lines if '"record": "episode_end"' in line]
    return Counter(end.episode_id for end in records if isinstance(end, EpisodeEnd) and is_final(end))


def summed(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(("workers", "number"), [("1", signal.SIGKILL), ("2", signal.SIGKILL), ("2", signal.SIGINT)])
def test_a_run_that_was_ended_goes_on_where_it_stopped(workers: str, number: signal.Signals, tmp_path: Path) -> None:
    whole = (*RUN, "--out", str(tmp_path / "a"), "--episodes", "30", "--workers", workers)
    process = started(tmp_path / "a", "--episodes", "30", "--workers", workers)
    beside = CliRunner().invoke(build_app(), whole)
    assert (beside.exit_code, "another run is writing into it" in beside.stderr.replace("\n", " ")) == (2, True), beside.output
    process.send_signal(number)
    said, _ = process.communicate(timeout=60)
    if number == signal.SIGINT:
        stopped = json.loads(said.splitlines()[-1])
        assert (process.returncode, stopped["interrupted"], stopped["not_started"] + stopped["cancelled"] > 0) == (130, True, True)
        adds_up(stopped, tmp_path / "a")
    before = ends(tmp_path / "a")
    found, after = summed(wardian(*whole)), ends(tmp_path / "a")
    assert (found["episodes"], found["succeeded"], len(after), max(after.values())) == (30, 30, 30, 1)
    adds_up(found, tmp_path / "a")
    assert found["resumed"] >= len(before) > 0
    assert found["resets"]["verified"] >= 30
    validated, shown = (CliRunner().invoke(build_app(), [command, str(tmp_path / "a")]).stdout for command in ("validate", "show"))
    assert validated.splitlines()[-1].startswith("valid: ")
    assert shown.count(" succeeded ") == 30


def test_what_workers_played_in_several_lives_replays(tmp_path: Path) -> None:
    process = started(tmp_path / "a", "--episodes", "20", "--workers", "2", stderr=subprocess.PIPE)
    process.kill()
    _, said = process.communicate(timeout=60)  # by workers, which end later
    told = " ".join(said.split())
    assert ("cannot be written" in told, "worker: the process of its run is gone" in told, "Error" in told) == (False, True, False), said
    summed(wardian(*RUN, "--out", str(tmp_path / "a"), "--episodes", "20"))
    assert wardian("replay", str(tmp_path / "a")).stdout.splitlines()[-1] == "identical 20/20"


def test_workers_that_are_ended_lose_and_repeat_nothing(tmp_path: Path) -> None:
    process = started(tmp_path / "a", "--episodes", "60", "--workers", "2")
    listed = subprocess.run(["pgrep", "-P", str(process.pid), "-f", "wardian.cli work"], capture_output=True, text=True, check=True)
    for pid, number in zip(listed.stdout.split(), (signal.SIGKILL, signal.SIGTERM), strict=True):
        os.kill(int(pid), number)
    said, _ = process.communicate(timeout=180)
    found, after = json.loads(said.splitlines()[-1]), ends(tmp_path / "a")
    assert (found["episodes"], found["succeeded"], found["workers_lost"]) == (60, 60, 2)
    assert (len(after), max(after.values())) == (60, 1)
    adds_up(found, tmp_path / "a")
    assert CliRunner().invoke(build_app(), ["validate", str(tmp_path / "a")]).exit_code == 0


def test_a_whole_run_has_nothing_left_to_play_and_may_grow(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / FILE).touch()  # as a run leaves it that was killed before its first line
    first = summed(wardian(*RUN, "--out", str(tmp_path / "a"), "--episodes", "6"))
    again = summed(wardian(*RUN, "--out", str(tmp_path / "a"), "--episodes", "6"))
    assert (again["resumed"], again["episodes"], again["mean_reward"]) == (6, 6, first["mean_reward"])
    assert again["resets"]["tier"] == first["resets"]["tier"]
    assert summed(wardian(*RUN, "--out", str(tmp_path / "a"), "--episodes", "9"))["episodes"] == 9


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a whole run under a profile of its own."""
    folder = tmp_path_factory.mktemp("kept")
    (folder / "mine.toml").write_text('extends = "mild"\n')
    summed(wardian(*RUN, "--faults", str(folder / "mine.toml"), "--out", str(folder / "a"), "--episodes", "2"))
    return folder


@pytest.mark.parametrize(
    ("option", "value"),
    [("seed", "7"), ("faults", "harsh"), ("policy", "idle"), ("malformed", "terminate"), ("episodes", "1"), ("difficulty", "easy")],
)
def test_a_run_that_goes_on_is_the_same_run(option: str, value: str, kept: Path) -> None:
    same = [*RUN, "--faults", str(kept / "mine.toml"), "--out", str(kept / "a"), "--episodes", "3"]
    answered = CliRunner().invoke(build_app(), [*same, f"--{option}", value])
    assert (answered.exit_code, answered.stderr.split(":")[0]) == (2, option), answered.output


@pytest.mark.parametrize(
    ("file", "old", "new", "code", "says"),
    [
        ("mine.toml", "mild", "harsh", 2, "faults: the profile mine is not what it was when the run began"),
        (f"a/{FILE}", '"task_hash": "', '"task_hash": 1, "was": "', 1, f"{FILE}:2: episode_start "),
        (f"a/{FILE}", '"terminated": ', '"terminated" ', 1, ": is no JSON, and other lines of its writer follow"),
        (f"a/{FILE}", '"toy@', '"toy@0.', 2, "begun by other versions: env was toy@0."),
    ],
)
def test_a_run_that_cannot_go_on_says_why(kept: Path, tmp_path: Path, file: str, old: str, new: str, code: int, says: str) -> None:
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    text = (tmp_path / file).read_text()
    (tmp_path / file).write_text(text.replace(str(kept), str(tmp_path)).replace(old, new))
    log = tmp_path / "a" / FILE
    log.write_text(log.read_text().replace(str(kept), str(tmp_path)))
    again = [*RUN, "--faults", str(tmp_path / "mine.toml"), "--out", str(tmp_path / "a"), "--episodes", "3"]
    answered = CliRunner().invoke(build_app(), again)
    assert (answered.exit_code, says in answered.stderr.replace("\n", "")) == (code, True), answered.output


def test_what_validate_refuses_does_not_go_on(kept: Path, tmp_path: Path) -> None:
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    folder, again = tmp_path / "a", [*RUN, "--faults", str(tmp_path / "mine.toml"), "--episodes", "3"]
    log = folder / FILE
    lines = log.read_text().replace(str(kept), str(tmp_path)).splitlines(keepends=True)
    (folder / "continued-001.jsonl").write_text(lines[0].replace('"python": "', '"python": "0.'))
    for damaged, says in (
        (lines[1:], "no run line stands before it in this file"),
        ([line for line in lines if '"record": "episode_start"' not in line], "stands before any start"),
        ([line.replace('"wardian": "', '"wardian": "0.') for line in lines], "versions: is another one than in the first line of this run"),
    ):
        log.write_text("".join(damaged))
        answered = CliRunner().invoke(build_app(), [*again, "--out", str(folder)])
        assert (answered.exit_code, says in answered.stderr.replace("\n", "")) == (1, True), answered.output


def test_an_empty_name_is_not_this_folder() -> None:
    answered = CliRunner().invoke(build_app(), [*RUN, "--out", ""])
    assert (answered.exit_code, "out: is empty" in answered.stderr) == (2, True), answered.output


def test_a_folder_of_exports_is_no_runs_folder(tmp_path: Path) -> None:
    (tmp_path / "chats.jsonl").write_text('{"messages": []}\n')
    answered = CliRunner().invoke(build_app(), [*RUN, "--out", str(tmp_path)])
    assert (answered.exit_code, "is not a run's folder: chats.jsonl there is no trajectory" in answered.stderr) == (2, True), (
        answered.output
    )


def test_a_worker_that_cannot_play_ends_the_run_at_once() -> None:
    done = wardian("run", "toy", "--policy", "expert", "--episodes", "4", "--workers", "2", "--image", "nowhere:1", "--json")
    assert (done.returncode, "nowhere:1" in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr


HOPELESS = """
from wardian.rollouts.errors import PolicyHopeless

class Policy:
    name, checkpoint = "hopeless", "1"

    def begin(self, first, view):
        return self

    async def act(self, observation):
        raise PolicyHopeless("key: the server refuses it", "policy_refused")

def policy(world):
    return Policy()
"""


def test_a_policy_without_hope_ends_a_run_of_workers(tmp_path: Path) -> None:
    (tmp_path / "hopeless.py").write_text(HOPELESS)
    command = [*COMMAND, "run", "toy", "--policy", "hopeless:policy", "--episodes", "4", "--workers", "2", "--no-progress"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert (done.returncode, "key: the server refuses it" in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr


def test_a_crew_without_episodes_starts_nobody() -> None:
    crew = Crew({}, workers=2, cells=2, out=None, watch=lambda end: None)
    assert crew.tally == Tally()
