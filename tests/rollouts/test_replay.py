"""A replay reproduces what was recorded, names the first difference, and applies outcomes that were the machine's."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wardian.envs.action import Message, Observation, call
from wardian.envs.tokens import Tokenizer
from wardian.rollouts.compare import differences
from wardian.rollouts.errors import LogForeign
from wardian.rollouts.ground import Ground
from wardian.rollouts.policies.base import Scripted, TaskView
from wardian.rollouts.replay import Replay, select
from wardian.rollouts.rerun import Replayed
from wardian.rollouts.trajectory import FILE, TrajectoryLog
from wardian.tools.faults import FaultProfile

pytestmark = pytest.mark.anyio


async def replay(ground: Ground, out: Path, **options: Any) -> list[Replayed]:
    """By episode id: a log is in the order in which episodes ended."""
    log = TrajectoryLog.open(out)
    replayed = await Replay(log, ground, **options).run(select(log).episodes, workers=2)
    return sorted(replayed, key=lambda one: one.episode_id)


def edit(out: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change each step line of the log."""
    lines = [json.loads(line) for line in (out / FILE).read_text().splitlines()]
    for line in lines:
        if line["record"] == "step":
            change(line)
    (out / FILE).write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def words() -> Tokenizer:
    return Tokenizer("words", "1", lambda text: len(text.split()))


def shell_script(*commands: str, timeout_s: int = 1) -> Scripted:
    def script(first: Observation, view: TaskView) -> Any:
        for command in commands:
            yield call("shell", command=command, timeout_s=timeout_s)
        yield Message("")

    return Scripted("shell", "1", script)


async def test_vandals_and_experts_are_reproduced(ground: Ground, player: Any, tmp_path: Path) -> None:
    await player.play(tmp_path, "vandal,expert", episodes=12, faults="realistic")
    assert [str(replayed) for replayed in await replay(ground, tmp_path) if not replayed.identical] == []


