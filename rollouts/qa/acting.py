"""Plays one episode by a policy, unlogged, and keeps its actions and steps."""

from dataclasses import dataclass

from wardian.envs.action import Action, Step
from wardian.envs.environment import ToolEnvironment
from wardian.envs.errors import NotReset
from wardian.envs.playing import Played
from wardian.rollouts.policies.base import Policy, TaskView
from wardian.rollouts.policies.sampled import as_sampled

MOST_STEPS = 500
"""Of one episode; whatever goes on longer is left there."""


@dataclass(frozen=True, slots=True)
class Took:
    """An episode as far as it was played."""

    task_id: str
    played: Played
    actions: tuple[Action, ...]

    @property
    def last(self) -> Step:
        """The step that was taken last."""
        return self.played.last


async def play(env: ToolEnvironment, policy: Policy, task_id: str, seed: int = 0, most: int = MOST_STEPS) -> Took:
    """Play until the episode is over, or for `most` steps. An earlier episode's cell is preferred, so that two runs may be compared."""
    first = await env.reset(task_id, seed, uid=_uid(env))
    player = policy.begin(first, TaskView(env.reset_info.task.id, env.tool_schemas, seed))
    seen, steps, actions = first, list[Step](), list[Action]()
    while len(steps) < most and not (steps and steps[-1].done):
        actions.append(as_sampled(await player.act(seen)).action)
        steps.append(await env.step(actions[-1]))
        seen = steps[-1].observation
    return Took(task_id, Played(first, tuple(steps)), tuple(actions))


def difference(one: Took, other: Took) -> str:
    """Where two episodes of one task and seed first differ; empty where they do not."""
    for number, (a, b) in enumerate(zip(one.played.signature(), other.played.signature(), strict=False)):
        if a != b:
            return f"at step {number}" if number else "at the start"
    lengths = len(one.actions), len(other.actions)
    return "" if lengths[0] == lengths[1] else f"in length: {lengths[0]} and {lengths[1]} steps"


def _uid(env: ToolEnvironment) -> int | None:
    try:
        return env.reset_info.agent_uid
    except NotReset:
        return None
