"""Hard negatives and variants: what gets into the pool, what may never, and that all of it can be played and replayed."""

from dataclasses import replace
from pathlib import Path

import pytest

from wardian.envs.action import Message, Observation, call
from wardian.envs.definition import WorldDefinition
from wardian.envs.errors import HeldOut, TaskError
from wardian.envs.family import Family, Solution
from wardian.envs.playing import play_on
from wardian.envs.registry import load_world
from wardian.envs.settings import MalformedPolicy, Settings
from wardian.envs.task import Difficulty, Task, TaskId
from wardian.envs.variants import Broke, suggestions, task_of, trainable
from wardian.rollouts.curriculum import fatal
from wardian.rollouts.curriculum.curriculum import Curriculum, Outcome, open_curriculum
from wardian.rollouts.curriculum.harvest import Harvest
from wardian.rollouts.curriculum.pool import Failure
from wardian.rollouts.curriculum.settings import CurriculumSettings, PoolSettings
from wardian.rollouts.ground import Ground
from wardian.rollouts.plan import Planned
from wardian.rollouts.policies.base import Scripted, TaskView
from wardian.rollouts.recording import Setting, log_at, versions_of
from wardian.rollouts.replay import Replay, select
from wardian.rollouts.runner import EpisodePool
from wardian.rollouts.trajectory import FILE, TrajectoryLog
from wardian.sandbox.errors import SnapshotRefused
from wardian.tools.faults import MILD, NONE

pytestmark = pytest.mark.anyio

HARD = TaskId("lending-desk", Difficulty.MEDIUM, 0)
POOLED = CurriculumSettings(pool=PoolSettings(share=0.5, most=3, age=10, solved=2), group=2, seed=5)


def hasty(first: Observation, view: TaskView) -> Solution:
    """Reads the requests, and lends what the first one asks for twice over."""
    yield call("read_file", path="/workspace/requests.txt")
    yield call("show_member", member_id=1)
    yield call("lend_item", item_id=603, member_id=3, days=2)
    yield call("lend_item", item_id=602, member_id=7, days=3)
    yield Message("Done.")


HASTY = Scripted("hasty", "hasty-1", hasty)


@pytest.fixture(scope="module")
def toy() -> WorldDefinition:
    return load_world("toy")


def setting(ground: Ground, faults: object = NONE) -> Setting:
    return Setting(ground.world, "toy", versions_of(ground), faults, "recover", 16)  # type: ignore[arg-type]


async def log_of(ground: Ground, out: Path, task_id: TaskId, policy: Scripted = HASTY, faults: object = NONE) -> TrajectoryLog:
    """The log of one episode."""
    with log_at(out / FILE, setting(ground, faults), "r", {}) as writer:
        await EpisodePool(ground, setting(ground, faults), writer).run([Planned("r-0", task_id, 11, policy, 0)], workers=1)
    return TrajectoryLog.open(out)


@pytest.fixture(scope="module")
async def log(ground: Ground, tmp_path_factory: pytest.TempPathFactory) -> TrajectoryLog:
    return await log_of(ground, tmp_path_factory.mktemp("failed"), HARD)


class HeldOutFamily(Family):
    """A family, all of whose tasks are held out."""

    def __init__(self, inner: Family) -> None:
        self.inner, self.name = inner, inner.name

    def generate(self, difficulty: Difficulty, seed: int) -> Task:
        return replace(self.inner.generate(difficulty, seed), split="heldout")

    verify = reference = None  # type: ignore[assignment]


def failure(toy: WorldDefinition, number: int, **changed: object) -> Failure:
    """A failure of one of the tasks for training."""
    tasks = (TaskId("lending-desk", Difficulty.EASY, seed) for seed in range(50))
    task_id = [one for one in tasks if toy.families[0].split_at(one.difficulty, one.seed) == "train"][number]
    made = Failure(task_id, task_of(toy, task_id).hash, 1, NONE, f"e-{number}", "p", "message")
    return replace(made, **changed)  # type: ignore[arg-type]


def begun(toy: WorldDefinition, where: Path) -> Curriculum:
    return open_curriculum(where / "c.db", toy, "toy", POOLED)


def play(curriculum: Curriculum, solved: bool) -> Failure | None:
    draw = curriculum.draw("", NONE.hash)
    curriculum.record(Outcome(draw.number, f"{draw.number}-{member}", solved, 1.0) for member in range(2))
    return draw.failure


