"""The family `model-routing`: one query, up to three attempts."""

from datetime import UTC, datetime

from wardian.envs.action import Observation, call
from wardian.envs.family import Family, Solution
from wardian.envs.reward import RewardSpec
from wardian.envs.task import Budgets, Difficulty, Task, TaskId
from wardian.envs.verifier import FinalState, Verdict
from wardian.envs.worlds.routing.tools import PARAMETERS
from wardian.envs.worlds.routing.verify import check_answered
from wardian.sandbox.streams import stream

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

    def generate(self, difficulty: Difficulty, seed: int) -> Task:
        """Draw the words of the query, which mean nothing."""
        rng = stream(seed, f"{self.name}/{difficulty.value}")
        number = rng.randrange(10_000)
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
