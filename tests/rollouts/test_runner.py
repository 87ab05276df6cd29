"""Many episodes at once: what breaks in one ends that one only, and is retried exactly where it was ours."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio.to_thread
import docker
import pytest

from tests.rollouts.summing import adds_up
from wardian.envs.action import Action, Observation, call
from wardian.envs.definition import WorldDefinition
from wardian.envs.family import Family
from wardian.envs.task import Difficulty, Task
from wardian.envs.verifier import FinalState, Verdict
from wardian.rollouts.errors import LogBroken, UsageProblem
from wardian.rollouts.ground import Ground
from wardian.rollouts.plan import plan
from wardian.rollouts.policies.base import Policy, Scripted, TaskView
from wardian.rollouts.policies.registry import load_policies
from wardian.rollouts.recording import Setting, versions_of
from wardian.rollouts.runner import EpisodePool
from wardian.rollouts.summary import summary
from wardian.rollouts.trajectory import TrajectoryLog, TrajectoryWriter, validate
from wardian.sandbox.labels import KIND, RUN, run_id
from wardian.tools.faults import NONE


@dataclass
class Saboteur:
    """An expert that does something to its first episodes before its second action."""

    deed: Callable[[], None]
    times: int = 1
    name: str = "saboteur"
    checkpoint: str = "1"
    done: int = field(default=0)

    def begin(self, first: Observation, view: TaskView) -> "SabotagedEpisode":
        return SabotagedEpisode(self)


@dataclass
class SabotagedEpisode:
    saboteur: Saboteur
    acted: int = 0

    async def act(self, observation: Observation) -> Action:
        self.acted += 1
        if self.acted == 2 and self.saboteur.done < self.saboteur.times:
            self.saboteur.done += 1
            await anyio.to_thread.run_sync(self.saboteur.deed)
        return call("list_items") if self.acted < 4 else call("write_file", path="x", content="y")


def kill_all_cells() -> None:
    client = docker.from_env()
    # Of this process and of that kind: it has a database server too, which other tests use.
    for row in client.api.containers(filters={"label": [f"{RUN}={run_id()}", f"{KIND}=cell"]}):
        client.api.kill(row["Id"])
    client.close()


@pytest.mark.anyio
async def test_an_attempt_that_we_failed_is_made_again_with_the_same_seed(player: Any, tmp_path: Path) -> None:
    tally = await player.play(tmp_path, Saboteur(kill_all_cells), episodes=1)
    first, *_, second = TrajectoryLog.open(tmp_path).attempts("test-00000")
    assert tally.retried == tally.attempts_failed["infrastructure"] >= 1
    assert tally.whole.judged == 1
    adds_up(summary(tally, None, planned=1, tier=None, wall_s=1.0), tmp_path)
    assert first.end is not None
    assert second.start is not None
    assert second.end is not None
    assert (first.end.mask, first.end.retried, first.end.reward, second.end.mask) == (0, True, None, 1)
    assert (first.end.seed, first.end.task_id) == (second.start.seed, second.start.task_id)


@pytest.mark.anyio
async def test_an_episode_that_fails_every_time_is_masked_and_its_siblings_are_not(player: Any, tmp_path: Path) -> None:
    def raises() -> None:
        raise RuntimeError("no more tokens")

    tally = await player.play(tmp_path, Saboteur(raises), episodes=8)
    assert (tally.whole.episodes, tally.whole.judged, dict(tally.masked)) == (8, 7, {"policy_error": 1})
    adds_up(summary(tally, None, planned=8, tier=None, wall_s=1.0), tmp_path)
    ends = [TrajectoryLog.open(tmp_path).attempts(name)[-1].end for name in TrajectoryLog.open(tmp_path).episodes]
    assert sorted(end.mask for end in ends if end) == [0, 1, 1, 1, 1, 1, 1, 1]


class Judge(Family):
    """A family of another one's tasks, whose verifier breaks."""

    def __init__(self, inner: Family) -> None:
        self.inner, self.name = inner, inner.name

    def generate(self, difficulty: Difficulty, seed: int) -> Task:
        return self.inner.generate(difficulty, seed)

    def verify(self, state: FinalState) -> Verdict:
        raise ZeroDivisionError("a verifier's own fault")

    def reference(self, first: Observation) -> Any:
        return self.inner.reference(first)


