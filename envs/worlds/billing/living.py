"""What of a case is not there at the start: what the customer tells only when asked, and what happens while the agent works."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

from wardian.envs.events import PlannedEvent
from wardian.envs.parameters import OneOf, Parameter, always
from wardian.envs.worlds.billing.building import TICKET_ID, Built
from wardian.envs.worlds.billing.cases import Case, Kind
from wardian.envs.worlds.billing.customer import INVOICE, vague
from wardian.envs.worlds.billing.events import LATER, NEVER, SOON, lapsing, posting, resolving
from wardian.envs.worlds.billing.letters import CLAIMS
from wardian.envs.worlds.billing.schema import OPEN
from wardian.envs.worlds.billing.seed import period_start

POSTED_LATE = Parameter(
    "posted_late",
    "Of a double charge without an earlier refund, the later payment shows in our records some minutes after the start",
    always(False),
    OneOf((False, False, True)),
    OneOf((False, True)),
)
WINDOW = Parameter(
    "window_lapses",
    "When the gateway's dispute window of the payment in question lapses, after which nothing of it can be refunded",
    always(NEVER),
    OneOf((NEVER, NEVER, SOON, LATER)),
    OneOf((NEVER, SOON, LATER)),
)
REQUESTED_DAYS = 14
"""Days from the request of a cancellation to the month in question, as the mail has it."""


@dataclass(frozen=True, slots=True)
class Living:
    facts: Mapping[str, str]
    """What the customer knows."""
    events: tuple[PlannedEvent, ...]


def bring_to_life(case: Case, built: Built, drawn: Mapping[str, Any], rng: Random) -> Living:
    """Take out of `built` what comes later or only when asked; gives what the customer knows and what will happen."""
    claim = _claim_row(built, case)
    facts = {INVOICE: str(built.invoice_id), "wish": re.findall(r"(\d+) cents", str(claim["body"]))[0]}
    if case.kind is Kind.AFTER_CANCELLATION:
        facts["requested"] = f"{period_start(case.period) - timedelta(days=REQUESTED_DAYS):%Y-%m-%d}"
    others = [row["id"] for row in built.rows["invoices"] if row["customer_id"] == built.customer_id and row["id"] != built.invoice_id]
    at_first = str(rng.choice(others))
    if drawn.get("withheld") == INVOICE:
        _replace(built, "messages", claim, {**claim, "body": vague(str(claim["body"]), case.kind)})
        if drawn["corrects_at"]:
            facts[f"{INVOICE}_at_first"] = at_first
    events = resolving([int(str(row["id"])) for row in built.rows["tickets"] if row["id"] != TICKET_ID])
    payment = next(row for row in built.rows["payments"] if row["id"] == built.payment_id)
    if WINDOW.name in drawn:
        payment = _replace(built, "payments", payment, {**payment, "dispute_window": OPEN})
    posted_late = bool(drawn.get("posted_late")) and case.kind is Kind.DOUBLE_CHARGE and not case.prior_cents
    if posted_late:
        built.rows["payments"].remove(payment)
        events = (posting(payment), *events)
    if (when := drawn.get(WINDOW.name, NEVER)) != NEVER:
        events = (*events, lapsing(built.payment_id, when, posted_late=posted_late))
    return Living(facts, events)


def _claim_row(built: Built, case: Case) -> Mapping[str, Any]:
    begins = CLAIMS[case.kind].split("{asked}")[0].format(invoice=built.invoice_id)
    return next(row for row in built.rows["messages"] if row["ticket_id"] == TICKET_ID and str(row["body"]).startswith(begins))


def _replace(built: Built, table: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Mapping[str, Any]:
    rows = built.rows[table]
    rows[rows.index(old)] = new
    return new
