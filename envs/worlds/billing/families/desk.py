"""What both families share: from a case to a task, the verdict, and the reference solution."""

from wardian.envs.action import Observation
from wardian.envs.family import Family, Solution
from wardian.envs.reward import RewardSpec
from wardian.envs.task import Budgets, Difficulty, Task, TaskId
from wardian.envs.verifier import FinalState, Verdict
from wardian.envs.worlds.billing.building import build
from wardian.envs.worlds.billing.cases import Case, outcome
from wardian.envs.worlds.billing.families.reference import solve
from wardian.envs.worlds.billing.seed import AGENT_ID, NOW
from wardian.envs.worlds.billing.verify import check_ticket
from wardian.sandbox.streams import stream

INSTRUCTION = "Work on ticket {ticket}. Its evidence stands in /workspace/tickets/{ticket}/. Send a message when you are done."


class DeskFamily(Family):
    """One ticket, handled by the policy."""

    reward = RewardSpec(success=1.0, hard_failure=-1.0, step_cost=-0.002)
    """Nothing for a part: who does nothing passes every check that looks for damage."""

    def verify(self, state: FinalState) -> Verdict:
        """Compare rows, files and the event log with what the policy says of the case."""
        return check_ticket(state)

    def reference(self, first: Observation) -> Solution:
        """Read, look at the evidence, decide, act, and look again after whatever was unclear."""
        return solve(first)

    def task(self, case: Case, difficulty: Difficulty, seed: int) -> Task:
        """The task of a case."""
        built = build(case, stream(seed, f"{self.name}/{difficulty.value}/rows"))
        right = outcome(case)
        return Task(
            id=TaskId(self.name, difficulty, seed),
            instruction=INSTRUCTION.format(ticket=built.ticket_id),
            start=NOW,
            parameters={
                "kind": case.kind.value,
                "founded": case.founded,
                "ticket_id": built.ticket_id,
                "customer_id": built.customer_id,
                "invoice_id": built.invoice_id,
                "payment_id": built.payment_id,
                "resolution": right.resolution,
                "refund_cents": right.refund_cents,
                "reason": case.kind.value,
            },
            rows=built.frozen_rows(),
            files=built.layer(),
            agent_id=AGENT_ID,
            budgets=Budgets(steps=60),
        )
