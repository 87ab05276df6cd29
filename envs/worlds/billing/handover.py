"""What an agent may not decide: the manual's list of reasons, their queues, and the facts that a note must name. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from wardian.envs.worlds.billing.building import TICKET_ID, Built, claim_look, gateway_look
from wardian.envs.worlds.billing.cases import Case, left_cents, total_cents
from wardian.envs.worlds.billing.looks import tool_look
from wardian.tools.contract import Json

LIMIT_CENTS = 25_000
"""The most that an agent refunds on one ticket."""
WINDOW_DAYS = 120
"""Days from a payment to the opening of the ticket within which an agent refunds it."""
NOTE_NUMBERS = 24
"""Different numbers that a note may hold: more is not a note but a guess."""


@dataclass(frozen=True, slots=True)
class Handover:
    reason: str
    queue: str
    facts: tuple[int, ...]
    """Numbers that the note must name: ids, cents, days."""
    looks: tuple[dict[str, Json], ...]
    """Without which the reason cannot be known."""


def handover(case: Case, built: Built) -> Handover | None:
    """The first reason of the manual's list that holds; `None`: the case is the agent's own to decide."""
    return next(_reasons(case, built), None)


def _reasons(case: Case, built: Built) -> Iterator[Handover]:
    claim, left = claim_look(built, case.kind), left_cents(case)
    if case.threatens:
        yield Handover("legal", "legal", (built.customer_id, built.invoice_id), (tool_look(["list_messages"], ticket_id=TICKET_ID),))
    if case.later_events[-1:] == ("chargeback",):
        yield Handover("chargeback", "fraud", (built.payment_id, total_cents(case)), (gateway_look(built),))
    if case.fault_cents:
        look = tool_look(["get_invoice"], invoice_id=built.invoice_id)
        yield Handover("invoice_fault", "engineering", (built.invoice_id, abs(case.fault_cents)), (look,))
    if left and case.segment == "contract":
        look = tool_look(["get_customer", "find_customers"], customer_id=built.customer_id)
        yield Handover("contract", "accounts", (built.customer_id, built.payment_id, left), (claim, look))
    if left and case.paid_days is not None and case.paid_days > WINDOW_DAYS:
        look = tool_look(["get_payment", "get_invoice", "list_payments"])
        yield Handover("window", "refunds-approval", (built.payment_id, left, case.paid_days), (claim, look))
    if left > LIMIT_CENTS:
        yield Handover("limit", "refunds-approval", (built.payment_id, left), (claim,))
