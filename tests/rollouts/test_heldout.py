"""No path gives a held-out task to training: each public one is tried, and each refuses."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from wardian.envs.errors import HeldOut, TaskError
from wardian.envs.registry import load_world, open_environment
from wardian.envs.settings import MalformedPolicy, Settings
from wardian.envs.splits import Split
from wardian.envs.task import Difficulty, TaskId
from wardian.envs.worlds.toy.families.requests import LendingDesk
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.export import load_dataset
from wardian.rollouts.export.chat_file import export_chats
from wardian.rollouts.export.dataset import load_rows
from wardian.rollouts.export.errors import SplitForbidden
from wardian.rollouts.export.parquet import export_parquet
from wardian.rollouts.export.selection import Selection
from wardian.rollouts.ground import Ground
from wardian.rollouts.plan import plan
from wardian.rollouts.policies.registry import load_policies
from wardian.rollouts.recording import Setting, log_at, versions_of
from wardian.rollouts.replay import Replay, select
from wardian.rollouts.resume import stopped_run
from wardian.rollouts.runner import EpisodePool
from wardian.rollouts.sampling import groups_of, pairs_of, training_batches
from wardian.rollouts.trajectory import FILE, TrajectoryLog
from wardian.tools.faults import NONE

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def held_out(ground: Ground) -> TaskId:
    family = ground.world.families[0]
    return next(TaskId(family.name, Difficulty.EASY, seed) for seed in range(50) if family.split_at(Difficulty.EASY, seed) == Split.HELDOUT)


async def played(ground: Ground, task_id: TaskId, out: Path, split: str | None) -> None:
    """Play one episode of a task, written by hand into a plan."""
    policies = load_policies("expert", ground.world, "toy")
    planned = replace(plan(ground.world, policies, run="r", episodes=1, seed=0)[0], task_id=task_id)
    versions = versions_of(ground)
    setting = Setting(ground.world, "toy", versions, NONE, "recover", 16, split=split)
    with log_at(out / FILE, setting, "r", {}) as writer:
        await EpisodePool(ground, setting, writer).run([planned], workers=1)


@pytest.fixture(scope="module")
async def evaluated(ground: Ground, held_out: TaskId, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a held-out episode, which evaluation may play."""
    out = tmp_path_factory.mktemp("evaluated")
    await played(ground, held_out, out, None)
    return out


def test_no_draw_for_training_gives_one(ground: Ground) -> None:
    world, policies = ground.world, load_policies("expert", ground.world, "toy")
    drawn = [planned.task_id for planned in plan(world, policies, run="r", episodes=200, seed=1)]
    drawn += [group.task_id for group in islice(groups_of(world, seed=2, size=1), 200)]
    drawn += [group.task_id for batch in islice(training_batches(world, seed=3, groups=20, size=2), 10) for group in batch]
    assert {world.family(one.family).generate(one.difficulty, one.seed).split for one in drawn} == {"train"}


async def test_a_pool_that_trains_raises_and_writes_no_line_of_it(ground: Ground, held_out: TaskId, tmp_path: Path) -> None:
    with pytest.raises(HeldOut, match=f"{held_out}: its task is of the split 'heldout', and only 'train' may be played here"):
        await played(ground, held_out, tmp_path, Split.TRAIN)
    assert [json.loads(line)["record"] for line in (tmp_path / FILE).read_text().splitlines()] == ["run"]


async def test_an_environment_for_training_raises_and_goes_on(ground: Ground, held_out: TaskId) -> None:
    async with ground.environment(NONE, MalformedPolicy.RECOVER, Settings(split=Split.TRAIN)) as env:
        with pytest.raises(HeldOut):
            await env.reset(str(held_out))
        train = next(seed for seed in range(50) if ground.world.families[0].split_at(Difficulty.EASY, seed) == Split.TRAIN)
        assert (await env.reset(str(replace(held_out, seed=train)))).tokens > 0


async def test_open_environment_takes_a_split_and_no_other_word(ground: Ground, held_out: TaskId) -> None:
    async with open_environment(ground.world, split="train") as env:
        with pytest.raises(HeldOut):
            await env.reset(str(held_out))
    with pytest.raises(TaskError, match="split: no 'training'; there are train, eval, heldout"):
        async with open_environment(ground.world, split="training"):
            pass


