"""The sampler of a curriculum: where it goes, what it remembers, and who shares it."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from wardian.envs.definition import WorldDefinition
from wardian.envs.family import Family
from wardian.envs.registry import load_world
from wardian.envs.task import Difficulty, Task, TaskId
from wardian.rollouts.curriculum.curriculum import Curriculum, Draw, Outcome, open_curriculum
from wardian.rollouts.curriculum.placement import Arm, Placement, Seen, mixed_chance, pay, shares
from wardian.rollouts.curriculum.schema import Base
from wardian.rollouts.curriculum.settings import CurriculumSettings, PoolSettings
from wardian.rollouts.curriculum.simulation import Simulation, constant
from wardian.rollouts.errors import UsageProblem

SMALL = CurriculumSettings(group=4, seed=7)
ARMS: list[Arm] = [(family, level) for family in ("a", "b", "c") for level in ("easy", "hard")]


@pytest.fixture(scope="module")
def toy() -> WorldDefinition:
    return load_world("toy")


def begun(where: str | Path, world: WorldDefinition, settings: CurriculumSettings = SMALL) -> Curriculum:
    return open_curriculum(where, world, "toy", settings)


def told(draw: Draw, solved: Sequence[bool | None]) -> list[Outcome]:
    return [Outcome(draw.number, f"{draw.number}-{member}", one, None if one is None else float(one)) for member, one in enumerate(solved)]


def play(curriculum: Curriculum, groups: int) -> list[Draw]:
    """Easy tasks are always solved, medium ones half the time, hard ones never."""
    rates = {Difficulty.EASY: 4, Difficulty.MEDIUM: 2, Difficulty.HARD: 0}
    drawn = []
    for _ in range(groups):
        drawn.append(curriculum.draw())
        solved = rates[drawn[-1].task_id.difficulty]
        curriculum.record(told(drawn[-1], [number < solved for number in range(4)]))
    return drawn


def test_shares_go_to_arms_inside_the_band() -> None:
    seen = {arm: Seen(succeeded=20 if arm[1] == "easy" else 10, judged=20) for arm in ARMS}
    found = shares(seen, Placement(explore=0.1, floor=0.0), 8)
    assert sum(found.values()) == pytest.approx(1)
    assert {arm: share for arm, share in found.items() if arm[1] == "easy"} == pytest.approx(dict.fromkeys(ARMS[::2], 0.1 / 6))


def test_an_arm_whose_groups_are_never_mixed_gets_less_than_one_of_the_same_success_whose_are() -> None:
    uneven = {("a", "easy"): Seen(40, 80, 0, 10), ("b", "easy"): Seen(40, 80, 10, 10)}
    found = shares(uneven, Placement(), 8)
    assert found["b", "easy"] > 3 * found["a", "easy"]


def test_no_family_falls_below_its_floor() -> None:
    seen = {arm: Seen(10 if arm[0] == "a" else 0, 20) for arm in ARMS}
    found = shares(seen, Placement(explore=0.03, floor=0.2), 8)
    families = {family: found[family, "easy"] + found[family, "hard"] for family in "abc"}
    assert families == pytest.approx({"a": 0.6, "b": 0.2, "c": 0.2})


def test_where_no_arm_is_inside_the_band_the_nearest_gets_most() -> None:
    found = shares({("a", "easy"): Seen(6, 100), ("b", "easy"): Seen(0, 100)}, Placement(), 8)
    assert found["a", "easy"] > found["b", "easy"]


def test_every_arm_is_drawn_in_time_and_families_in_proportion() -> None:
    seen = {arm: Seen(10 if arm == ("a", "easy") else 0, 20) for arm in ARMS}
    placement, credit, drawn = Placement(explore=0.1, floor=0.1), dict[Arm, float](), list[Arm]()
    wanted = shares(seen, placement, 8)
    for _ in range(600):
        arm, credit = pay(credit, wanted, ARMS)
        drawn.append(arm)
    assert all(abs(drawn.count(arm) - 600 * wanted[arm]) < 2 for arm in ARMS)
    gaps = [b - a for arm in ARMS for places in [[n for n, one in enumerate(drawn) if one == arm]] for a, b in pairwise(places)]
    assert max(gaps) <= 2 * len(ARMS) / placement.explore


def test_the_chance_of_a_mixed_group_is_exact() -> None:
    assert [mixed_chance(rate, 2) for rate in (0.0, 0.5, 1.0)] == [0.0, 0.5, 0.0]


def test_draws_follow_success_and_never_repeat_a_task(toy: WorldDefinition, tmp_path: Path) -> None:
    drawn = play(begun(tmp_path / "c.db", toy), 60)
    late = [draw.task_id.difficulty for draw in drawn[20:]]
    assert late.count(Difficulty.MEDIUM) > 25
    assert set(late) == set(Difficulty)
    assert len({draw.task_id for draw in drawn}) == 60


def test_equal_outcomes_give_equal_draws_also_after_it_was_opened_again(toy: WorldDefinition, tmp_path: Path) -> None:
    straight = play(begun(tmp_path / "a.db", toy), 12)
    halves = play(begun(tmp_path / "b.db", toy), 5) + play(begun(tmp_path / "b.db", toy), 7)
    assert straight == halves
    assert play(begun(tmp_path / "c.db", toy, replace(SMALL, seed=8)), 3) != straight[:3]


def test_masked_outcomes_count_nowhere_and_a_second_telling_changes_nothing(toy: WorldDefinition, tmp_path: Path) -> None:
    curriculum = begun(tmp_path / "c.db", toy)
    draw = curriculum.draw()
    outcomes = told(draw, [True, None, False, None])
    assert (curriculum.record(outcomes), curriculum.record(outcomes)) == (4, 0)
    whole = curriculum.report().whole
    assert (whole.judged, whole.masked, whole.success) == (2, 2, 0.5)
    assert (whole.variance, whole.reward_variance, whole.without_variance) == (0.25, 0.25, 0.0)


def test_a_report_has_success_variance_and_groups_without_it_by_arm(toy: WorldDefinition, tmp_path: Path) -> None:
    curriculum = begun(tmp_path / "c.db", toy)
    play(curriculum, 30)
    report = curriculum.report()
    found = {(line.difficulty, line.success, line.variance, line.without_variance) for line in report.arms}
    assert found == {("easy", 1.0, 0.0, 1.0), ("medium", 0.5, 0.25, 0.0), ("hard", 0.0, 0.0, 1.0)}
    assert sum(line.share or 0 for line in report.families) == pytest.approx(1, abs=0.001)
    assert report.whole.groups == report.draws == 30


class HalfHeld(Family):
    """Tasks of odd seeds are held out, and all easy ones."""

    def __init__(self, inner: Family) -> None:
        self.inner, self.name = inner, inner.name

    def generate(self, difficulty: Difficulty, seed: int) -> Task:
        held = seed % 2 or difficulty is Difficulty.EASY
        return replace(self.inner.generate(difficulty, seed), split="heldout" if held else "train")

    verify = reference = None  # type: ignore[assignment]


def test_no_held_out_task_is_drawn(toy: WorldDefinition, tmp_path: Path) -> None:
    half = replace(toy, families=tuple(HalfHeld(family) for family in toy.families))
    curriculum = begun(tmp_path / "c.db", half)
    drawn = [curriculum.draw().task_id for _ in range(30)]
    assert all(one.seed % 2 == 0 and one.difficulty is not Difficulty.EASY for one in drawn)
    assert {line.difficulty for line in curriculum.report().arms} == {"medium", "hard"}


def test_a_curriculum_of_another_world_or_none_is_refused(toy: WorldDefinition, tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match=r"there is no .*; `wardian curriculum create` makes one"):
        open_curriculum(tmp_path / "no.db", toy, "toy")
    begun(tmp_path / "c.db", toy)
    with pytest.raises(UsageProblem, match="is of the world toy, and not of billing"):
        open_curriculum(tmp_path / "c.db", toy, "billing")
    (tmp_path / "text").write_text("no database, but some text that is long enough to be read as a header of one " * 3)
    with pytest.raises(UsageProblem, match="cannot be opened: file is not a database"):
        begun(tmp_path / "text", toy)
    with pytest.raises(UsageProblem, match="mysql is not known"):
        begun("mysql://host/db", toy)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Placement(low=0.9, high=0.1), "band: needs 0 <= low < high <= 1"),
        (lambda: Placement(explore=0), "explore: a share above 0"),
        (lambda: Placement(floor=0.5).check_floor(2), "floor: 2 families of at least 0.5 each leave nothing; give at most 0.450"),
        (lambda: PoolSettings(share=1), "pool_share: a share from 0 to below 1"),
        (lambda: CurriculumSettings(group=0), "group: from 1 to 1024"),
    ],
)
def test_settings_that_cannot_be_are_refused(make: object, words: str) -> None:
    with pytest.raises(UsageProblem, match=words):
        make()  # type: ignore[operator]


RUNNER = """
import sys
from wardian.envs.registry import load_world
from wardian.rollouts.curriculum.curriculum import Outcome, open_curriculum
from wardian.rollouts.curriculum.schema import Base
from wardian.rollouts.curriculum.settings import CurriculumSettings
curriculum = open_curriculum(sys.argv[1], load_world("toy"), "toy", CurriculumSettings(group=4, seed=7))
for _ in range(5):
    draw = curriculum.draw(sys.argv[2])
    curriculum.record(Outcome(draw.number, f"{draw.number}-{n}", n % 2 == 0, 1.0) for n in range(4))