async def test_a_failure_is_read_from_a_log_with_all_that_its_fault_plan_takes(ground: Ground, log: TrajectoryLog) -> None:
    (found,) = Harvest(log, ground.world)
    assert (found.failure.task_id, found.failure.seed, found.failure.faults, found.failure.policy) == (HARD, 11, NONE, "hasty")
    assert (found.failure.step, found.broke.tool, found.broke.call, found.broke.args["member_id"]) == (4, "lend_item", 1, 7)
    assert "lent" in found.broke.failed_checks


async def test_what_was_solved_is_no_failure(ground: Ground, tmp_path: Path) -> None:
    expert = Scripted("expert", "1", lambda first, view: ground.world.family(view.task_id.family).reference(first))
    assert not list(Harvest(await log_of(ground, tmp_path, HARD, expert), ground.world))


async def test_the_snapshot_is_of_the_last_moment_from_which_the_task_can_be_solved(
    ground: Ground, log: TrajectoryLog, tmp_path: Path
) -> None:
    (found,) = Harvest(log, ground.world)
    entry = await fatal.with_snapshot(ground, log, found, tmp_path)
    assert (entry.step, Path(entry.snapshot).name) == (3, "r-0-3")
    assert await fatal.with_snapshot(ground, log, found, tmp_path) == entry, "also where it stands there already"
    async with ground.environment(NONE, MalformedPolicy.RECOVER, Settings()) as env:
        seen = await fatal.begin(env, entry)
        assert env.reset_info.resumed_step == 2
        assert '"member_id": 1' in seen.rendered
        first = log.attempts("r-0")[-1].start
        assert first is not None
        verdict = (await play_on(env, Observation(first.observation.rendered, first.observation.tokens))).last.info.verdict
        assert verdict is not None
        assert verdict.succeeded
        with pytest.raises(SnapshotRefused, match="was asked for"):
            await fatal.begin(env, replace(entry, snapshot_key="other"))


async def test_variants_of_a_failure_are_tasks_of_their_own_that_the_reference_solves(ground: Ground, log: TrajectoryLog) -> None:
    (found,) = Harvest(log, ground.world)
    made = await fatal.variants(ground, found, 4)
    assert len({one.task_hash for one in made} | {found.failure.task_hash}) == 5
    assert {one.task_id.variation.partition(".")[0] for one in made} >= {"distractor", "shift_amount", "fault"}
    assert {one.parent for one in made} == {str(HARD)}


async def test_a_variant_replays(ground: Ground, tmp_path: Path) -> None:
    variant = replace(HARD, variation="fault.lend_item.0.timeout_after")
    log = await log_of(ground, tmp_path, variant, faults=MILD)
    (event,) = [one for step in log.attempts("r-0")[-1].steps for one in step.events if one.fault == "timeout_after"]
    assert (event.tool, event.committed) == ("lend_item", True)
    (replayed,) = await Replay(log, ground).run(select(log).episodes, workers=1)
    assert replayed.identical, replayed


@pytest.mark.parametrize("operator", ["move_trap", "distractor", "shift_amount"])
async def test_each_operator_keeps_tasks_solvable(ground: Ground, toy: WorldDefinition, operator: str) -> None:
    task = task_of(toy, TaskId("lending-desk", Difficulty.HARD, 2))
    tried = [one for one in suggestions(toy, task, Broke()) if one.variation.startswith(operator)]
    async with ground.environment(NONE, MalformedPolicy.RECOVER, Settings()) as env:
        solved = [one for one in tried if await fatal.solvable(env, one, 1)]
    assert solved
    assert all(task_of(toy, one).parameters["report"] != task.parameters["report"] or operator != "distractor" for one in solved)


