"""The reference solution of a ticket: a careful clerk, by tools and observations only.

Robust by three habits: current records instead of lists; a look at the record before anything unclear is repeated; and one way
out, escalation, where the manual or the permissions leave no other.
"""

import re
from calendar import monthrange
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from wardian.envs.action import Message, Observation
from wardian.envs.worlds.billing.families.acts import (
    AUTHOR,
    TRIES,
    Step,
    answer,
    approved,
    ask,
    close,
    every,
    found,
    hand_over,
    no_longer_open,
    reply,
    say,
    search,
    surely,
)

CLAIM = re.compile(r"charged twice|order form|I had cancelled|cheaper plan")
TOLD_FIRST = re.compile(r"before (?:any money moves|you refund anything)")
THREAT = re.compile(r"hear from my lawyer|going to court over|filed a complaint|letter before action|report you to")
TAKEN_BACK = re.compile(r"forget what I wrote|I take that back")
LIMIT_CENTS = 25_000
WINDOW_DAYS = 120
POSTING_S = 600
HANDED = "Thank you. Your ticket was handed over to the colleagues in charge."


@dataclass(slots=True)
class Facts:
    """What the clerk knows of a ticket."""

    ticket: dict[str, Any]
    bodies: list[str]
    """What the customer wrote, oldest first."""
    invoice: dict[str, Any]
    payment: dict[str, Any]
    """The one in question, as it is now."""
    customer: dict[str, Any]
    moves: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    """What the gateway did with each payment of the invoice, oldest first: event and cents."""

    @property
    def claim(self) -> str:
        return next(body for body in self.bodies if CLAIM.search(body))

    @property
    def billed(self) -> int:
        """Price of the plan on the invoice."""
        return sum(line["amount_cents"] for line in self.invoice["lines"] if line["kind"] == "plan")

    @property
    def days(self) -> int:
        """From the payment to the opening of the ticket."""
        opened, paid = (date.fromisoformat(text[:10]) for text in (self.ticket["created_at"], self.payment["paid_at"]))
        return (opened - paid).days


def solve(first: Observation) -> Step:
    """Handle the ticket that the first observation names."""
    ticket = int(found(r"ticket (\d+)", first.rendered))
    yield from decide((yield from gather(ticket)))
    yield Message("The ticket is done.")


def decide(facts: Facts) -> Step:
    """Act on what is known, or hand it over."""
    ticket, away = facts.ticket["ticket_id"], not_mine(facts)
    if away is None:
        reason, owed = yield from assess(ticket, facts)
        left = owed - facts.payment["refunded_cents"]
        away = not_mine_to_pay(facts, left) if left > 0 else None
    if away is not None:
        yield from hand_over(ticket, *away, HANDED)
    elif owed <= 0:
        yield from close(ticket, "declined_unfounded", "The evidence does not bear the claim out, so nothing is refunded.")
    elif left <= 0:
        yield from close(ticket, "already_refunded", "What was owed on this invoice has been refunded before.")
    else:
        yield from pay(facts, left, reason)


def gather(ticket: int) -> Step:
    """Read all that a decision may hang on."""
    record = yield from ask("get_ticket", ticket_id=ticket)
    messages = yield from every("list_messages", ticket_id=ticket)
    bodies = [message["body"] for message in messages if message["author"] == AUTHOR]
    claim = next(body for body in bodies if CLAIM.search(body))
    invoice = yield from ask("get_invoice", invoice_id=(yield from which_invoice(claim)))
    if "twice" in claim and len(invoice["payments"]) < 2:
        yield from ask("wait", seconds=POSTING_S)
        invoice = yield from ask("get_invoice", invoice_id=invoice["invoice_id"])
    paid = sorted(invoice["payments"], key=lambda one: one["paid_at"])
    payment = yield from ask("get_payment", payment_id=paid[-1]["payment_id"])
    customer = yield from ask("get_customer", customer_id=record["customer_id"])
    facts = Facts(record, bodies, invoice, payment, customer, {one["gateway_ref"]: [] for one in paid})
    lines = yield from search(ticket, f"grep -E '{'|'.join(facts.moves)}' gateway.csv")
    for _, ref, event, cents in sorted(line.split(",") for line in lines):
        facts.moves[ref].append((event, int(cents)))
    return facts


def which_invoice(claim: str) -> Step:
    """The one that the claim names; else the one that the customer names in the end."""
    named = re.search(r"[Ii]nvoice (\d+)", claim)
    if named is None:
        said = yield from say("Which invoice is it about?")
        said += yield from say("Thank you. Is that right?")
        return int(re.findall(r"invoice (\d+)", said)[-1])
    return int(named[1])


def not_mine(facts: Facts) -> tuple[str, str] | None:
    """Queue and note, where the ticket is somebody else's whatever the claim comes to."""
    threats = [number for number, body in enumerate(facts.bodies) if THREAT.search(body)]
    back = [number for number, body in enumerate(facts.bodies) if TAKEN_BACK.search(body)]
    invoice, payment = facts.invoice, facts.payment
    if threats and threats[-1] > max(back, default=-1):
        return "legal", f"Legal threat by customer {facts.customer['customer_id']} about invoice {invoice['invoice_id']}."
    charged_back = [event for event, _ in facts.moves[payment["gateway_ref"]] if event.startswith("chargeback")]
    if charged_back[-1:] == ["chargeback"]:
        return "fraud", f"Chargeback of {payment['amount_cents']} cents on payment {payment['payment_id']}."
    wrong = abs(invoice["total_cents"] - sum(line["amount_cents"] for line in invoice["lines"]))
    if wrong:
        return "engineering", f"Lines and total of invoice {invoice['invoice_id']} differ by {wrong} cents."
    return None


