"""A family generates tasks of one capability and knows when one is solved.

A family is data and pure functions: it holds no state, touches no engine, and gives equal tasks for equal arguments. What it varies, which
parts of that are held out, and what success takes are data too: `wardian families` prints them.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from wardian.envs.action import Action, Observation
from wardian.envs.customer import Customer
from wardian.envs.expected import Expected
from wardian.envs.hearing import Heard
from wardian.envs.parameters import Constraint, Parameter, draw
from wardian.envs.reward import RewardSpec
from wardian.envs.splits import Region, Scenarios, Split, region_of, split_in
from wardian.envs.task import Difficulty, Task
from wardian.envs.verifier import FinalState, Verdict
from wardian.sandbox.streams import stream
from wardian.tools.contract import Json

Solution: TypeAlias = Generator[Action, Observation, None]
"""Yields actions, is sent the observation of each; the first `send(None)` starts it. It returns when it is done."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What one check of a verdict asks for. All must hold for success; a hard one that does not is a hard failure."""

    check: str
    meaning: str
    hard: bool = False


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
    constraints: tuple[Constraint, ...] = ()
    """What its parameters have to do with each other."""
    regions: tuple[Region, ...] = ()
    """Named parts of its space. A task is of the first that holds it; what none holds is for training."""
    scenarios: Scenarios | None = None
    """Which parameter says the type of a scenario, and which types are not for training."""
    evaluation_only: bool = False
    """All of it is held out, whatever regions and scenarios say."""
    conditions: tuple[Condition, ...] = ()
    """The checks of its verdicts: success and hard failures."""
    reward: RewardSpec = RewardSpec()
    """What a verdict and the costs on the way to it are worth."""
    expected: Expected = Expected()
    """Which shares of its tasks scripted policies solve; `wardian qa` compares."""
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

    def drawn(self, difficulty: Difficulty, seed: int) -> dict[str, Json]:
        """The parameters of a task alone, which is much faster than making it."""
        if not self.parameters:
            return dict(self.generate(difficulty, seed).parameters)
        return draw(self.parameters, difficulty, stream(seed, f"{self.name}/{difficulty.value}/parameters"), self.constraints)

    def split_of(self, parameters: Mapping[str, Json]) -> Split:
        """The split of the tasks with these parameters."""
        return Split.HELDOUT if self.evaluation_only else split_in(self.regions, self.scenarios, parameters)

    def region_of(self, parameters: Mapping[str, Json]) -> str:
        """The name of the region that holds these parameters."""
        return region_of(self.regions, parameters)

    def split_at(self, difficulty: Difficulty, seed: int) -> str:
        """The split of a task, without making more of it than that takes."""
        return self.split_of(self.drawn(difficulty, seed)) if self.parameters else self.generate(difficulty, seed).split

    def customer(self, task: Task) -> Customer | None:
        """The customer whom the agent's messages reach; `None` where there is none. They tell `Task.facts` and nothing else."""
        return None

    def ends_on_message(self, heard: Heard | None) -> bool:
        """Whether a message ends the episode.

        `heard` is what the customer understood of it; `None` where there is none, or one who waits for nothing any more. By default a
        message that asks the customer for something goes on, and every other one is the agent's last word.
        """
        return heard is None or not heard.asks