def test_a_moved_trap_is_the_same_refusal_of_somebody_else(toy: WorldDefinition) -> None:
    base = TaskId("lending-desk", Difficulty.HARD, 2)
    report = task_of(toy, base).parameters["report"]
    place = next(number for number, line in enumerate(report) if line == "refused suspended")
    moved = task_of(toy, replace(base, variation=f"move_trap.{place}"))
    before, after = (one.parameters["requests"][place][0] for one in (task_of(toy, base), moved))
    assert {before, after} == {4, 9}
    assert moved.parameters["report"][place] == "refused suspended"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lending-desk/hard/seed-1+turn.1", "no operator 'turn' for lending-desk; there are move_trap, distractor, shift_amount, fault"),
        ("lending-desk/hard/seed-1+distractor.99", "takes the number of a request, from 0 to 6; got 99"),
        ("lending-desk/hard/seed-1+fault.no.0.stale", "is not of the form fault.TOOL.CALL.KIND"),
        ("lending-desk/hard/seed-1+fault.lend_item.0.empty", "the fault empty cannot happen to lend_item"),
        ("lending-desk/hard/seed-1+", "is not of the form family/easy"),
        ("lending-desk/hard/seed-1" + "+fault.lend_item.0.slow" * 5, "has 5 operators, and 4 are allowed"),
    ],
)
def test_ids_of_variants_that_cannot_be_are_refused(toy: WorldDefinition, text: str, words: str) -> None:
    with pytest.raises(TaskError, match=words):
        task_of(toy, TaskId.parse(text))


def test_a_variant_that_leaves_the_training_region_is_not_for_training(toy: WorldDefinition) -> None:
    levels = [TaskId("at-the-counter", Difficulty.EASY, seed) for seed in range(20)]
    base = next(one for one in levels if task_of(toy, one).split == "train")
    assert task_of(toy, replace(base, variation="shift_amount")).split == "eval"
    with pytest.raises(HeldOut, match="of the split 'eval', and only 'train' may be played here"):
        trainable(toy, replace(base, variation="shift_amount"))


def test_the_pool_is_bounded_and_the_oldest_go(toy: WorldDefinition, tmp_path: Path) -> None:
    curriculum = begun(toy, tmp_path)
    assert curriculum.add_failures(failure(toy, seed) for seed in (1, 2)) == (2, 0)
    play(curriculum, solved=False)
    assert curriculum.add_failures(failure(toy, seed) for seed in (1, 3, 4)) == (2, 0)
    assert {one.episode_id for one in curriculum.failures()} == {"e-1", "e-3", "e-4"}


def test_a_failure_that_gets_a_snapshot_stays_one_entry_and_is_drawn(toy: WorldDefinition, tmp_path: Path) -> None:
    curriculum = begun(toy, tmp_path)
    curriculum.add_failures([failure(toy, 1)])
    with_snapshot = failure(toy, 1, snapshot="/somewhere", snapshot_key="k", step=4)
    assert curriculum.add_failures([with_snapshot]) == (0, 0)
    assert curriculum.failures() == [with_snapshot]
    assert curriculum.draw("", NONE.hash, hard_only=True).failure == with_snapshot


def test_failures_age_and_leave_when_they_are_solved_again_and_again(toy: WorldDefinition, tmp_path: Path) -> None:
    curriculum = begun(toy, tmp_path)
    curriculum.add_failures([failure(toy, 1)])
    given = [play(curriculum, solved=True) for _ in range(6)]
    assert [one is not None for one in given] == [False, True, False, True, False, False]
    assert not curriculum.failures()
    curriculum.add_failures([failure(toy, 2, faults=MILD)])
    assert not any(play(curriculum, solved=True) for _ in range(12))
    assert not curriculum.failures()


def test_groups_of_the_pool_say_nothing_of_their_arm(toy: WorldDefinition, tmp_path: Path) -> None:
    curriculum = begun(toy, tmp_path)
    curriculum.add_failures([failure(toy, 1)])
    before = [play(curriculum, solved=True) for _ in range(1)]
    shares = curriculum.shares()
    assert before == [None]
    assert play(curriculum, solved=False) == failure(toy, 1)
    assert curriculum.shares() == shares
    report = curriculum.report()
    assert (report.hard.groups, report.whole.groups, report.pool) == (1, 1, 1)


def test_nothing_held_out_gets_into_the_pool_or_out_of_it(toy: WorldDefinition, tmp_path: Path) -> None:
    curriculum = begun(toy, tmp_path)
    held = replace(toy, families=tuple(HeldOutFamily(family) for family in toy.families))
    assert replace(curriculum, world=held).add_failures([failure(toy, 1)]) == (0, 1)
    curriculum.add_failures([failure(toy, 1)])
    later = replace(curriculum, world=held)
    with pytest.raises(HeldOut, match="of the split 'heldout', and only 'train' may be played here"):
        trainable(held, failure(toy, 1).task_id)
    with pytest.raises(Exception, match="has no failure under this fault profile"):
        later.draw("", NONE.hash, hard_only=True)