@pytest.mark.anyio
async def test_a_broken_verifier_masks_and_is_counted_and_never_retried(ground: Ground, player: Any, tmp_path: Path) -> None:
    broken = replace(ground.world, families=tuple(Judge(family) for family in ground.world.families))
    tally = await replace(player, ground=replace(ground, world=broken)).play(tmp_path, "expert", episodes=2)
    assert (dict(tally.masked), tally.retried, tally.whole.judged) == ({"verifier": 2}, 0, 0)
    adds_up(summary(tally, None, planned=2, tier=None, wall_s=1.0), tmp_path)


@pytest.mark.anyio
async def test_vandals_and_experts_share_cells_without_a_leak(ground: Ground, player: Any, tmp_path: Path) -> None:
    tally = await player.play(tmp_path, "vandal,expert", episodes=24, faults="realistic")
    assert (tally.groups["policy"]["expert"].succeeded, tally.groups["policy"]["expert"].episodes) == (12, 12)
    assert (tally.starts_leaked, tally.whole.masked) == (0, 0)
    assert ground.cells is not None
    assert ground.cells.statistics().leaks == ()
    assert [found for _, findings in validate(tmp_path) for found in findings] == []


@pytest.mark.anyio
async def test_a_full_disk_ends_the_run_with_the_file_named(ground: Ground) -> None:
    world = ground.world
    setting = Setting(world, "toy", versions_of(ground), NONE, "recover", 16)
    episodes = plan(world, load_policies("expert", world, "toy"), run="r", episodes=4, seed=0)
    with TrajectoryWriter(Path("/dev/full")) as writer, pytest.raises(LogBroken, match="/dev/full: cannot be written: No space left"):
        await EpisodePool(ground, setting, writer).run(episodes, workers=2)


@pytest.mark.anyio
async def test_an_action_that_is_no_json_is_taken_and_logged_as_text(player: Any, tmp_path: Path) -> None:
    def odd(first: Observation, view: TaskView) -> Any:
        yield call("show_item", item_id=float("nan"))
        yield call("show_item", item_id=b"bytes")
        yield call("show_item", item_id=(1, 2))

    tally = await player.play(tmp_path, Scripted("odd", "1", odd), episodes=1)
    assert (tally.whole.masked, sum(tally.problems.values())) == (0, 3)
    steps = TrajectoryLog.open(tmp_path).attempts("test-00000")[0].steps
    assert [type(step.action.args) for step in steps[:3]] == [str, str, dict]


def test_a_plan_is_balanced_and_follows_from_its_seed(shell_world: WorldDefinition) -> None:
    policies: tuple[Policy, ...] = load_policies("expert,idle", shell_world, "toy")
    one, other = (plan(shell_world, policies, run=run, episodes=12, seed=5) for run in "ab")
    assert [(p.task_id, p.seed, p.policy_seed) for p in one] == [(p.task_id, p.seed, p.policy_seed) for p in other]
    assert len({p.task_id for p in one}) == 12
    pairs = [(p.task_id.difficulty.value, p.policy.name) for p in one]
    assert {pairs.count(pair) for pair in set(pairs)} == {2}


def test_a_longer_plan_begins_like_a_shorter_one(shell_world: WorldDefinition) -> None:
    policies = load_policies("idle", shell_world, "toy")
    short, long = (plan(shell_world, policies, run="r", episodes=count, seed=5) for count in (3, 9))
    assert long[:3] == short


def test_a_policy_that_there_is_not_is_answered_with_those_there_are(shell_world: WorldDefinition) -> None:
    with pytest.raises(UsageProblem, match="no 'wizard'; there are expert, idle, careless, vandal"):
        load_policies("wizard", shell_world, "toy")
