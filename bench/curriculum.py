"""How many more groups carry signal with a curriculum: `python bench/curriculum.py [--groups 200] [--seeds 3] [--world W] [--out DIR]`.

Policies of graded skill, and one that learns from the lowest to the highest, play groups that a curriculum draws, and as many groups of
the same world in turn. Only the play is simulated: see `wardian.rollouts.curriculum.simulation`. Prints the table of the docs, and
writes curriculum.json and curriculum.png.

With `--play SKILL` episodes are played in cells instead: a scripted policy gives the reference solution with the chance that its skill has
of the task, and else does nothing.
"""

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio
import matplotlib.figure

from wardian.envs.action import Message, Observation
from wardian.envs.family import Solution
from wardian.envs.registry import load_world
from wardian.rollouts.curriculum.curriculum import open_curriculum
from wardian.rollouts.curriculum.episodes import CurriculumRun
from wardian.rollouts.curriculum.simulation import Played, Simulation, Skill, constant, mean, rising
from wardian.rollouts.ground import open_ground
from wardian.rollouts.plan import plan
from wardian.rollouts.policies.base import Policy, Scripted, TaskView
from wardian.rollouts.recording import Setting, versions_of
from wardian.rollouts.records import EpisodeEnd
from wardian.rollouts.runner import EpisodePool
from wardian.sandbox.streams import stream
from wardian.tools.faults import NONE

LEVELS = (-5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0)
WINDOW = 20
"""Groups that one point of the curve of the learning policy is over, of each seed."""


@dataclass(frozen=True, slots=True)
class Row:
    """Means over the seeds."""

    policy: str
    success_even: float
    success_steered: float
    signal_even: float
    signal_steered: float
    least: float
    """The smallest of the ratios of signal, over the seeds."""


def measure(simulation: Simulation, skill: Skill, seeds: int) -> tuple[list[Played], list[Played]]:
    """Even and steered play, for each seed."""
    even = [simulation.even(skill, seed) for seed in range(seeds)]
    with tempfile.TemporaryDirectory() as files:
        return even, [simulation.steered(skill, seed, Path(files) / f"{seed}.db") for seed in range(seeds)]


def row(policy: str, even: Sequence[Played], steered: Sequence[Played]) -> Row:
    """One line of the table."""
    return Row(
        policy,
        mean([mean(one.success) for one in even]),
        mean([mean(one.success) for one in steered]),
        mean([one.signal for one in even]),
        mean([one.signal for one in steered]),
        min(a.signal / b.signal for a, b in zip(steered, even, strict=True)),
    )


def line(one: Row) -> str:
    """A row of the table."""
    cells = (one.success_even, one.success_steered, one.signal_even, one.signal_steered)
    ratio = one.signal_steered / one.signal_even
    return f"| {one.policy} | {' | '.join(f'{cell:.0%}' for cell in cells)} | {ratio:.1f} | {one.least:.1f} |"


def curve(played: Sequence[Played]) -> list[float]:
    """Share of mixed groups in each window, over all seeds."""
    starts = range(0, len(played[0].mixed), WINDOW)
    return [mean([float(one) for run in played for one in run.mixed[start : start + WINDOW]]) for start in starts]


def plot(rows: Sequence[Row], even: Sequence[float], steered: Sequence[float], out: Path) -> None:
    """Signal by skill, and signal of the learning policy over the run."""
    figure = matplotlib.figure.Figure(figsize=(11, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    left.plot(LEVELS, [one.signal_steered for one in rows], "o-", color="#3b7a57", label="curriculum")
    left.plot(LEVELS, [one.signal_even for one in rows], "s-", color="#a23b3b", label="families and difficulties in turn")
    left.set_xlabel("skill of the policy")
    left.set_ylabel("share of groups that are mixed")
    left.set_title("Policies that do not learn")
    places = [WINDOW * (number + 0.5) for number in range(len(even))]
    right.plot(places, steered, "o-", color="#3b7a57", label="curriculum")
    right.plot(places, even, "s-", color="#a23b3b", label="families and difficulties in turn")
    right.set_xlabel("groups played")
    right.set_title(f"A policy that learns, from skill {LEVELS[0]:g} to {LEVELS[-1]:g}")
    for axes in (left, right):
        axes.set_ylim(0, 1)
        axes.legend()
    figure.savefig(out / "curriculum.png", dpi=110)


def graded(simulation: Simulation, skill: float) -> Policy:
    """A scripted policy of that skill."""

    def script(first: Observation, view: TaskView) -> Solution:
        if stream(view.seed, "graded").random() < simulation.chance(view.task_id, skill, 0):
            yield from simulation.world.family(view.task_id.family).reference(first)
        yield Message("Done.")

    return Scripted("graded", f"graded-{skill:g}", script)


async def play(simulation: Simulation, skill: float, file: Path) -> None:
    """Play in turn, and by a curriculum; prints how many groups of each are mixed."""
    world, size, policy = simulation.world, simulation.settings.group, graded(simulation, skill)
    episodes = simulation.groups * size
    async with open_ground(world, cells=4) as ground:
        setting = Setting(world, simulation.asked_for, versions_of(ground), NONE, "recover", 16)
        ends: list[EpisodeEnd] = []
        planned = plan(world, (policy,), run="even", episodes=episodes, seed=0, group=size)
        await EpisodePool(ground, setting, watch=ends.append).run(planned, workers=4)
        print(f"in turn: {mixed(ends, size)} of {simulation.groups} groups are mixed")
        curriculum = open_curriculum(file, world, simulation.asked_for, simulation.settings)
        steered = CurriculumRun(curriculum, "steered", policy, episodes, NONE.hash)
        ends = []

        def watch(end: EpisodeEnd) -> None:
            ends.append(end)
            steered.tell(end)

        await steered.play(EpisodePool(ground, setting, watch=watch), 4)
        print(f"curriculum: {mixed(ends, size)} of {simulation.groups} groups are mixed")


def mixed(ends: Sequence[EpisodeEnd], size: int) -> int:
    """Groups with both outcomes."""
    solved: Counter[int] = Counter()
    for end in ends:
        solved[int(end.episode_id.rpartition("-")[2]) // size] += bool(end.succeeded and end.mask)
    return sum(0 < count < size for count in solved.values())


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--world", default="billing")
    parser.add_argument("--out", type=Path, default=Path("bench"))
    parser.add_argument("--play", type=float, metavar="SKILL")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    simulation = Simulation(load_world(asked.world), asked.world, asked.groups)
    if asked.play is not None:
        with tempfile.TemporaryDirectory() as files:
            anyio.run(play, simulation, asked.play, Path(files) / "c.db")
        return
    rows = []
    print("| skill | success in turn | success, curriculum | mixed in turn | mixed, curriculum | ratio | least ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for level in LEVELS:
        rows.append(row(f"{level:g}", *measure(simulation, constant(level), asked.seeds)))
        print(line(rows[-1]), flush=True)
    even, steered = measure(simulation, rising(LEVELS[0], LEVELS[-1]), asked.seeds)
    learning = row("learning", even, steered)
    print(line(learning))
    plot(rows, curve(even), curve(steered), asked.out)
    found = {
        "world": asked.world,
        "groups": asked.groups,
        "group": simulation.settings.group,
        "seeds": asked.seeds,
        "rows": [asdict(one) for one in (*rows, learning)],
        "learning": {"even": curve(even), "curriculum": curve(steered)},
    }
    (asked.out / "curriculum.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
