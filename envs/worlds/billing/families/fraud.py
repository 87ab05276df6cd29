"""The family `chargeback-fraud`: do the accounts behind a claim belong together, and do they take their money back twice?

It exists for evaluation only. Half of its tasks have a pattern of abuse, which goes to another queue whatever the claim comes to; the other
half look like it, and the claim is decided as any other.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from wardian.envs.action import Observation
from wardian.envs.family import Solution
from wardian.envs.parameters import OneOf, everywhere
from wardian.envs.splits import Region, Scenarios, Split
from wardian.envs.task import Budgets, Difficulty, Task
from wardian.envs.worlds.billing.building import build
from wardian.envs.worlds.billing.cases import Kind, draw_case
from wardian.envs.worlds.billing.families.desk import DeskFamily, truth_of
from wardian.envs.worlds.billing.families.reviewing import solve_review
from wardian.envs.worlds.billing.links import ABUSE, FEWER, INNOCENT, TABLE, add_ring, asks_for_review, finding
from wardian.envs.worlds.billing.living import bring_to_life
from wardian.envs.worlds.billing.scene import SCENE, Scene
from wardian.envs.worlds.billing.seed import NOW

STEPS = 150
OPENED = NOW - timedelta(hours=5)


class ChargebackFraud(DeskFamily):
    name = "chargeback-fraud"
    evaluation_only = True
    parameters = (
        *TABLE,
        everywhere("kind", "What the customer claims", OneOf(tuple(kind.value for kind in Kind))),
        everywhere("founded", "Whether the evidence bears the claim out", OneOf((True, True, True, False))),
        *SCENE,
    )
    constraints = (FEWER,)
    scenarios = Scenarios("scenario", heldout=(*ABUSE, *INNOCENT))
    regions = (
        Region("abuse", "Linked accounts whose money went back twice, as a pattern", {"scenario": OneOf(ABUSE)}, Split.HELDOUT),
        Region("look_alike", "Something of that is missing", {"scenario": OneOf(INNOCENT)}, Split.HELDOUT),
    )

    def make(self, difficulty: Difficulty, seed: int, drawn: Mapping[str, Any]) -> Task:
        """A claim as in `billing-dispute`, and the accounts around it."""
        case = draw_case(self.rng(difficulty, seed, "case"), difficulty, Kind(drawn["kind"]), drawn["founded"], prior=False)
        built = build(case, Scene.of(drawn), self.rng(difficulty, seed, "rows"))
        add_ring(built, self.rng(difficulty, seed, "ring"), drawn)
        asks_for_review(built, NOW - timedelta(minutes=30))
        living = bring_to_life(case, built, drawn, self.rng(difficulty, seed, "life"))
        found, truth = finding(built, OPENED), truth_of(case, built)
        if found.is_abuse:
            away = {"queue": "fraud", "facts": list(found.facts), "resolution": None, "refund_cents": 0, "evidence": list(found.looks())}
            truth |= away
        else:
            truth |= {"evidence": [*truth["evidence"], *found.looks()]}
        task = self.assembled(difficulty, seed, built, living, {**drawn, **truth, "linked_ids": list(found.linked)})
        return replace(task, tools=(), budgets=Budgets(steps=STEPS))

    def reference(self, first: Observation) -> Solution:
        """Follow the links, count, and decide the claim only where there is no pattern."""
        return solve_review(first)
