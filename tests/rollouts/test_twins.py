"""Fault-free twins: the same streams, a log of their own, and what the faults cost."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from wardian.cli import build_app
from wardian.envs.action import Message, Observation, call
from wardian.rollouts.ground import Ground
from wardian.rollouts.policies.base import Scripted, TaskView
from wardian.rollouts.records import EpisodeEnd
from wardian.rollouts.trajectory import FILE
from wardian.rollouts.twins import FOLDER, Twins, keep, twin_line


def lines(folder: Path, record: str) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, (folder / FILE).read_text().splitlines()) if line["record"] == record]


def blind(first: Observation, view: TaskView) -> Any:
    """Calls that do not depend on what they gave."""
    for item in (101, 102, 201, 202, 301):
        yield call("list_items", kind="drill")
        yield call("lend_item", item_id=item, member_id=1, days=3)
        yield call("show_item", item_id=item)
        yield call("wait", seconds=7)
        yield call("return_item", item_id=item)
    yield Message("Done.")


async def test_equal_actions_meet_equal_streams_with_and_without_faults(ground: Ground, player: Any, tmp_path: Path) -> None:
    sides = {}
    for faults in ("harsh", "none"):
        await player.play(tmp_path / faults, Scripted("blind", "1", blind), episodes=3, faults=faults)
        steps = lines(tmp_path / faults, "step")
        sides[faults] = {(step["episode_id"], step["step"]): step["fingerprint"]["leaves"]["streams"] for step in steps}
        landed = [event["fault"] for step in steps for event in step["events"] if event["fault"]]
        assert bool(landed) == (faults == "harsh")
    assert sides["harsh"] == sides["none"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(build_app(), ["run", "toy", "--cells", "2", "--no-progress", *arguments])


def test_a_run_with_twins_keeps_both_logs_and_compares_them(tmp_path: Path) -> None:
    ran = run("--policy", "expert,vandal", "--episodes", "6", "--faults", "harsh", "--twin", "--json", "--out", str(tmp_path / "log"))
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout.splitlines()[-1])["twin"]
    ends, twins = (
        {end["episode_id"]: end for end in lines(folder, "episode_end")} for folder in (tmp_path / "log", tmp_path / "log" / FOLDER)
    )
    assert (len(ends), sorted(ends)) == (6, sorted(twins))
    assert found["pairs"] == 6
    assert found["success_rate"] == round(sum(end["succeeded"] for end in ends.values()) / 6, 4)
    assert found["success_rate_without_faults"] == round(sum(end["succeeded"] for end in twins.values()) / 6, 4)
    kept = json.loads((tmp_path / "log" / "summary.json").read_text())
    assert kept["twin"] == found
    played_s = [sum(end["wall_ms"] for end in side.values()) / 1000 / 2 for side in (ends, twins)]
    assert found["wall_s"] > played_s[1], "two cells play them"
    assert kept["wall_s"] > sum(played_s)
    assert {start["faults"]["name"] for start in lines(tmp_path / "log" / FOLDER, "episode_start")} == {"none"}


def test_twins_start_alike_and_both_logs_are_valid(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('extends = "mild"\n')
    assert run("--policy", "idle", "--episodes", "4", "--faults", str(mine), "--twin", "--out", str(tmp_path / "log")).exit_code == 0
    both = [
        {(start["episode_id"], start["task_id"], start["seed"], start["fingerprint"]["root"]) for start in lines(folder, "episode_start")}
        for folder in (tmp_path / "log", tmp_path / "log" / FOLDER)
    ]
    assert both[0] == both[1]
    validated = [CliRunner().invoke(build_app(), ["validate", str(folder)]) for folder in (tmp_path / "log", tmp_path / "log" / FOLDER)]
    assert [(answered.exit_code, answered.stdout.partition(":")[0]) for answered in validated] == [(0, "valid")] * 2


def test_twins_of_a_run_without_faults_are_refused() -> None:
    ended = run("--twin")
    assert (ended.exit_code, "twin: the profile none has no faults" in ended.stderr.replace("\n", "")) == (2, True)


def end_of(name: str, succeeded: bool, mask: int = 1, retried: bool = False) -> EpisodeEnd:
    wanted = {"episode_id": name, "task_id": "lending-desk/easy/seed-1", "succeeded": succeeded, "mask": mask, "retried": retried}
    return EpisodeEnd.model_construct(**wanted)  # type: ignore[arg-type]


def test_pairs_are_compared_among_those_of_which_both_were_judged() -> None:
    twins = Twins()
    for name, faulted, free in (("a", False, True), ("b", True, True), ("c", True, False), ("d", False, True), ("e", False, True)):
        keep(twins.faulted, end_of(name, faulted, mask=0 if name == "e" else 1))
        keep(twins.free, end_of(name, free))
    keep(twins.free, end_of("a", False, retried=True))
    found = twins.summary()
    assert (found["pairs"], found["not_judged"], found["success_rate"], found["success_rate_without_faults"]) == (4, 1, 0.5, 0.75)
    assert (found["difference"], found["lost_by_faults"], found["won_by_faults"]) == (0.25, 2, 1)
    assert found["by_family"]["lending-desk"]["pairs"] == 4
    assert twin_line(found) == "twins without faults: 75% succeeded, 50% with faults, in 4 pairs; lost by faults: 2, won: 1"
    assert replace(Twins()).summary()["difference"] is None
