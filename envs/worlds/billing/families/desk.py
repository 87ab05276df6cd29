"""What the families of tickets share: from a case to a task, the verdict, and the reference solution."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from wardian.envs.action import Observation
from wardian.envs.customer import Customer
from wardian.envs.family import Condition, Family, Solution
from wardian.envs.reward import RewardSpec
from wardian.envs.task import Budgets, Difficulty, Task, TaskId
from wardian.envs.verifier import FinalState, Verdict
from wardian.envs.worlds.billing.building import Built, build, claim_look
from wardian.envs.worlds.billing.cases import Case, outcome
from wardian.envs.worlds.billing.customer import customer_of
from wardian.envs.worlds.billing.families.conditions import TICKET
from wardian.envs.worlds.billing.families.reference import solve
from wardian.envs.worlds.billing.handover import handover
from wardian.envs.worlds.billing.living import Living, bring_to_life
from wardian.envs.worlds.billing.scene import Scene
from wardian.envs.worlds.billing.seed import AGENT_ID, NOW
from wardian.envs.worlds.billing.tools import DESK
from wardian.envs.worlds.billing.verify import check_ticket
from wardian.sandbox.streams import Stream, stream
from wardian.tools.contract import Json

INSTRUCTION = "Work on ticket {ticket}. Its evidence stands in /workspace/tickets/{ticket}/. Send a message when you are done."
STEPS = 70
DESK_TOOLS = tuple(tool.name for tool in DESK)


class DeskFamily(Family):
    """One ticket, handled by the policy."""

    reward = RewardSpec(success=1.0, hard_failure=-1.0, step_cost=-0.002)
    """Nothing for a part: who does nothing passes every check that looks for damage."""

    ends_on_effects = ("customer_left",)
    conditions: tuple[Condition, ...] = TICKET

    def generate(self, difficulty: Difficulty, seed: int) -> Task:
        """Draw from the family's table, and make the task of that."""
        return self.make(difficulty, seed, self.drawn(difficulty, seed))

    @abstractmethod
    def make(self, difficulty: Difficulty, seed: int, drawn: Mapping[str, Any]) -> Task:
        """The task with these parameters; what the table leaves open follows from the seed."""

    def customer(self, task: Task) -> Customer | None:
        """The ticket's customer; none where it comes from within the house, and nobody answers."""
        return customer_of(task) if task.facts else None

    def verify(self, state: FinalState) -> Verdict:
        """Compare rows, files and the event log with what the policy says of the case."""
        return check_ticket(state)

    def reference(self, first: Observation) -> Solution:
        """Read, look at the evidence, decide, act, and look again after whatever was unclear."""
        return solve(first)

    def rng(self, difficulty: Difficulty, seed: int, what: str) -> Stream:
        """The stream of one part of a task."""
        return stream(seed, f"{self.name}/{difficulty.value}/{what}")

    def task(self, case: Case, difficulty: Difficulty, seed: int, drawn: Mapping[str, Json]) -> Task:
        """The task of a case; `drawn` are the values of the family's table."""
        built = build(case, Scene.of(drawn), self.rng(difficulty, seed, "rows"))
        living = bring_to_life(case, built, drawn, self.rng(difficulty, seed, "life"))
        return self.assembled(difficulty, seed, built, living, {**drawn, **truth_of(case, built)})

    def assembled(self, difficulty: Difficulty, seed: int, built: Built, living: Living, parameters: Mapping[str, Json]) -> Task:
        """The task of what was made."""
        return Task(
            id=TaskId(self.name, difficulty, seed),
            instruction=INSTRUCTION.format(ticket=built.ticket_id),
            start=NOW,
            parameters=parameters,
            rows=built.frozen_rows(),
            files=built.layer(),
            tools=DESK_TOOLS,
            agent_id=AGENT_ID,
            facts=living.facts,
            events=living.events,
            budgets=Budgets(steps=STEPS),
            split=self.split_of(parameters),
        )


def truth_of(case: Case, built: Built) -> dict[str, Json]:
    """What a verifier goes by."""
    right, away = outcome(case), handover(case, built)
    return {
        "kind": case.kind.value,
        "founded": case.founded,
        "ticket_id": built.ticket_id,
        "customer_id": built.customer_id,
        "invoice_id": built.invoice_id,
        "payment_id": built.payment_id,
        "resolution": None if away else right.resolution,
        "refund_cents": 0 if away else right.refund_cents,
        "reason": case.kind.value,
        "queue": away.queue if away else None,
        "facts": list(away.facts) if away else [],
        "evidence": list(away.looks) if away else [claim_look(built, case.kind)],
    }
