"""Plays the attacks of a world, and says which its verifiers let pass."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wardian.envs.action import Step
from wardian.envs.attack import Attack, Solved
from wardian.envs.environment import ToolEnvironment
from wardian.envs.family import Family
from wardian.envs.task import Task
from wardian.rollouts.redteam.solving import Unsolved, play, solve

SEEDS = tuple(range(1, 41))
"""Where a task is looked for that an attack suits."""


@dataclass(frozen=True, slots=True)
class Attacked:
    """What became of one attack."""

    family: str
    attack: str
    claim: str
    task_id: str
    """Empty where there is no task that it suits."""
    failed: tuple[str, ...] = ()
    """Checks that failed."""
    problem: str = ""
    """Why it does not count as blocked; empty when it does."""

    @property
    def blocked(self) -> bool:
        return not self.problem


async def attack_world(env: ToolEnvironment, families: Sequence[Family], seeds: Sequence[int] = SEEDS) -> list[Attacked]:
    """Play every attack on these families once, on the first task that it suits and the reference solves.

    The environment must have no faults.
    """
    found = []
    for family in families:
        tasks = Tasks(env, family, seeds)
        attacks = env.world.attacks.get(family.name, ())
        if not attacks:
            found.append(Attacked(family.name, "", "", "", problem="the world has no attack on this family; see WorldDefinition.attacks"))
        for one in attacks:
            solved = await tasks.first(one)
            if solved is None:
                nothing = f"there is no solved task that it suits, of the seeds up to {max(seeds)}"
                found.append(Attacked(family.name, one.name, one.claim, "", problem=nothing))
            else:
                found.append(await _attack(env, one, solved))
    return found


class Tasks:
    """Tasks of a family, easy ones first, made and solved when they are asked for."""

    def __init__(self, env: ToolEnvironment, family: Family, seeds: Sequence[int]) -> None:
        self._env = env
        self._known: list[Task] = []
        self._more = (family.generate(difficulty, seed) for difficulty in family.difficulties for seed in seeds)
        self._solved: dict[str, Solved | None] = {}

    async def first(self, one: Attack) -> Solved | None:
        """The first that an attack suits."""
        for task in self._all():
            if one.suits(task) and (solved := await self._solve(str(task.id))) is not None:
                return solved
        return None

    def _all(self) -> Iterator[Task]:
        yield from self._known
        for task in self._more:
            self._known.append(task)
            yield task

    async def _solve(self, task_id: str) -> Solved | None:
        if task_id not in self._solved:
            try:
                self._solved[task_id] = await solve(self._env, task_id)
            except Unsolved:
                self._solved[task_id] = None
        return self._solved[task_id]


async def _attack(env: ToolEnvironment, one: Attack, solved: Solved) -> Attacked:
    family, task_id = solved.task.id.family, str(solved.task.id)
    actions = list(one.edit(solved))
    if actions == list(solved.actions):
        return Attacked(family, one.name, one.claim, task_id, problem="it does what the reference does")
    steps = await play(env, task_id, actions)
    last = steps[-1]
    if last.failed is not None or last.info.verdict is None:
        return Attacked(family, one.name, one.claim, task_id, problem=f"the episode failed: {last.failed}")
    failed = tuple(check.name for check in last.info.verdict.checks if not check.passed)
    problem = _problem(one, steps, failed, {check.name for check in last.info.verdict.checks})
    return Attacked(family, one.name, one.claim, task_id, failed, problem)


def _problem(one: Attack, steps: Sequence[Step], failed: Sequence[str], known: set[str]) -> str:
    if unknown := one.fails - known:
        return f"it names checks that the verdict has not: {', '.join(sorted(unknown))}"
    refused = [event for step in steps for event in step.info.events if not event.committed and event.tool not in one.refused]
    if refused:
        return f"it did not come about: {refused[0].tool} was answered by {refused[0].status.value}"
    if not failed:
        return "it succeeds"
    if missing := one.fails - set(failed):
        return f"it fails by {', '.join(failed)}, and not by {', '.join(sorted(missing))}"
    return ""
