"""The family `billing-dispute`: is the claim true, and how much is owed?"""

from wardian.envs.task import Difficulty, Task
from wardian.envs.worlds.billing.cases import Kind, draw_case
from wardian.envs.worlds.billing.families.desk import DeskFamily
from wardian.sandbox.streams import stream

UNFOUNDED_SHARE = 0.25
"""As many as are owed in full, so that neither answer pays by itself."""


class BillingDispute(DeskFamily):
    name = "billing-dispute"

    def generate(self, difficulty: Difficulty, seed: int) -> Task:
        """Draw one of four claims, founded or not; hard ones with look-alikes and earlier refunds."""
        rng = stream(seed, f"{self.name}/{difficulty.value}/case")
        case = draw_case(rng, difficulty, tuple(Kind), UNFOUNDED_SHARE, prior=True)
        return self.task(case, difficulty, seed)
