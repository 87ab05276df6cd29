"""A family generates tasks of one capability and knows when one is solved.

A family is data and pure functions: it holds no state, touches no engine, and gives equal tasks for equal arguments.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import TypeAlias

from wardian.envs.action import Action, Observation
from wardian.envs.customer import Customer
from wardian.envs.hearing import Heard
from wardian.envs.parameters import Parameter
from wardian.envs.reward import RewardSpec
from wardian.envs.task import Difficulty, Task
from wardian.envs.verifier import FinalState, Verdict

Solution: TypeAlias = Generator[Action, Observation, None]
"""Yields actions, is sent the observation of each; the first `send(None)` starts it. It returns when it is done."""


class Family(ABC):
    name: str
    version: int = 1
    difficulties: tuple[Difficulty, ...] = tuple(Difficulty)
    """Those that it has tasks of."""
    evidence_files: tuple[str, ...] = ()
    """Paths whose bytes the verifier wants to see at the end, if they changed."""
    secret_parameters: tuple[str, ...] = ()
    """Parameters of a task whose texts must not stand in anything that an agent is given at the start."""
    parameters: tuple[Parameter, ...] = ()
    """What the family varies, and how far at each difficulty: the table that its tasks are drawn from."""
    reward: RewardSpec = RewardSpec()
    """What a verdict and the costs on the way to it are worth."""
    ends_on_effects: tuple[str, ...] = ()
    """Kinds of effects in the event log that end the episode at once, such as damage that cannot be undone. The kind is the
    end cause."""

    @abstractmethod
    def generate(self, difficulty: Difficulty, seed: int) -> Task:
        """Make the task of these two. Equal arguments give equal tasks, in any process."""

    @abstractmethod
    def verify(self, state: FinalState) -> Verdict:
        """Judge the final state by world, files and event log."""

    @abstractmethod
    def reference(self, first: Observation) -> Solution:
        """The reference solution. It sees the first observation and what each action gives, and never the task's truth.

        Must solve every task of the family under every shipped fault profile.
        """

    def customer(self, task: Task) -> Customer | None:
        """The customer whom the agent's messages reach; `None` where there is none. They tell `Task.facts` and nothing else."""
        return None

    def ends_on_message(self, heard: Heard | None) -> bool:
        """Whether a message ends the episode.

        `heard` is what the customer understood of it; `None` where there is none, or one who waits for nothing any more. By default a
        message that asks the customer for something goes on, and every other one is the agent's last word.
        """
        return heard is None or not heard.asks