async def test_a_snapshot_of_a_held_out_episode_is_no_way_around(ground: Ground, held_out: TaskId) -> None:
    async with (
        ground.environment(NONE, MalformedPolicy.RECOVER, Settings()) as measured,
        ground.environment(NONE, MalformedPolicy.RECOVER, Settings(split=Split.TRAIN)) as trains,
    ):
        await measured.reset(str(held_out))
        with pytest.raises(HeldOut):
            await trains.restore(await measured.snapshot())


def test_a_gymnasium_environment_plays_the_training_split_alone(held_out: TaskId) -> None:
    gymnasium_world = pytest.importorskip("wardian.trainers.gymnasium.world")
    env = gymnasium_world.ToolWorldEnv("toy")
    env.reset(seed=1)
    drawn = {env.reset()[1]["task_id"] for _ in range(6)}
    with pytest.raises(HeldOut):
        env.reset(options={"task_id": str(held_out)})
    env.close()
    toy = load_world("toy")
    assert {toy.family(one.family).split_at(one.difficulty, one.seed) for one in map(TaskId.parse, drawn)} == {"train"}


Export = Callable[[Path, Path], Any]
EXPORTS: dict[str, Export] = {
    "chats": lambda where, out: export_chats(Selection.open(where), out),
    "parquet": lambda where, out: export_parquet(Selection.open(where), out),
    "rows": lambda where, out: load_rows(where),
    "data set": lambda where, out: load_dataset(where),
}


@pytest.mark.parametrize("way", EXPORTS)
def test_no_export_gives_one(evaluated: Path, tmp_path: Path, way: str) -> None:
    with pytest.raises(SplitForbidden, match="'heldout', which is never exported for training"):
        EXPORTS[way](evaluated, tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("way", EXPORTS)
def test_a_log_that_says_train_of_a_held_out_task_is_not_believed(evaluated: Path, tmp_path: Path, way: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / FILE).write_text((evaluated / FILE).read_text().replace('"split": "heldout"', '"split": "train"'))
    with pytest.raises(SplitForbidden, match="'heldout'"):
        EXPORTS[way](tmp_path / "in", tmp_path / "out")


async def test_a_replay_is_no_training_and_writes_nothing(ground: Ground, evaluated: Path) -> None:
    before = sorted(os.listdir(evaluated))
    log = TrajectoryLog.open(evaluated)
    assert [one.identical for one in await Replay(log, ground).run(select(log).episodes, workers=1)] == [True]
    assert sorted(os.listdir(evaluated)) == before


def splits_in(where: Path) -> set[str]:
    log = TrajectoryLog.open(where)
    return {attempt.end.split for name in log.episodes for attempt in log.attempts(name) if attempt.end}


def test_a_run_says_its_purpose_and_another_cannot_go_on_with_it(wardian: Any, tmp_path: Path) -> None:
    where = tmp_path / "a"
    run = ("run", "toy", "--episodes", "2", "--cells", "1", "--split", "heldout", "--faults", "mild", "--twin", "--out", where, "--json")
    done = wardian(*run)
    assert (done.returncode, json.loads(done.stdout)["split"]) == (0, "heldout")
    for log in (where, where / "twin"):
        assert splits_in(log) == {"heldout"}
        with pytest.raises(SplitForbidden):
            load_rows(log)
    with pytest.raises(UsageProblem, match=r"split: .* begun with 'heldout', so it cannot go on with 'train'"):
        stopped_run(where, {"split": "train", "episodes": 2})


class OnlyMeasured(LendingDesk):
    evaluation_only = True


def test_a_family_for_evaluation_only_gives_training_nothing(ground: Ground) -> None:
    world = replace(ground.world, families=(OnlyMeasured(),))
    assert {group.task_id.family for group in islice(groups_of(world, seed=0, size=1, split=Split.HELDOUT), 9)} == {"lending-desk"}
    with pytest.raises(UsageProblem, match="has no task of the split 'train'"):
        pairs_of(world, Split.TRAIN)
