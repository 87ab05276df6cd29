"""What happens at the support desk by itself, while an agent works."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from wardian.envs.events import EventContext, PlannedEvent
from wardian.envs.worlds.billing.schema import LAPSED, Audit, Message, Payment, Ticket
from wardian.tools.contract import Json

COLLEAGUE = "agent-3"
POSTED_S = (60, 540)
"""When a late charge shows in our records, in seconds after the start. The manual says to wait for ten minutes."""
COLLEAGUE_S = (5, 900)
NEVER, SOON, LATER = "never", "soon", "later"
LAPSES_S = {SOON: (20, 90), LATER: (180, 900)}
"""When the gateway's window of a payment lapses, in seconds after the start."""
WINDOW_LAPSED = "window_lapsed"
"""The fact that it did."""


def payment_posted(context: EventContext) -> None:
    """A charge that the gateway has made already shows in our records."""
    row = dict(context.facts)
    context.db.add(Payment(**{**row, "paid_at": datetime.fromisoformat(row["paid_at"])}))
    context.note("payment_posted", payment_id=row["id"])


def colleague_resolves(context: EventContext) -> None:
    """A colleague closes the ticket of somebody else, where it is still open."""
    ticket = context.db.get(Ticket, context.facts["ticket_id"])
    if ticket is None or ticket.status != "open":
        return
    ticket.status, ticket.resolution, ticket.closed_at = "resolved", "other", context.now
    text = "We have looked into it and closed your ticket."
    context.db.add(Message(id=context.new_id("messages"), ticket_id=ticket.id, author=COLLEAGUE, body=text, sent_at=context.now))
    row = {"action": "resolve", "ticket_id": ticket.id, "detail": {"resolution": "other"}}
    context.db.add(Audit(id=context.new_id("audit_log"), at=context.now, agent_id=COLLEAGUE, **row))
    context.note("colleague_resolved", ticket_id=ticket.id)


def window_lapses(context: EventContext) -> None:
    """From now on the gateway gives nothing of a payment back."""
    payment = context.db.get(Payment, context.facts["payment_id"])
    assert payment is not None, "a window lapses after its payment has shown"
    payment.dispute_window = LAPSED
    context.note(WINDOW_LAPSED, payment_id=payment.id)


EVENTS = {"payment_posted": payment_posted, "colleague_resolves": colleague_resolves, "window_lapses": window_lapses}


def posting(row: Mapping[str, Any]) -> PlannedEvent:
    """The later showing of a payment that is left out of the start."""
    paid_at: datetime = row["paid_at"]
    facts: dict[str, Json] = {**row, "paid_at": paid_at.isoformat()}
    return PlannedEvent("payment_posted", *POSTED_S, facts)


def lapsing(payment_id: int, when: str, *, posted_late: bool) -> PlannedEvent:
    """The end of the payment's window, `SOON` or `LATER`; of one that shows late, after it has shown."""
    earliest_s, latest_s = LAPSES_S[LATER if posted_late else when]
    return PlannedEvent(
        "window_lapses", max(earliest_s, POSTED_S[1] + 1) if posted_late else earliest_s, latest_s, {"payment_id": payment_id}
    )


def resolving(ticket_ids: list[int]) -> tuple[PlannedEvent, ...]:
    """What a colleague does about the tickets of others, one after another."""
    return tuple(
        PlannedEvent("colleague_resolves", COLLEAGUE_S[0] * number, COLLEAGUE_S[1] * number, {"ticket_id": ticket_id})
        for number, ticket_id in enumerate(ticket_ids, start=1)
    )
