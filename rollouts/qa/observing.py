"""Whether an agent can see what the right action depends on.

Tasks that look alike at the start are played by each other's solutions. Where one task answers the other's actions word for word to the
end, and yet they are right in one and wrong in the other, nothing that an agent was shown tells the two apart.
"""

from collections.abc import Iterator

from wardian.envs.environment import ToolEnvironment
from wardian.envs.family import Family
from wardian.envs.task import Difficulty, Task
from wardian.envs.verifier import Verdict
from wardian.rollouts.qa.acting import Took, play
from wardian.rollouts.qa.lab import Lab
from wardian.rollouts.qa.outcome import Outcome
from wardian.tools.faults import NONE

SEEDS = 40
"""Tasks of each family and difficulty among which look-alikes are sought."""
PAIRS = 3
"""Of each family and difficulty that are played."""


async def tells_apart(lab: Lab) -> Outcome:
    """Play the solution of one task in another that begins with the same words."""
    found = Outcome()
    pairs = [pair for family in lab.families for level in family.difficulties for pair in _alike(family, level)]
    shown = list[int]()
    async with lab.environment(NONE) as env:
        solutions: dict[str, Took] = {}
        for pair in pairs:
            for task in pair:
                if str(task.id) not in solutions:
                    solutions[str(task.id)] = await play(env, lab.policy("expert"), str(task.id))
                if _succeeded(solutions[str(task.id)].last.info.verdict):
                    break
            other = pair[1] if task is pair[0] else pair[0]
            told_at, verdict = await _follow(env, solutions[str(task.id)], str(other.id))
            if told_at is not None:
                shown.append(told_at)
            elif _succeeded(solutions[str(task.id)].last.info.verdict) and verdict is not None and not verdict.succeeded:
                wrong = ", ".join(check.name for check in verdict.checks if not check.passed)
                found.findings.append(
                    f"{task.id} and {other.id} read the same to the end; the actions that solve the first fail the second: {wrong}"
                )
    found.evidence.append(f"{len(pairs)} pairs of tasks that begin with the same words but are not the same, of {SEEDS} seeds of each kind")
    found.figures = {"pairs": len(pairs), "told_apart": len(shown), "latest_step": max(shown, default=None)}
    if not pairs:
        found.unjudged = "no two tasks begin with the same words, so none can be taken for another"
    return found


def _alike(family: Family, level: Difficulty) -> Iterator[tuple[Task, Task]]:
    """Pairs of tasks that are given in the same words, with another truth."""
    first: dict[tuple[object, ...], Task] = {}
    given = 0
    for seed in range(SEEDS):
        task = family.generate(level, seed)
        earlier = first.setdefault((task.instruction, task.start, task.tools), task)
        if earlier.parameters != task.parameters and given < PAIRS:
            given += 1
            yield earlier, task


async def _follow(env: ToolEnvironment, solved: Took, task_id: str) -> tuple[int | None, Verdict | None]:
    """Take the same actions in another task; gives the step at which it answers otherwise (`None`: never), and the verdict."""
    expected = [solved.played.first, *(step.observation for step in solved.played.steps)]
    seen = await env.reset(task_id)
    for number, action in enumerate(solved.actions):
        if seen.rendered != expected[number].rendered:
            return number, None
        step = await env.step(action)
        seen = step.observation
        if step.done:
            same = seen.rendered == expected[number + 1].rendered
            return (None, step.info.verdict) if same else (number + 1, None)
    return None, None


def _succeeded(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.succeeded
