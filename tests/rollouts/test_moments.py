"""What lies between two moments of recorded episodes, each reached by running the episode again."""

import json
from pathlib import Path
from typing import Any

import pytest

from wardian.envs.action import Message, Observation, call
from wardian.envs.diff import StateDiff
from wardian.rollouts.errors import NotReproduced, UsageProblem
from wardian.rollouts.ground import Ground
from wardian.rollouts.moments import difference, stop_at
from wardian.rollouts.policies.base import Scripted, TaskView
from wardian.rollouts.replay import Replay
from wardian.rollouts.trajectory import FILE, TrajectoryLog

pytestmark = pytest.mark.anyio

COMMANDS = (
    "printf 'one\\ntwo\\n' > note; printf '\\000\\001' > raw; touch brief",
    "printf 'one\\nthree\\n' > note; chmod 600 raw; rm brief; cp /etc/hostname copied; mkdir sub; ln -s note link",
    "echo more >> requests.txt",
)


def acts(first: Observation, view: TaskView) -> Any:
    for command in COMMANDS:
        yield call("shell", command=command)
    yield call("lend_item", item_id=102, member_id=3, days=7)
    yield Message("")


@pytest.fixture
async def played(player: Any, tmp_path: Path) -> Path:
    await player.play(tmp_path, Scripted("acts", "1", acts), episodes=2)
    return tmp_path


async def between(ground: Ground, out: Path, one: int | None, two: int | None, other: str = "0") -> StateDiff:
    log = TrajectoryLog.open(out)
    return await difference(Replay(log, ground), stop_at(log, "0", one, "--from"), stop_at(log, other, two, "--to"))


async def test_files_are_told_by_what_they_were_and_are(ground: Ground, played: Path) -> None:
    found = await between(ground, played, 1, 2)
    by_path = {file.path.removeprefix("/workspace/"): file for file in found.files}
    assert {path: file.change for path, file in by_path.items()} == {
        "brief": "removed", "copied": "added", "link": "added", "note": "changed", "raw": "changed", "sub": "added"
    }  # fmt: skip
    assert by_path["note"].text() == [
        "--- before/workspace/note", "+++ after/workspace/note", "@@ -1,2 +1,2 @@", " one", "-two", "+three"
    ]  # fmt: skip
    raw = by_path["raw"].as_json()
    assert (raw["diff"], raw["before"]["mode"], raw["after"]["mode"], raw["after"]["size_bytes"]) == (None, 0o644, 0o600, 2)
    assert by_path["link"].as_json()["after"]["content"] == "note"


async def test_a_file_of_the_start_is_compared_with_what_it_was(ground: Ground, played: Path) -> None:
    found = await between(ground, played, 2, 3)
    (file,) = found.files
    assert (file.path, file.change) == ("/workspace/requests.txt", "changed")
    assert [line for line in file.text() or () if line[0] in "+-"][2:] == ["+more"]


async def test_rows_clock_streams_and_memory_from_start_to_end(ground: Ground, played: Path) -> None:
    found = json.loads(json.dumps((await between(ground, played, 0, None)).as_json()))
    (loan,) = found["rows"]
    assert (loan["table"], loan["change"], loan["columns"]["member_id"]) == ("loans", "added", {"before": None, "after": 3})
    assert found["clock_ms"]["after"] > found["clock_ms"]["before"]
    assert "latency/shell" in {part["path"] for part in found["streams"]}
    assert {"path": "call_counts.shell", "after": 3} in found["memory"]
    assert {"path": "steps", "before": 0, "after": 5} in found["spent"]


async def test_the_other_way_round_is_the_reverse(ground: Ground, played: Path) -> None:
    there, back = await between(ground, played, 0, 4), await between(ground, played, 4, 0)
    assert [(row.key, row.before, row.after) for row in there.rows] == [(row.key, row.after, row.before) for row in back.rows]
    assert [(file.before, file.after) for file in there.files] == [(file.after, file.before) for file in back.files]
    assert not there.same


async def test_one_moment_is_the_same_as_itself(ground: Ground, played: Path) -> None:
    assert (await between(ground, played, None, None)).same


async def test_ends_of_two_episodes_are_compared(ground: Ground, played: Path) -> None:
    found = await between(ground, played, None, None, other="1")
    assert found.before.startswith("test-00000 step 5 of 5 (end)")
    assert found.after.startswith("test-00001 step 5 of 5 (end)")
    assert not {"/workspace/note", "/workspace/copied"} & {file.path for file in found.files}, "both made these alike"


async def test_what_is_not_reproduced_is_no_moment(ground: Ground, played: Path) -> None:
    text = (played / FILE).read_text()
    (played / FILE).write_text(text.replace("mkdir sub", "mkdir other"))
    with pytest.raises(NotReproduced, match="step 2"):
        await between(ground, played, 1, 3)


@pytest.mark.parametrize("step", [-1, 6])
async def test_a_step_that_there_is_not_is_refused(ground: Ground, played: Path, step: int) -> None:
    with pytest.raises(UsageProblem, match=r"--from: test-00000 has 5 steps; give 0 \(its start\) to 5"):
        await between(ground, played, step, None)