"""


def shared_by_two(where: str, toy: WorldDefinition) -> None:
    runners = [subprocess.Popen([sys.executable, "-c", RUNNER, where, f"run{number}"]) for number in range(2)]
    assert [runner.wait(120) for runner in runners] == [0, 0]
    curriculum = open_curriculum(where, toy, "toy")
    drawn = [draw for number in range(2) for draw in curriculum.drawn_for(f"run{number}")]
    assert sorted(draw.number for draw in drawn) == list(range(1, 11))
    assert len({draw.task_id for draw in drawn}) == 10
    report = curriculum.report()
    assert (report.draws, report.whole.closed, report.whole.judged, report.whole.success) == (10, 10, 40, 0.5)


def test_processes_share_a_sqlite_file(toy: WorldDefinition, tmp_path: Path) -> None:
    shared_by_two(str(tmp_path / "shared.db"), toy)


def test_processes_share_a_postgres_database(toy: WorldDefinition, postgres_url: str) -> None:
    shared_by_two(postgres_url, toy)
    Base.metadata.drop_all(create_engine(postgres_url.replace("postgresql://", "postgresql+psycopg://"), poolclass=NullPool))


def test_more_groups_of_a_weak_policy_carry_signal_than_of_tasks_in_turn(toy: WorldDefinition, tmp_path: Path) -> None:
    simulation = Simulation(toy, "toy", 60, CurriculumSettings(group=8))
    steered, even = simulation.steered(constant(-3.0), 1, tmp_path / "c.db"), simulation.even(constant(-3.0), 1)
    assert steered.signal > 1.3 * even.signal
    assert len(steered.mixed) == len(even.mixed) == 60


def test_ids_of_variants_are_read_as_they_are_written() -> None:
    text = "lending-desk/hard/seed-7+distractor.1+fault.lend_item.0.timeout_after"
    assert str(TaskId.parse(text)) == text
