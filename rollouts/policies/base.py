"""The protocol of a policy, and policies that are written as generators.

A policy is shared by all episodes and holds no state of any; `begin` gives a player for one episode. A player that raises ends its
episode as failed and masked, and no other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from wardian.envs.action import Message, Observation
from wardian.envs.family import Solution
from wardian.envs.task import TaskId
from wardian.rollouts.policies.sampled import Acted
from wardian.tools.contract import Json


@dataclass(frozen=True, slots=True)
class TaskView:
    """What a policy may know of its task beside the first observation. Nothing of the truth behind it."""

    task_id: TaskId
    tool_schemas: tuple[dict[str, Json], ...]
    """In the OpenAI function format."""
    seed: int
    """For the policy's own random choices; another one than the episode's."""


class Player(Protocol):
    """One episode of a policy."""

    async def act(self, observation: Observation) -> Acted:
        """The next action, or a `Sampled` with one. `observation` is the first one, then what the last action gave."""
        ...


class Policy(Protocol):
    @property
    def name(self) -> str:
        """As on the command line and in every record."""
        ...

    @property
    def checkpoint(self) -> str:
        """Which weights or script it is. It may change while episodes run; each step records what it was when its action was asked for."""
        ...

    def begin(self, first: Observation, view: TaskView) -> Player:
        """A player for one episode."""
        ...


Script: TypeAlias = Callable[[Observation, TaskView], Solution]


@dataclass(frozen=True, slots=True)
class Scripted:
    """A policy that is a generator of actions. When the generator returns, the player says that it is done."""

    name: str
    checkpoint: str
    script: Script

    def begin(self, first: Observation, view: TaskView) -> Player:
        """A player around a new generator."""
        return _ScriptPlayer(self.script(first, view))


@dataclass(slots=True)
class _ScriptPlayer:
    solution: Solution
    begun: bool = False
    ended: bool = False

    async def act(self, observation: Observation) -> Acted:
        if not self.ended:
            try:
                if self.begun:
                    return self.solution.send(observation)
                self.begun = True
                return next(self.solution)
            except StopIteration:
                self.ended = True
        return Message("")
