"""Runs that stop and go on, and runs whose workers are killed: each episode is played to its end once."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from wardian.rollouts.crew import Crew
from wardian.rollouts.records import ADAPTER, EpisodeEnd
from wardian.rollouts.resume import is_final
from wardian.rollouts.summary import Tally

COMMAND = [sys.executable, "-m", "wardian.cli"]
RUN = ["run", "toy", "--policy", "expert", "--faults", "mild", "--cells", "2", "--json"]


def wardian(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=180, check=False)


def started(out: Path, *arguments: str) -> "subprocess.Popen[str]":
    """A run that has some ends on disk."""
    process = subprocess.Popen(
        [*COMMAND, *RUN, "--out", str(out), *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
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


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_killed_run_goes_on_where_it_stopped(workers: str, tmp_path: Path) -> None:
    process = started(tmp_path / "a", "--episodes", "40", "--workers", workers)
    process.kill()
    process.communicate(timeout=60)
    before = ends(tmp_path / "a")
    found = summed(wardian(*RUN, "--out", str(tmp_path / "a"), "--episodes", "40", "--workers", workers))
    after = ends(tmp_path / "a")
    assert (found["episodes"], found["succeeded"], len(after), max(after.values())) == (40, 40, 40, 1)
    assert found["resumed"] >= len(before) > 0
    assert wardian("validate", str(tmp_path / "a")).returncode == 0
    assert wardian("replay", str(tmp_path / "a")).stdout.splitlines()[-1] == "identical 40/40"


def test_workers_that_are_killed_lose_and_repeat_nothing(tmp_path: Path) -> None:
    process = started(tmp_path / "a", "--episodes", "60", "--workers", "2")
    listed = subprocess.run(["pgrep", "-P", str(process.pid), "-f", "wardian.cli work"], capture_output=True, text=True, check=True)
    for pid in listed.stdout.split():
        os.kill(int(pid), signal.SIGKILL)
    said, _ = process.communicate(timeout=180)
    found, after = json.loads(said.splitlines()[-1]), ends(tmp_path / "a")
    assert (found["episodes"], found["succeeded"], found["workers_lost"]) == (60, 60, 2)
    assert (len(after), max(after.values())) == (60, 1)
    assert wardian("validate", str(tmp_path / "a")).returncode == 0


def test_a_whole_run_has_nothing_left_to_play_and_may_grow(tmp_path: Path) -> None:
    first = summed(wardian(*RUN, "--out", str(tmp_path / "a"), "--episodes", "6"))
    again = summed(wardian(*RUN, "--out", str(tmp_path / "a"), "--episodes", "6"))
    assert (again["resumed"], again["episodes"], again["mean_reward"]) == (6, 6, first["mean_reward"])
    assert summed(wardian(*RUN, "--out", str(tmp_path / "a"), "--episodes", "9"))["episodes"] == 9
    fewer = wardian(*RUN, "--out", str(tmp_path / "a"), "--episodes", "3")
    assert (fewer.returncode, fewer.stderr.split(":")[0]) == (2, "episodes")


@pytest.mark.parametrize(("option", "value"), [("seed", "7"), ("faults", "harsh"), ("policy", "idle"), ("malformed", "terminate")])
def test_a_run_that_goes_on_is_the_same_run(option: str, value: str, tmp_path: Path) -> None:
    wardian(*RUN, "--out", str(tmp_path / "a"), "--episodes", "2")
    other = wardian(*RUN, "--out", str(tmp_path / "a"), "--episodes", "2", f"--{option}", value)
    assert (other.returncode, other.stderr.split(":")[0]) == (2, option)


def test_a_worker_that_cannot_play_ends_the_run_at_once() -> None:
    done = wardian("run", "toy", "--policy", "expert", "--episodes", "4", "--workers", "2", "--image", "nowhere:1", "--json")
    assert done.returncode in (1, 2)
    assert "nowhere:1" in done.stderr


def test_a_crew_without_episodes_starts_nobody() -> None:
    crew = Crew({}, workers=2, cells=2, out=None, watch=lambda end: None)
    assert crew.tally == Tally()