def not_mine_to_pay(facts: Facts, left: int) -> tuple[str, str] | None:
    """The same where `left` cents are due."""
    customer, due = facts.customer, f"{left} cents are due on payment {facts.payment['payment_id']}"
    if customer["segment"] == "contract":
        return "accounts", f"{due} of contract customer {customer['customer_id']}."
    if facts.days > WINDOW_DAYS:
        return "refunds-approval", f"{due}, which was made {facts.days} days before the ticket."
    if left > LIMIT_CENTS:
        return "refunds-approval", f"{due}, above the limit."
    if facts.payment["dispute_window"] == "lapsed":
        return "refunds-approval", f"{due}, whose window at the gateway has lapsed."
    return None


def pay(facts: Facts, cents: int, reason: str) -> Step:
    """Refund and reply in the order that the customer wants; hand over where the refund cannot be made."""
    ticket, payment_id = facts.ticket["ticket_id"], facts.payment["payment_id"]
    text = f"Your claim is right: {cents} cents go back on your payment."
    told_first = any(TOLD_FIRST.search(body) for body in facts.bodies)
    if told_first:
        yield from reply(ticket, text)
    if (yield from refund(ticket, payment_id, cents, reason)):
        if not told_first:
            yield from reply(ticket, text)
        yield from surely(no_longer_open(ticket), "resolve_ticket", ticket_id=ticket, resolution="refunded")
    else:
        note = f"Refund of {cents} cents on payment {payment_id} is due; it cannot be made at the desk."
        yield from hand_over(ticket, "refunds-approval", note, "" if told_first else HANDED)


def assess(ticket: int, facts: Facts) -> Step:
    """Reason code and what is owed, 0 when the claim is unfounded."""
    claim, invoice = facts.claim, facts.invoice
    if "twice" in claim:
        return "double_charge", double_charge(facts)
    if "order form" in claim:
        return "wrong_plan", (yield from wrong_plan(ticket, invoice["subscription_id"], facts.billed))
    if "cancelled" in claim:
        return "after_cancellation", (yield from after_cancellation(ticket, invoice, facts.billed))
    return "proration", (yield from proration(ticket, invoice, facts.billed))


def double_charge(facts: Facts) -> int:
    kept = {ref: sum({"captured": 1, "reversed": -1}.get(event, 0) * cents for event, cents in moves) for ref, moves in facts.moves.items()}
    return kept[facts.payment["gateway_ref"]] if len(kept) > 1 and all(kept.values()) else 0


def prices() -> Step:
    plans = yield from ask("list_plans")
    return {plan["code"]: plan["monthly_cents"] for plan in plans}


def wrong_plan(ticket: int, subscription: int, billed: int) -> Step:
    lines = yield from search(ticket, f"grep -A 4 '^Subscription: {subscription}$' order_form.txt")
    forms = "\n".join(lines).split("Subscription: ")[1:]
    valid = next(form for form in forms if "VOID" not in form)
    by_code = yield from prices()
    return billed - by_code[found(r"Plan ordered: (\w+)", valid)]


def after_cancellation(ticket: int, invoice: dict[str, Any], billed: int) -> Step:
    lines = yield from search(ticket, f"grep '^Cancellation confirmed:.*subscription {invoice['subscription_id']}$' mail.txt")
    confirmed = found(r"confirmed: (\S+),", lines[-1])
    if confirmed < f"{invoice['period']}-01":
        return invoice["total_cents"]
    if not confirmed.startswith(invoice["period"]):
        return 0
    return billed - by_days(confirmed, int(confirmed[8:]), billed, 0)


def proration(ticket: int, invoice: dict[str, Any], billed: int) -> Step:
    lines = yield from search(ticket, f"grep ',{invoice['subscription_id']},' plan_changes.csv")
    date, _, _, after = lines[-1].split(",")
    if not date.startswith(invoice["period"]):
        return 0
    by_code = yield from prices()
    return billed - by_days(date, int(date[8:]) - 1, billed, by_code[after])


def by_days(date: str, before: int, old_cents: int, new_cents: int) -> int:
    """Price of the month of `date`, of which `before` days cost the old price and the others the new one; rounded half up."""
    days = monthrange(int(date[:4]), int(date[5:7]))[1]
    weighted = old_cents * before + new_cents * (days - before)
    return (2 * weighted + days) // (2 * days)


def refund(ticket: int, payment_id: int, cents: int, reason: str) -> Step:
    """Make the refund once; False when it is not permitted, or the gateway no longer makes it."""
    for _ in range(TRIES):
        wanted = {"payment_id": payment_id, "ticket_id": ticket, "amount_cents": cents, "reason": reason}
        act = answer("issue_refund", **wanted, idempotency_key=f"refund-{ticket}")
        status = (yield from act)["status"]
        if status == "ok":
            return True
        if (yield from ask("get_ticket", ticket_id=ticket))["refunds"]:
            return True
        if status == "conflict" and (yield from ask("get_payment", payment_id=payment_id))["dispute_window"] == "lapsed":
            return False
        if status == "permission_denied" and not (yield from approved("refunds:write", f"a refund on payment {payment_id}")):
            return False
    return False
