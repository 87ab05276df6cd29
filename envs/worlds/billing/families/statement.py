"""The family `statement-reconciliation`: a bank statement of hundreds to thousands of lines against the payments table."""

from wardian.envs.action import Observation
from wardian.envs.family import Solution
from wardian.envs.parameters import draw
from wardian.envs.task import Budgets, Difficulty, Task, TaskId
from wardian.envs.verifier import FinalState, Verdict
from wardian.envs.worlds.billing.families.desk import INSTRUCTION, DeskFamily
from wardian.envs.worlds.billing.families.reconciling import solve_statement
from wardian.envs.worlds.billing.seed import AGENT_ID, NOW
from wardian.envs.worlds.billing.statement import PARAMETERS, REPORT, reconcile
from wardian.envs.worlds.billing.verify_statement import check_statement

STEPS = 150


class StatementReconciliation(DeskFamily):
    name = "statement-reconciliation"
    parameters = PARAMETERS
    evidence_files = (REPORT,)

    def generate(self, difficulty: Difficulty, seed: int) -> Task:
        """Draw how many there are of each difference and of each look-alike, and make both sides."""
        drawn = draw(self.parameters, difficulty, self.rng(difficulty, seed, "parameters"))
        made = reconcile(drawn, self.rng(difficulty, seed, "books"))
        return Task(
            id=TaskId(self.name, difficulty, seed),
            instruction=INSTRUCTION.format(ticket=made.built.ticket_id),
            start=NOW,
            parameters={**drawn, **made.truth},
            rows=made.built.frozen_rows(),
            files=made.built.layer(),
            agent_id=AGENT_ID,
            budgets=Budgets(steps=STEPS),
        )

    def verify(self, state: FinalState) -> Verdict:
        """Compare payments, report and the event log with what the two sides make right."""
        return check_statement(state)

    def reference(self, first: Observation) -> Solution:
        """Join the two sides in the shell, look at each current record, act, report."""
        return solve_statement(first)
