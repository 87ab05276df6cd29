"""The family `billing-dispute`: is the claim true, and how much is owed?"""

from wardian.envs.parameters import OneOf, draw, everywhere
from wardian.envs.task import Difficulty, Task
from wardian.envs.worlds.billing.cases import Kind, draw_case
from wardian.envs.worlds.billing.customer import ASKING
from wardian.envs.worlds.billing.families.desk import DeskFamily
from wardian.envs.worlds.billing.living import POSTED_LATE, WINDOW
from wardian.envs.worlds.billing.scene import SCENE


class BillingDispute(DeskFamily):
    name = "billing-dispute"
    version = 4
    parameters = (
        everywhere("kind", "What the customer claims", OneOf(tuple(kind.value for kind in Kind))),
        # As many unfounded ones as are owed in full, so that neither answer pays by itself.
        everywhere("founded", "Whether the evidence bears the claim out", OneOf((True, True, True, False))),
        *SCENE,
        *ASKING,
        POSTED_LATE,
        WINDOW,
    )

    def generate(self, difficulty: Difficulty, seed: int) -> Task:
        """Draw one of four claims, founded or not; hard ones with look-alikes and earlier refunds."""
        drawn = draw(self.parameters, difficulty, self.rng(difficulty, seed, "parameters"))
        case = draw_case(self.rng(difficulty, seed, "case"), difficulty, Kind(drawn["kind"]), drawn["founded"], prior=True)
        return self.task(case, difficulty, seed, drawn)
