"""The commands, as a user runs them: in processes of their own."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker
import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from tests.rollouts.summing import adds_up
from wardian.cli import build_app
from wardian.rollouts.trajectory import FILE, TrajectoryLog, validate
from wardian.sandbox.labels import PID, RUN

SUMMARY_FIELDS = {
    *("episodes", "succeeded", "success_rate", "by_family", "by_difficulty", "by_policy", "steps", "infra_failures", "masked"),
    *("masked_by_cause", "resets", "tool_outcomes", "wall_s", "truncated", "faults_injected", "verifier_failures", "interrupted"),
}
WARDIAN = (sys.executable, "-c", "from wardian.cli import main; main()")
ENDLESS = ("--episodes", 100_000, "--cells", 2, "--no-progress")
DEADLINE_S = 30


def summary_of(stdout: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(stdout.splitlines()[-1])
    return found


def wait_for(condition: Callable[[], bool], what: str, process: "subprocess.Popen[str] | None" = None) -> None:
    """Poll until it is so; fail at the deadline, or when the process that is to make it so has ended."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {DEADLINE_S} s"
        assert process is None or process.poll() is None, f"{what}: {process and process.communicate()}"
        time.sleep(0.02)


def cells_of(pid: int) -> list[str]:
    client = docker.from_env()
    rows = client.api.containers(all=True, filters={"label": [RUN, f"{PID}={pid}"]})
    client.close()
    return [row["Names"][0] for row in rows]


