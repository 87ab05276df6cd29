"""`wardian qa`: a sound world passes, and each broken one fails its own check and no other."""

import json
import re
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from wardian.cli import build_app
from wardian.envs.definition import WorldDefinition
from wardian.envs.expected import Expected
from wardian.envs.registry import load_world
from wardian.envs.task import Difficulty, Task, TaskId
from wardian.rollouts.qa import determinism
from wardian.rollouts.qa.again import run_again
from wardian.rollouts.qa.baselines import scripted
from wardian.rollouts.qa.courses import Course
from wardian.rollouts.qa.determinism import replayed
from wardian.rollouts.qa.examining import CHECKS, examine, open_lab
from wardian.rollouts.qa.heldout import kept_out
from wardian.rollouts.qa.lab import Asked, Lab
from wardian.rollouts.qa.outcome import Outcome, Report, Result, Verdict
from wardian.rollouts.qa.page import page
from wardian.rollouts.qa.speed import measured
from wardian.rollouts.qa.truncation import accounted, told_apart
from wardian.rollouts.trajectory import FILE
from wardian.tools.faults import NONE

pytestmark = pytest.mark.anyio
HERE = Path(__file__).parent
SOUND = "qa_worlds:sound"
ALONE = [check.name for check in CHECKS if check.name not in ("replay", "speed")]
"""The broken world of a check has its name. That of `replay` needs another process, that of `speed` is a bound that nothing keeps."""


@pytest.fixture(scope="module", autouse=True)
def worlds_here() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE))
        yield


