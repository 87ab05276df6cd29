"""Plays one episode by a generator of actions, such as a family's reference solution, and keeps every step."""

from collections.abc import Sequence
from dataclasses import dataclass

from wardian.envs.action import Message, Observation, Step
from wardian.envs.environment import ToolEnvironment
from wardian.envs.family import Solution


@dataclass(frozen=True, slots=True)
class Played:
    first: Observation
    steps: tuple[Step, ...]
    """At least one; the last one is done, unless the generator returned before."""

    @property
    def last(self) -> Step:
        return self.steps[-1]

    def signature(self) -> tuple[object, ...]:
        """What two runs of the same seed and actions must have in common."""
        steps = [
            (s.observation, s.reward, s.done, s.info.clock_ms, s.info.background, s.info.fingerprint and s.info.fingerprint.root)
            for s in self.steps
        ]
        return self.first, *steps


async def play_reference(env: ToolEnvironment, task_id: str, seed: int = 0) -> Played:
    """Play the reference solution of the task's family until the episode is over or the solution returns."""
    first = await env.reset(task_id, seed)
    family = env.world.family(env.reset_info.task.id.family)
    return await _play(env, first, family.reference(first))


async def play_on(env: ToolEnvironment, first: Observation) -> Played:
    """Play the reference solution in an episode that runs already, such as a restored one; `first` is what its agent saw first."""
    family = env.world.family(env.reset_info.task.id.family)
    return await _play(env, first, family.reference(first))


async def play_idle(env: ToolEnvironment, task_id: str, seed: int = 0) -> Played:
    """Do nothing but say that it is done, until the episode is over."""
    first = await env.reset(task_id, seed)
    return await _play(env, first, _idle())


async def play_messages(env: ToolEnvironment, task_id: str, texts: Sequence[str], seed: int = 0) -> Played:
    """Say `texts` one after another, until the episode is over."""
    first = await env.reset(task_id, seed)
    return await _play(env, first, _saying(texts))


async def _play(env: ToolEnvironment, first: Observation, solution: Solution) -> Played:
    steps: list[Step] = []
    try:
        action = next(solution)
        while True:
            steps.append(await env.step(action))
            if steps[-1].done:
                break
            action = solution.send(steps[-1].observation)
    except StopIteration:
        pass
    finally:
        solution.close()
    return Played(first, tuple(steps))


def _saying(texts: Sequence[str]) -> Solution:
    for text in texts:
        yield Message(text)


def _idle() -> Solution:
    while True:
        yield Message("Done.")
