"""The family `billing-dispute`: is the claim true, and how much is owed?"""

from wardian.envs.task import Difficulty, Task
from wardian.envs.worlds.billing.cases import Kind, draw_case
from wardian.envs.worlds.billing.families.desk import DeskFamily
from wardian.sandbox.streams import stream

UNFOUNDED_SHARE = {Difficulty.EASY: 0.25, Difficulty.MEDIUM: 0.4, Difficulty.HARD: 0.4}


class BillingDispute(DeskFamily):
    name = "billing-dispute"

    def generate(self, difficulty: Difficulty, seed: int) -> Task:
        """Draw one of four claims, founded or not; hard ones with look-alikes and earlier refunds."""
        rng = stream(seed, f"{self.name}/{difficulty.value}/case")
        case = draw_case(rng, difficulty, tuple(Kind), UNFOUNDED_SHARE[difficulty], prior=True)
        return self.task(case, difficulty, seed)