@pytest.fixture(scope="module")
async def sound(anyio_backend: str, worlds_here: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    async with open_lab(load_world(SOUND), SOUND, NONE, Asked(cells=1), tmp_path_factory.mktemp("sound")) as lab:
        yield lab


@pytest.fixture
def in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    async def here(order: dict[str, Any]) -> list[dict[str, Any]]:
        return await run_again(order)

    monkeypatch.setattr(determinism, "elsewhere", here)


async def report_of(name: str, out: Path, **asked: Any) -> Report:
    world = load_world(f"qa_worlds:{name}")
    async with open_lab(world, f"qa_worlds:{name}", NONE, Asked(cells=1, **asked), out) as lab:
        return await examine(lab)


def failed(report: Report) -> dict[str, list[str]]:
    return {one.name: list(one.outcome.findings) for one in report.results if one.outcome.verdict is Verdict.FAILED}


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.usefixtures("in_one_process")
async def test_a_broken_world_fails_its_own_check_alone(name: str, tmp_path: Path) -> None:
    seeds = 2 if name == "baselines" else 1
    assert set(found := failed(await report_of(name, tmp_path, seeds=seeds))) == {name}, found


async def test_an_answer_that_hangs_on_the_hash_seed_shows_in_another_process(tmp_path: Path) -> None:
    found = failed(await report_of("replay", tmp_path, seeds=1))
    assert set(found) == {"replay"}
    assert "observation" in found["replay"][0]


@pytest.mark.parametrize(
    ("asked", "verdict"),
    [({}, Verdict.MEASURED), ({"max_reset_ms": 0.0}, Verdict.FAILED), ({"max_reset_ms": 1e9, "min_episodes_per_s": 0.0}, Verdict.PASSED)],
)
async def test_speed_is_measured_and_judged_only_by_a_bound(sound: Lab, asked: dict[str, float], verdict: Verdict) -> None:
    found = await measured(replace(sound, asked=Asked(cells=1, **asked)))  # type: ignore[arg-type]
    assert (found.verdict, found.figures["episodes"]) == (verdict, len(sound.own))


@pytest.mark.usefixtures("in_one_process")
async def test_a_check_that_breaks_has_failed_and_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def breaks(order: dict[str, Any]) -> list[dict[str, Any]]:
        raise RuntimeError("no such process")

    monkeypatch.setattr(determinism, "elsewhere", breaks)
    assert failed(await report_of("sound", tmp_path)) == {"replay": ["the check could not be carried out: RuntimeError: no such process"]}


def test_the_command_gives_an_object_and_a_page_that_fetches_nothing(wardian: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE)
    kept = ("--html", tmp_path / "qa.html", "--out", tmp_path / "out")
    ran = wardian("qa", SOUND, "--cells", "1", "--seeds", "1", "--faults", "none", "--json", "--min-episodes-per-s", "1e9", *kept)
    found = json.loads(ran.stdout)
    assert (ran.returncode, found["failed"], found["world"]) == (1, ["speed"], "shelf@1"), ran.stderr
    assert json.loads((tmp_path / "out" / "qa.json").read_text()) == found
    html = (tmp_path / "qa.html").read_text()
    assert html.count("<svg") == 6
    assert not re.search(r"""<script|<img|<link|@import|(src|href)=(?!["']?#)|url\((?!#)""", html)
    other = CliRunner().invoke(build_app(), ["qa", "toy", "--trajectories", str(tmp_path / "out")])
    assert (other.exit_code, "holds episodes of the world shelf; give a folder of toy" in " ".join(other.stderr.split())) == (2, True)


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--html", ".", "html: . is a folder; name a file"),
        ("--trajectories", "nowhere", "nowhere: is not there"),
        ("--out", "used", "out: used holds episodes already; name a new folder"),
        ("--faults", "cruel", "faults: no profile 'cruel'"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is(
    option: str, value: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / FILE).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    ran = CliRunner().invoke(build_app(), ["qa", SOUND, option, value])
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert says in ran.stderr


def test_what_a_world_or_an_agent_says_is_escaped(sound: Lab) -> None:
    outcome = Outcome(["<i>seen</i>"], ["<script>alert(1)</script>"], {"<b>": "</pre><script>"}, unjudged="<u>")
    text = page(Report("shelf@<b>1</b>", [Result("x", "<q>", outcome, 0.1)], 0.1), sound)
    assert not re.search("<(i|b|u|q|script)>", text)
    assert "shelf@&lt;b&gt;1&lt;/b&gt;" in text


@pytest.mark.usefixtures("in_one_process")
async def test_a_log_that_is_given_is_audited(tmp_path: Path) -> None:
    """A policy that succeeds nowhere, in one family of two, under a version that is not the one here."""
    world = load_world("qa_worlds:pair")
    old = replace(world, version="0", families=world.families[:1])
    async with open_lab(old, "qa_worlds:pair", NONE, Asked(cells=1), tmp_path / "old") as lab:
        assert lab.own
    lines = (tmp_path / "old" / FILE).read_text().splitlines()
    idle = [line for line in lines if '"record": "run"' in line or '"policy": "idle"' in line]
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / FILE).write_text("\n".join(idle) + "\n")
    found = failed(await report_of("pair", tmp_path / "new", trajectories=tmp_path / "given"))
    assert set(found) == {"distribution", "schema"}
    assert [text.partition(";")[0] for text in found["distribution"]] == [
        "other-shelf: no episode of this family",
        "shelf: 100% of all episodes",
        "the policy succeeds nowhere: there is nothing to learn from",
    ]
    assert "made by shelf@0, and the world here is shelf@1" in found["schema"][0]


def course(**changes: Any) -> Course:
    task = TaskId("shelf", Difficulty.EASY, 1)
    return replace(Course("run-00001", task, "mine", "train", "terminated", "message", True, True, 1.0, 5, 0), **changes)


@pytest.mark.parametrize(
    ("given", "check", "says"),
    [
        (course(end_cause="steps"), told_apart, "terminated by steps, which is a budget"),
        (course(outcome="truncated"), accounted, "truncated by message, which is no budget"),
        (course(outcome="truncated", end_cause="tokens", judged=False), accounted, "truncated and masked"),
    ],
)
async def test_a_logged_end_that_is_taken_for_another_is_found(sound: Lab, given: Course, check: Any, says: str) -> None:
    findings = (await check(replace(sound, audited=[given]))).findings
    assert [says in text for text in findings] == [True]


async def test_a_guard_that_is_gone_is_found_on_every_way_into_training(sound: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def any_task(world: WorldDefinition, task_id: TaskId) -> Task:
        return world.family(task_id.family).generate(task_id.difficulty, task_id.seed)

    monkeypatch.setattr("wardian.envs.known.must_be", lambda wanted, task_id, split: None)
    monkeypatch.setattr("wardian.rollouts.curriculum.pool.trainable", any_task)
    monkeypatch.setattr("wardian.rollouts.export.selection.Selection._split_of", lambda self, attempt: "train")
    found = (await kept_out(sound)).findings
    ways = (
        "reset gives",
        "restore gives",
        "pool gives",
        "pool of hard negatives takes",
        "export of the split train",
        "an export gives a log",
    )
    assert [way for way in ways if not any(way in text for text in found)] == [], found


async def test_without_an_episode_that_counts_nothing_is_replayed_and_nothing_passed(sound: Lab) -> None:
    assert (await replayed(replace(sound, own=[]))).verdict is Verdict.NOT_JUDGED
    assert set((await scripted(replace(sound, own=[]))).findings) >= {"shelf: no episode of expert was judged"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"expert": (0.5, 1.0)}, "reason: say why expert"),
        ({"idle": (0.5, 0.1), "reason": "x"}, "idle: two shares from 0 to 1"),
    ],
)
def test_an_expectation_needs_a_reason_and_an_order(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Expected(**changes)