@contextmanager
def started(*arguments: object) -> Iterator["subprocess.Popen[str]"]:
    command = [*WARDIAN, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_run_is_valid_and_replays_in_another_process(wardian: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = wardian("run", "billing", "--episodes", 6, "--cells", 2, "--faults", "realistic", "--out", out, "--json", hash_seed="1")
    assert ran.returncode == 0, ran.stderr
    assert set(summary_of(ran.stdout)) >= SUMMARY_FIELDS
    assert summary_of(ran.stdout)["success_rate"] == 1.0
    assert wardian("validate", out).stdout.splitlines()[-1].startswith("valid: ")
    schema = Draft202012Validator(json.loads(wardian("schema", "trajectory").stdout))
    assert all(schema.is_valid(json.loads(line)) for line in (out / FILE).read_text().splitlines())
    replayed = wardian("replay", out, hash_seed="2")
    assert (replayed.returncode, replayed.stdout.splitlines()[-1]) == (0, "identical 6/6"), replayed.stdout


def test_a_log_replays_on_the_other_tier(wardian: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert wardian("run", "toy", "--episodes", 3, "--cells", 2, "--policy", "vandal", "--tier", "chamber", "--out", out).returncode == 0
    replayed = wardian("replay", out, "--tier", "fresh")
    assert (replayed.returncode, replayed.stdout.splitlines()[-1]) == (0, "identical 3/3"), replayed.stdout


def test_a_replay_of_a_tampered_log_names_the_argument(wardian: Any, tmp_path: Path) -> None:
    wardian("run", "toy", "--episodes", 2, "--cells", 1, "--out", tmp_path / "out")
    file = tmp_path / "out" / FILE
    recorded = '"action": {"type": "tool_call", "tool": "show_item", "args": {"item_id": '
    changed, count = re.subn(f"({re.escape(recorded)})[1-6]", r"\g<1>9", file.read_text())
    assert count
    file.write_text(changed)
    replayed = wardian("replay", tmp_path / "out")
    assert replayed.returncode == 1
    assert re.search(r"step \d+: events\[0\]\.args\.item_id: expected \d\d\d, found 9\d\d \[in show_item", replayed.stdout), replayed.stdout
    assert replayed.stdout.splitlines()[-1] != "identical 2/2"


def test_a_killed_run_leaves_readable_lines_and_no_container(tmp_path: Path) -> None:
    file = tmp_path / "out" / FILE
    with started("run", "toy", *ENDLESS, "--out", tmp_path / "out") as process:
        wait_for(lambda: file.exists() and file.stat().st_size > 100_000, "lines", process)
        assert cells_of(process.pid)
        process.kill()
        process.wait(timeout=DEADLINE_S)
        wait_for(lambda: not cells_of(process.pid), "no container")
    log = TrajectoryLog.open(file)
    assert len(log.episodes) >= 2
    assert all(finding.torn for _, findings in validate(file) for finding in findings)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_sums_up_what_was_played(tmp_path: Path, number: signal.Signals, code: int) -> None:
    file = tmp_path / "out" / FILE
    with started("run", "toy", *ENDLESS, "--out", tmp_path / "out", "--json") as process:
        wait_for(lambda: file.exists() and file.stat().st_size > 100_000, "lines", process)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == code, stderr
        assert cells_of(process.pid) == []
    found = summary_of(stdout)
    assert (found["interrupted"], found["episodes"] > 0, found["masked"]) == (True, True, 0)
    assert (found["cancelled"] > 0, found["not_started"] > 0) == (True, True)
    adds_up(found, tmp_path / "out")
    assert [finding for _, findings in validate(file) for finding in findings] == []
    assert json.loads((tmp_path / "out" / "summary.json").read_text()) == found


def test_an_interrupt_while_cells_are_made_leaves_nothing() -> None:
    with started("run", "toy", *ENDLESS) as process:
        wait_for(lambda: bool(cells_of(process.pid)), "a cell", process)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 130
        assert cells_of(process.pid) == []
    assert "starting" in stderr
    assert "stopping: no episode was begun" in stderr or "running episodes are given up" in stderr


def test_two_runs_side_by_side_do_not_harm_each_other(tmp_path: Path) -> None:
    with (
        started("run", "toy", *ENDLESS, "--out", tmp_path / "killed", "--policy", "vandal") as victim,
        started("run", "toy", "--episodes", 30, "--cells", 2, "--out", tmp_path / "whole", "--json") as other,
    ):
        wait_for(lambda: (tmp_path / "killed" / FILE).exists(), "a first run", victim)
        wait_for(lambda: (tmp_path / "whole" / FILE).exists(), "a second run", other)
        victim.kill()
        stdout, stderr = other.communicate(timeout=60)
        assert other.returncode == 0, stderr
    found = summary_of(stdout)
    assert (found["episodes"], found["success_rate"], found["infra_failures"], found["resets"]["leaks"]) == (30, 1.0, 0, 0)


OWN = """
from dataclasses import replace
from wardian.envs.action import Message
from wardian.envs.registry import load_world
from wardian.rollouts.policies.base import Scripted
from wardian.tools.packs.shell import SHELL

def world():
    return replace(load_world("toy"), name="mine", tools=(SHELL,), needs_cell=NEEDS)

def policy(world):
    def script(first, view):
        yield Message("hello")
    return Scripted("mine", "7", script)
"""


def run_own(folder: Path, *, needs_cell: bool, **environment: str) -> "subprocess.CompletedProcess[str]":
    (folder / "own.py").write_text(OWN.replace("NEEDS", str(needs_cell)))
    command = [*WARDIAN, "run", "own:world", "--policy", "own:policy", "--episodes", "2", "--out", "out", "--json"]
    environment = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=DEADLINE_S, check=False)


def test_a_world_and_a_policy_of_ones_own_are_found_in_the_working_directory(tmp_path: Path) -> None:
    ran = run_own(tmp_path, needs_cell=True)
    assert (ran.returncode, set(summary_of(ran.stdout)["by_policy"])) == (0, {"mine"}), ran.stderr


def test_a_world_without_cells_needs_no_engine(tmp_path: Path) -> None:
    ran = run_own(tmp_path, needs_cell=False, DOCKER_HOST="unix:///nowhere.sock")
    assert (ran.returncode, summary_of(ran.stdout)["resets"]["verified"]) == (0, 2), ran.stderr


def test_an_engine_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    ran = run_own(tmp_path, needs_cell=True, DOCKER_HOST="unix:///nowhere.sock")
    assert (ran.returncode, ran.stdout, len(ran.stderr.splitlines())) == (1, "", 2)  # after that of the cells
    assert "make engine" in ran.stderr


def test_show_lists_episodes_and_prints_one(wardian: Any, tmp_path: Path) -> None:
    wardian("run", "toy", "--episodes", 2, "--cells", 1, "--policy", "idle", "--out", tmp_path / "out")
    listed = wardian("show", tmp_path / "out").stdout
    assert listed.splitlines()[-1] == "2 episodes"
    assert "lending-desk/easy/" in listed
    printed = wardian("show", tmp_path / "out", "1").stdout
    assert "terminated by message" in printed
    assert "FAILED" in printed


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "atlantis"], "no 'atlantis'; built in are billing, routing, toy"),
        (["run", "toy", "--family", "x"], "toy has no 'x'; it has lending-desk"),
        (["run", "toy", "--difficulty", "x"], "there are easy, medium, hard"),
        (["run", "toy", "--policy", "x"], "there are expert, idle, careless, vandal"),
        (["run", "toy", "--policy", ","], "name at least one of expert, idle"),
        (["run", "toy", "--policy", "no_such_module:x"], "built in are expert, idle"),
        (["run", "toy", "--policy", ":x"], "there are expert, idle"),
        (["run", ":x"], "no ':x'; built in are billing, routing, toy"),
        (["run", ".x:y"], "no '.x:y'; built in are billing, routing, toy"),
        (["run", "toy", "--tokenizer", ":x"], "there is estimate"),
        (["run", "toy", "--out", "/proc/x"], "out: cannot write into /proc/x: "),
        (["run", "toy", "--out", "/dev/null"], "out: /dev/null is a file"),
        (["run", "toy", "--out", "/dev/null/x"], "out: cannot write into /dev/null/x: Not a directory"),
        (["run", "toy", "--out", "a\nb"], "holds a line break"),
        (["run", "toy", "--policy", "careless"], "the world toy has no 'careless'"),
        (["run", "toy", "--faults", "x"], "there are none, mild, realistic, harsh"),
        (["run", "toy", "--malformed", "x"], "there are recover, penalise, terminate"),
        (["run", "toy", "--tokenizer", "x"], "there is estimate"),
        (["run", "toy", "--tokenizer", "no_such_module:words"], "cannot be loaded"),
        (["run", "toy", "--tier", "x"], "there are chamber, fresh and auto"),
        (["run", "toy", "--episodes", "0"], "--episodes"),
        (["run", "toy", "--cells", "9999"], "--cells"),
        (["schema", "x"], "there are trajectory"),
    ],
    ids=lambda value: "_".join(value[1:]) if isinstance(value, list) else "",
)
def test_a_wrong_option_is_answered_with_what_there_is(arguments: list[str], says: str) -> None:
    answered = CliRunner().invoke(build_app(), arguments)
    assert answered.exit_code == 2
    assert says in " ".join(answered.stderr.split())


def test_a_folder_that_is_not_empty_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    answered = CliRunner().invoke(build_app(), ["run", "toy", "--out", str(tmp_path)])
    assert answered.exit_code == 2
    assert "is not empty and holds no run of this command; name a new folder" in " ".join(answered.stderr.split())


def test_the_version_is_printed() -> None:
    answered = CliRunner().invoke(build_app(), ["--version"])
    assert (answered.exit_code, answered.stdout.split()[0]) == (0, "wardian")


def test_the_schema_is_printed_as_json() -> None:
    printed = [CliRunner().invoke(build_app(), ["schema", *names]).stdout for names in ([], ["trajectory"])]
    assert printed[0] == printed[1]
    assert json.loads(printed[0])["$schema"].endswith("2020-12/schema")
