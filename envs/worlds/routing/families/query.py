"""The family `model-routing`: one query, up to three attempts."""

from datetime import UTC, datetime

from wardian.envs.action import Observation, call
from wardian.envs.expected import Expected
from wardian.envs.family import Condition, Family, Solution
from wardian.envs.parameters import Between, everywhere
from wardian.envs.reward import RewardSpec
from wardian.envs.task import Budgets, Difficulty, Task, TaskId
from wardian.envs.verifier import FinalState, Verdict
from wardian.envs.worlds.routing.tools import PARAMETERS
from wardian.envs.worlds.routing.verify import check_answered
from wardian.sandbox.streams import Stream, stream
from wardian.tools.contract import Json

OPENING = datetime(2025, 9, 1, 8, 0, tzinfo=UTC)
WHAT = ("Summarise", "Translate into French", "Check the arithmetic of", "Find the contradiction in", "Draft a reply to", "Classify")
OF = (
    "the attached contract",
    "a supplier's letter",
    "last week's minutes",
    "this bug report",
    "a customer's complaint",
    "the release notes",
)
NUMBERS = 10_000
PLAN = ("cheap", "cheap", "strong")
"""The best plan at the world's own numbers: `wardian baseline routing` computes it."""


class ModelRouting(Family):
    """Chance decides whether the query is hard and whether an answer is accepted, so no plan answers every query.

    The three difficulties are labels: each draws from the one distribution, since an agent sees the task's id.
    """

    name = "model-routing"
    reward = RewardSpec(
        success=PARAMETERS.accepted,
        effects={
            "cheap_call": -PARAMETERS.cheap_cost,
            "strong_call": -PARAMETERS.strong_cost,
            "escalated": PARAMETERS.escalation,
        },
    )
    ends_on_effects = ("accepted", "escalated")
    parameters = (everywhere("number", "Number of the query, which means nothing", Between(0, NUMBERS - 1)),)
    conditions = (Condition("answered", "an answer was accepted"),)
    expected = Expected(
        expert=(0.5, 1.0),
        careless=(0.4, 1.0),
        reason="whether an answer is accepted is chance: the best plan solves 0.87 of the queries, the cheap model alone 0.79",
    )

    def drawn(self, difficulty: Difficulty, seed: int) -> dict[str, Json]:
        """The number."""
        return {"number": self._rng(difficulty, seed).randrange(NUMBERS)}

    def _rng(self, difficulty: Difficulty, seed: int) -> Stream:
        return stream(seed, f"{self.name}/{difficulty.value}")

    def generate(self, difficulty: Difficulty, seed: int) -> Task:
        """Draw the words of the query, which mean nothing."""
        rng = self._rng(difficulty, seed)
        number = rng.randrange(NUMBERS)
        return Task(
            id=TaskId(self.name, difficulty, seed),
            instruction=f"Query {number:04}: {rng.choice(WHAT)} {rng.choice(OF)}.",
            start=OPENING,
            parameters={"number": number},
            budgets=Budgets(steps=PARAMETERS.attempts),
        )

    def verify(self, state: FinalState) -> Verdict:
        """Look for an accepted answer."""
        return check_answered(state)

    def reference(self, first: Observation) -> Solution:
        """Follow the best plan; no plan can do more."""
        for model in PLAN:
            yield call("ask_model", model=model)
