"""The reference's solution of a task: its actions, and the state that its verifier was shown."""

import copy
from dataclasses import replace

from wardian.envs.action import Action, Message, Observation, Step
from wardian.envs.attack import Solved
from wardian.envs.definition import WorldDefinition
from wardian.envs.environment import ToolEnvironment
from wardian.envs.family import Family
from wardian.envs.verifier import FinalState, Verdict
from wardian.rollouts.errors import UsageProblem


class Unsolved(UsageProblem):
    """The reference does not solve a task, so that nothing can be said of its verifier there."""


class Witness:
    """Sees what the verifiers of a world are shown."""

    def __init__(self) -> None:
        self.state: FinalState | None = None
        """Of the last verdict. Its database is closed by then."""

    def watch(self, world: WorldDefinition) -> WorldDefinition:
        """The same world, with families that this witness watches."""
        return replace(world, families=tuple(map(self._watched, world.families)))

    def _watched(self, family: Family) -> Family:
        def verify(state: FinalState) -> Verdict:
            self.state = state
            return family.verify(state)

        watched = copy.copy(family)
        object.__setattr__(watched, "verify", verify)
        return watched


async def solve(env: ToolEnvironment, task_id: str) -> Solved:
    """Play the reference of a task, without faults, to its end.

    Raises:
        Unsolved: it does not solve the task; says why.
    """
    first = await env.reset(task_id)
    task = env.reset_info.task
    solution = env.world.family(task.id.family).reference(first)
    actions: list[Action] = []
    seen: list[Observation] = []
    step: Step | None = None
    try:
        action = next(solution)
        while True:
            step = await env.step(action)
            actions.append(action)
            seen.append(step.observation)
            if step.done:
                break
            action = solution.send(step.observation)
    except StopIteration:
        pass
    finally:
        solution.close()
    if step is None or step.info.verdict is None or not step.info.verdict.succeeded:
        raise Unsolved(f"reference: it does not solve {task_id}: {_why(step)}")
    return Solved(task, tuple(actions), tuple(one.results[0] if one.results else {} for one in seen))


async def play(env: ToolEnvironment, task_id: str, actions: list[Action]) -> list[Step]:
    """Play actions in order until the episode is over; messages are added at the end until it is."""
    await env.reset(task_id)
    steps: list[Step] = []
    for action in [*actions, *[Message("Everything is done.")] * 3]:
        steps.append(await env.step(action))
        if steps[-1].done:
            break
    return steps


def _why(step: Step | None) -> str:
    if step is None or not step.done:
        return "it stops, and the episode goes on"
    if step.failed or step.info.verdict is None:
        return f"the episode failed: {step.failed}"
    return "; ".join(f"{check.name}: {check.detail}" for check in step.info.verdict.checks if not check.passed)
