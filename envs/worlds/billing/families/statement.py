"""The family `statement-reconciliation`: a bank statement of hundreds to thousands of lines against the payments table."""

from collections.abc import Mapping
from typing import Any

from wardian.envs.action import Observation
from wardian.envs.family import Solution
from wardian.envs.parameters import always
from wardian.envs.splits import Region, Scenarios, Split
from wardian.envs.task import Budgets, Difficulty, Task, TaskId
from wardian.envs.verifier import FinalState, Verdict
from wardian.envs.worlds.billing.families.conditions import STATEMENT
from wardian.envs.worlds.billing.families.desk import DESK_TOOLS, INSTRUCTION, DeskFamily
from wardian.envs.worlds.billing.families.reconciling import solve_statement
from wardian.envs.worlds.billing.seed import AGENT_ID, NOW
from wardian.envs.worlds.billing.statement import PARAMETERS, RECORDS_FIRST, REPORT, reconcile
from wardian.envs.worlds.billing.verify_statement import check_statement

STEPS = 150


class StatementReconciliation(DeskFamily):
    name = "statement-reconciliation"
    parameters = PARAMETERS
    evidence_files = (REPORT,)
    conditions = STATEMENT
    scenarios = Scenarios("layout", heldout=("fixed",))
    regions = (
        Region(
            "one_of_each",
            "One row twice, one wrong amount, one credit taken back",
            {"duplicate": always(1), "wrong_amount": always(1), "reversed": always(1)},
            Split.EVAL,
        ),
        Region("records_first", "Finance wants records before voids", {"act_order": always(RECORDS_FIRST)}),
    )

    def make(self, difficulty: Difficulty, seed: int, drawn: Mapping[str, Any]) -> Task:
        """Both sides, with so many of each difference and of each look-alike."""
        made = reconcile(drawn, self.rng(difficulty, seed, "books"))
        return Task(
            id=TaskId(self.name, difficulty, seed),
            instruction=INSTRUCTION.format(ticket=made.built.ticket_id),
            start=NOW,
            parameters={**drawn, **made.truth},
            rows=made.built.frozen_rows(),
            files=made.built.layer(),
            tools=DESK_TOOLS,
            agent_id=AGENT_ID,
            budgets=Budgets(steps=STEPS),
            split=self.split_of(drawn),
        )

    def verify(self, state: FinalState) -> Verdict:
        """Compare payments, report and the event log with what the two sides make right."""
        return check_statement(state)

    def reference(self, first: Observation) -> Solution:
        """Join the two sides in the shell, look at each current record, act, report."""
        return solve_statement(first)