async def test_a_profile_from_a_file_is_recorded_whole_and_replays_without_it(ground: Ground, player: Any, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('extends = "realistic"\n[tools.lend_item]\nconflict = 0.5\n')
    await player.play(tmp_path, "expert", episodes=6, faults=str(mine))
    mine.unlink()
    assert [str(replayed) for replayed in await replay(ground, tmp_path) if not replayed.identical] == []
    starts = [line for line in map(json.loads, (tmp_path / FILE).read_text().splitlines()) if line["record"] == "episode_start"]
    recorded = {line["faults_hash"] for line in starts}
    assert recorded == {FaultProfile.model_validate(starts[0]["faults"]).hash}
    assert starts[0]["faults"]["tools"] == {"lend_item": {"conflict": 0.5}}


async def test_a_changed_argument_is_named(ground: Ground, player: Any, tmp_path: Path) -> None:
    await player.play(tmp_path, Scripted("reads", "1", reads), episodes=2)

    def tamper(line: dict[str, Any]) -> None:
        if line["episode_id"] == "test-00001" and line["step"] == 1:
            line["action"]["args"] = {"path": "/workspace/other.txt"}

    edit(tmp_path, tamper)
    one, other = await replay(ground, tmp_path)
    assert one.identical
    assert (other.step, other.difference and other.difference.component) == (1, "events[0].args.path")
    assert str(other).startswith("episode test-00001 step 1: events[0].args.path: expected '/workspace/requests.txt'")


def reads(first: Observation, view: TaskView) -> Any:
    """One look at a file."""
    yield call("read_file", path="/workspace/requests.txt")


@pytest.mark.parametrize(
    ("field", "value", "component"),
    [
        (("reward_components", "task"), 9.0, "reward_components.task"),
        (("observation", "rendered"), "?", "observation.rendered"),
        (("fingerprint", "leaves", "clock"), "1", "fingerprint.clock"),
        (("clock_ms",), 1, "clock_ms"),
        (("tool_result", "latency_ms"), 1, "tool_result.latency_ms"),
    ],
)
async def test_each_component_is_compared(
    ground: Ground, player: Any, tmp_path: Path, field: tuple[str, ...], value: Any, component: str
) -> None:
    await player.play(tmp_path, "idle", episodes=1)

    def tamper(line: dict[str, Any]) -> None:
        for name in field[:-1]:
            line = line[name]
        line[field[-1]] = value

    edit(tmp_path, tamper)
    (replayed,) = await replay(ground, tmp_path)
    assert (replayed.difference and replayed.difference.component) == component


async def test_a_recorded_timeout_is_applied_where_none_happens(ground: Ground, player: Any, tmp_path: Path) -> None:
    """The log says that the first command timed out; the one that stands in it now ends at once."""
    await player.play(tmp_path, shell_script("sleep 30", "echo on"), episodes=1)

    def now_fast(line: dict[str, Any]) -> None:
        if line["step"] == 1:
            line["action"]["args"]["command"] = line["events"][0]["args"]["command"] = "true"

    edit(tmp_path, now_fast)
    (replayed,) = await replay(ground, tmp_path)
    assert (str(replayed.difference), replayed.inexact) == ("None", 1)


async def test_a_timeout_that_happens_again_is_the_same(ground: Ground, player: Any, tmp_path: Path) -> None:
    await player.play(tmp_path, shell_script("echo begun > log; sleep 30", "cat log"), episodes=1)
    (replayed,) = await replay(ground, tmp_path)
    assert (replayed.identical, replayed.inexact) == (True, 1)


async def test_out_of_memory_is_marked_and_reproduced(ground: Ground, player: Any, tmp_path: Path) -> None:
    hog = "exec python3 -c 'x = b\"x\" * (2 << 30)'"
    await player.play(tmp_path, shell_script(hog, "echo still here", timeout_s=20), episodes=1)
    (replayed,) = await replay(ground, tmp_path)
    assert (str(replayed.difference), replayed.inexact) == ("None", 1)


async def test_the_agents_uid_is_met_again(ground: Ground, player: Any, tmp_path: Path) -> None:
    await player.play(tmp_path, shell_script("id -u; ls -ln /workspace | head -3"), episodes=6)
    assert all(replayed.identical for replayed in await replay(ground, tmp_path))


async def test_a_log_of_other_versions_is_refused_unless_forced(ground: Ground, player: Any, tmp_path: Path) -> None:
    await player.play(tmp_path, "idle", episodes=1)
    text = (tmp_path / FILE).read_text()
    here = f"toy-shell@{ground.world.version}"
    (tmp_path / FILE).write_text(text.replace(f'"env": "{here}"', '"env": "toy-shell@0"'))
    with pytest.raises(LogForeign, match=f"env: recorded toy-shell@0, here {here}; --force runs"):
        await replay(ground, tmp_path)
    assert [replayed.identical for replayed in await replay(ground, tmp_path, force=True)] == [True]


async def test_a_log_is_counted_again_by_its_own_tokenizer_or_refused(ground: Ground, player: Any, tmp_path: Path) -> None:
    await player.play(tmp_path, "idle", episodes=1, tokenizer=f"{__name__}:words")
    assert [replayed.identical for replayed in await replay(ground, tmp_path)] == [True]
    text = (tmp_path / FILE).read_text()
    (tmp_path / FILE).write_text(text.replace(f'"{__name__}:words"', '"gone:words"'))
    with pytest.raises(LogForeign, match=r"tokenizer: recorded words@1, here estimate@1 .*'gone:words' cannot be loaded"):
        await replay(ground, tmp_path)
    (forced,) = await replay(ground, tmp_path, force=True)
    assert (forced.difference and forced.difference.component) == "observation.tokens"


async def test_a_replay_stops_after_the_step_that_was_named(ground: Ground, player: Any, tmp_path: Path) -> None:
    await player.play(tmp_path, "expert", episodes=1)
    (replayed,) = await replay(ground, tmp_path, to_step=3)
    assert (replayed.identical, replayed.steps) == (True, 3)


async def test_unfinished_episodes_are_left_out_and_those_that_lack_lines_are_never_identical(player: Any, tmp_path: Path) -> None:
    await player.play(tmp_path, "expert", episodes=4)
    lines = (tmp_path / FILE).read_text().splitlines(keepends=True)

    def of(number: int, kind: str) -> list[str]:
        return [line for line in lines if f'-{number:05d}"' in line[:60] and f'"record": "{kind}"' in line]

    lost = [*of(0, "episode_end"), of(1, "step")[1], *of(2, "episode_start")]
    (tmp_path / FILE).write_text("".join(line for line in lines if line not in lost))
    chosen = select(TrajectoryLog.open(tmp_path))
    assert ([attempt.episode_id for attempt in chosen.episodes], dict(chosen.skipped)) == (["test-00003"], {"unfinished": 1})
    steps = len(of(1, "step"))
    assert [str(broken) for broken in sorted(chosen.broken, key=lambda one: one.episode_id)] == [
        f"episode test-00001: lines missing: of its {steps} steps the log lacks 2",
        "episode test-00002: its log has an end and no start: a line is missing",
    ]


@pytest.mark.parametrize(
    ("expected", "found", "named"),
    [
        ({"a": 1}, {"a": 2}, "x.a: expected 1, found 2"),
        ({"a": 1}, {}, "x.a: expected 1, found nothing"),
        ([1], [1, 2], "x[1]: expected nothing, found 2"),
        (True, 1, "x: expected True, found 1"),
        (None, {}, "x: expected None, found {}"),
    ],
)
def test_a_difference_names_path_and_both_values(expected: Any, found: Any, named: str) -> None:
    assert [str(one) for one in differences("x", expected, found)] == [named]
