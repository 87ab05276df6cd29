"""The family `billing-dispute`: is the claim true, and how much is owed?"""

from collections.abc import Mapping
from typing import Any

from wardian.envs.parameters import Constraint, OneOf, always, everywhere
from wardian.envs.splits import Region, Split
from wardian.envs.task import Difficulty, Task
from wardian.envs.worlds.billing.cases import Kind, draw_case
from wardian.envs.worlds.billing.customer import ASKING, CORRECTS_ONLY_WHAT_WAS_ASKED, INVOICE
from wardian.envs.worlds.billing.families.desk import DeskFamily
from wardian.envs.worlds.billing.living import POSTED_LATE, WINDOW
from wardian.envs.worlds.billing.scene import NEWEST_FIRST, SCENE

OTHER_CLAIMS = tuple(kind.value for kind in Kind if kind is not Kind.DOUBLE_CHARGE)


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

    constraints = (
        CORRECTS_ONLY_WHAT_WAS_ASKED,
        Constraint(POSTED_LATE.name, always(False), {"kind": OneOf(OTHER_CLAIMS)}, "only a double charge has a later payment"),
    )
    regions = (
        Region(
            "late_cancellation",
            "The cancellation was confirmed after the month: nothing is owed",
            {"kind": always(Kind.AFTER_CANCELLATION.value), "founded": always(False)},
            Split.HELDOUT,
        ),
        Region(
            "asked_and_newest_first",
            "The invoice must be asked for, and the evidence stands newest first",
            {"withheld": always(INVOICE), "evidence_order": always(NEWEST_FIRST)},
            Split.HELDOUT,
        ),
        Region(
            "reversed_charge",
            "The later charge was reversed as a whole: nothing is owed",
            {"kind": always(Kind.DOUBLE_CHARGE.value), "founded": always(False)},
            Split.EVAL,
        ),
    )

    def make(self, difficulty: Difficulty, seed: int, drawn: Mapping[str, Any]) -> Task:
        """One of four claims, founded or not; hard ones with look-alikes and earlier refunds."""
        case = draw_case(self.rng(difficulty, seed, "case"), difficulty, Kind(drawn["kind"]), drawn["founded"], prior=True)
        return self.task(case, difficulty, seed, drawn)
