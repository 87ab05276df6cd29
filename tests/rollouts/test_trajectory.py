"""Lines: written whole, readable after any crash, of the published schema, and with every text and number that can occur."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from wardian.rollouts.errors import LogBroken, LogInUse
from wardian.rollouts.records import (
    SCHEMA_VERSION,
    ActionPart,
    ObservationPart,
    ResultPart,
    RunRecord,
    StepRecord,
    Versions,
    json_schema,
)
from wardian.rollouts.trajectory import TrajectoryLog, TrajectoryWriter, dump, load, validate

VERSIONS = Versions(wardian="0.1.0", env="toy@1", renderer=1, tools="t", template="k", image=None)
FIRST_FIELDS = [
    "episode_id",
    "task_id",
    "env_version",
    "policy_checkpoint",
    "step",
    "observation",
    "action",
    "tool_result",
    "reward_components",
    "terminated",
    "truncated",
]
ODD = ["\x00\x1b[31m", "\u2028\u2029", "é\U0001f600", "</s>", '"\\\n']


def step(episode: str = "r-00000", **changes: Any) -> StepRecord:
    fields: dict[str, Any] = {
        "episode_id": episode,
        "task_id": "desk/easy/seed-1",
        "env_version": "toy@1",
        "policy_checkpoint": "c",
        "step": 1,
        "observation": ObservationPart(rendered="{}", tokens=1),
        "action": ActionPart(type="tool_call", tool="t", args={}),
        "tool_result": ResultPart(status="ok", latency_ms=20),
        "reward_components": {"task": 0.0},
        "terminated": False,
        "truncated": False,
        "record": "step",
        "schema_version": SCHEMA_VERSION,
        "policy": "expert",
        "attempt": 1,
        "task_hash": "h",
        "seed": 3,
        "split": "train",
        "versions": VERSIONS,
        "tier": None,
        "mask": 1,
        "reward": 0.0,
        "tool_results": [],
        "events": [],
        "background": [],
        "clock_ms": 0,
        "fingerprint": None,
        "database": [],
        "files": {},
        "receipt": None,
        "end_cause": "",
        "failed": None,
        "verdict": None,
        "inexact": [],
        "recomputed": False,
        "sample": None,
        "wall_ms": 0.5,
    }
    return StepRecord(**fields | changes)


def header() -> RunRecord:
    return RunRecord(
        record="run",
        schema_version=SCHEMA_VERSION,
        run="r",
        world="toy",
        started_at="",
        python="3.11",
        parameters={},
        tool_schemas=[],
        versions=VERSIONS,
    )


def test_a_step_begins_with_the_fields_that_trainers_read() -> None:
    assert list(json.loads(dump(step())))[: len(FIRST_FIELDS)] == FIRST_FIELDS


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_any_text_is_written_and_read_back(text: str) -> None:
    action = ActionPart(type="malformed", tool=None, args=None, raw=text, reason=text)
    found = load(dump(step(action=action, files={text: None}, observation=ObservationPart(rendered=text, tokens=0))))
    assert isinstance(found, StepRecord)
    assert (found.action.raw, list(found.files), found.observation.rendered) == (text, [text], text)


def test_a_lone_surrogate_is_written_as_the_text_of_its_escape() -> None:
    found = load(dump(step(files={"/tmp/\udcff": None}, observation=ObservationPart(rendered="\ud800 lone", tokens=0))))
    assert isinstance(found, StepRecord)
    assert (list(found.files), found.observation.rendered) == (["/tmp/\\udcff"], "\\ud800 lone")


def test_integers_of_any_size_survive() -> None:
    args = {"a": 2**53 + 1, "b": -(2**80)}
    found = load(dump(step(action=ActionPart(type="tool_call", tool="t", args=args))))
    assert isinstance(found, StepRecord)
    assert found.action.args == args


def test_nan_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        dump(step(reward_components={"task": float("nan")}))


def test_every_line_is_of_the_published_schema() -> None:
    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    for record in (step(), step(action=ActionPart(type="message", tool=None, args=None, text="hi")), header()):
        Draft202012Validator(schema).validate(json.loads(dump(record)))


def test_the_schema_refuses_an_unknown_key_and_a_missing_one() -> None:
    validator = Draft202012Validator(json_schema())
    line = json.loads(dump(step()))
    assert not validator.is_valid(line | {"surprise": 1})
    assert not validator.is_valid({name: value for name, value in line.items() if name != "action"})


def test_a_wrong_field_is_named_with_file_and_line(tmp_path: Path) -> None:
    line = json.loads(dump(step()))
    line["action"]["type"] = "dance"
    (tmp_path / "a.jsonl").write_text(f"{dump(header())}\n{json.dumps(line)}\n")
    findings = [str(finding) for _, found in validate(tmp_path) for finding in found]
    assert [finding.partition(": should")[0] for finding in findings] == [f"{tmp_path}/a.jsonl:2: step action.type"]


def test_a_file_cut_anywhere_gives_all_whole_lines_and_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    lines = [dump(header()), *(dump(step(f"r-{number:05d}")) for number in range(3))]
    whole = "".join(f"{line}\n" for line in lines).encode()
    for cut in range(2, 200):
        file.write_bytes(whole[:-cut])
        log = TrajectoryLog.open(tmp_path)
        assert list(log.episodes) == ["r-00000", "r-00001"], cut
        assert len(log.warnings) == 1
        assert [finding.torn for _, found in validate(tmp_path) for finding in found if "torn" in finding.message] == [True]


def test_a_writer_begins_on_a_new_line_after_a_torn_one(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(f"{dump(step('r-00000'))}\n{dump(step('r-00001'))[:-50]}")
    with TrajectoryWriter(file) as writer:
        writer.write(header())
        writer.write(step("r-00002"))
    log = TrajectoryLog.open(file)
    assert list(log.episodes) == ["r-00000", "r-00002"]
    assert [finding.torn for _, found in validate(file) for finding in found if "torn" in finding.message] == [True]


def test_a_file_has_one_writer(tmp_path: Path) -> None:
    with TrajectoryWriter(tmp_path / "a.jsonl"), pytest.raises(LogInUse, match="another run"):
        TrajectoryWriter(tmp_path / "a.jsonl")


def test_many_writers_of_big_lines_never_mix_them(tmp_path: Path) -> None:
    """Writers in other processes, of which each waits for nobody: all but the one that has the file are refused."""
    script = (
        "import sys, pathlib; sys.path.insert(0, sys.argv[2]); from test_trajectory import *\n"
        "with TrajectoryWriter(pathlib.Path(sys.argv[1])) as writer:\n"
        "    [writer.write(step(f'r-{n:05d}', observation=ObservationPart(rendered='x' * (1 << 20), tokens=1))) for n in range(4)]"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "a.jsonl"), str(Path(__file__).parent)]
    started = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    errors = [process.communicate(timeout=60)[1] for process in started]
    assert all("LogInUse" in error for process, error in zip(started, errors, strict=True) if process.returncode)
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1] * len(lines)


def test_an_episode_is_found_by_its_id_its_end_or_its_number(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(f"{dump(step('ab12-00007'))}\n{dump(step('ab12-00017'))}\n")
    log = TrajectoryLog.open(tmp_path)
    assert {log.find("ab12-00007"), log.find("7"), log.find("00007")} == {"ab12-00007"}
    with pytest.raises(LogBroken, match=re.escape("none is named 'x'")):
        log.find("x")


def test_a_folder_without_trajectories_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(LogBroken, match=r"no \*\.jsonl"):
        TrajectoryLog.open(tmp_path)
