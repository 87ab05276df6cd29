"""Clerks of middling sense: one that takes the first act that looks right, and one that judges by rules of thumb.

Both see what any agent sees. Neither reads the manual's small print; what each leaves out is said where it is left out.
"""

import json
import re
from typing import Any

from wardian.envs.action import Message, Observation
from wardian.envs.family import Solution
from wardian.envs.worlds.billing.families.acts import AUTHOR, Step, ask, close, every, found, hand_over, surely
from wardian.envs.worlds.billing.families.reconciling import JOIN, recorded
from wardian.envs.worlds.billing.families.reference import Facts, assess, gather, refund
from wardian.envs.worlds.billing.families.reviewing import linked

LEGAL_WORDS = re.compile(r"lawyer|court|solicitor|complaint|regulator|legal", re.IGNORECASE)
LIMIT_CENTS = 25_000


def greedy(first: Observation) -> Solution:
    """Do the first thing that is asked for: the whole amount, on the first payment, without a look at any evidence."""
    ticket = int(found(r"ticket (\d+)", first.rendered))
    said = [message["body"] for message in (yield from every("list_messages", ticket_id=ticket)) if message["author"] == AUTHOR]
    invoice_id, asked = (re.search(pattern, " ".join(said)) for pattern in (r"[Ii]nvoice (\d+)", r"(\d+) cents"))
    resolution = "other"
    if invoice_id and asked:
        invoice = yield from ask("get_invoice", invoice_id=int(invoice_id[1]))
        payment = invoice["payments"][0]["payment_id"]
        paid = yield from refund(ticket, payment, int(asked[1]), reason_of(" ".join(said)))
        resolution = "refunded" if paid else "declined_unfounded"
    yield from close(ticket, resolution, "Done as you asked.")
    yield Message("Done.")


def reason_of(claim: str) -> str:
    """The reason code that a claim sounds like."""
    sounds = {"twice": "double_charge", "order form": "wrong_plan", "cancelled": "after_cancellation"}
    return next((code for words, code in sounds.items() if words in claim), "proration")


def best_guess(first: Observation) -> Solution:
    """Judge the ticket by rules of thumb."""
    ticket = int(found(r"ticket (\d+)", first.rendered))
    messages = yield from every("list_messages", ticket_id=ticket)
    if any("bank statement" in message["body"] for message in messages):
        yield from guess_statement(ticket)
    elif any("section 7" in message["body"] for message in messages):
        yield from guess_review(ticket)
    else:
        yield from guess_claim(ticket)
    yield Message("I think that this is right.")


def guess_claim(ticket: int) -> Step:
    """Weigh the evidence as the manual says, and escalate by the sound of words, the segment and the amount.

    Left out: what was refunded before, who wants to be told first, chargebacks, faulty invoices, the window, and whether a
    threat was meant or taken back.
    """
    facts: Facts = yield from gather(ticket)
    customer, payment, text = facts.customer, facts.payment["payment_id"], " ".join(facts.bodies)
    if LEGAL_WORDS.search(text):
        note = f"Customer {customer['customer_id']} speaks of legal steps about invoice {facts.invoice['invoice_id']}."
        yield from hand_over(ticket, "legal", note, "We hand this over.")
        return
    reason, owed = yield from assess(ticket, facts)
    due = f"Customer {customer['customer_id']}: {owed} cents are due on payment {payment}."
    if owed <= 0:
        yield from close(ticket, "declined_unfounded", "The evidence does not bear you out.")
    elif customer["segment"] == "contract" or owed > LIMIT_CENTS:
        queue = "accounts" if customer["segment"] == "contract" else "refunds-approval"
        yield from hand_over(ticket, queue, due, "We hand this over.")
    elif (yield from refund(ticket, payment, owed, reason)):
        yield from close(ticket, "refunded", f"We have refunded {owed} cents.")
    else:
        yield from hand_over(ticket, "refunds-approval", due, "We hand this over.")


def guess_review(ticket: int) -> Step:
    """Take two chargebacks among linked accounts for abuse.

    Left out: which of the payments were refunded, and whether a chargeback is old or was withdrawn.
    """
    found: dict[int, int] = {}
    count = 0
    for account in (yield from linked((yield from ask("get_ticket", ticket_id=ticket))["customer_id"])):
        back = yield from every("list_chargebacks", customer_id=account)
        found |= {account: sum(one["amount_cents"] for one in back)} if back else {}
        count += len(back)
    if count > 1:
        note = f"Accounts {', '.join(map(str, found))} look like one, with chargebacks of {sum(found.values())} cents."
        yield from hand_over(ticket, "fraud", note, "We hand this over.")
    else:
        yield from guess_claim(ticket)


def guess_statement(ticket: int) -> Step:
    """Act on what a join of both sides shows.

    Left out: references with a slip, days, what is in transit, exchange rates, and whether the export was behind.
    """
    done = yield from ask("shell", command=f"cd /workspace/tickets/{ticket} && python3 - <<'END'\n{JOIN}\nEND")
    fees, *odd = done["stdout"].splitlines()
    report = ["kind,reference,payment_id,amount_cents"]
    for line in odd:
        told = yield from guess_difference(ticket, json.loads(line))
        if told is not None:
            report.append(",".join(str(cell) for cell in told))
    text = "\n".join([*report, f"fees,,,{fees.split()[0]}", ""])
    yield from ask("write_file", path=f"/workspace/reports/{ticket}.csv", content=text)
    yield from close(ticket, "reconciled", "Reconciled, as far as I can see.")


def guess_difference(ticket: int, one: dict[str, Any]) -> Step:
    """Act on one reference; gives the line of the report."""
    ref, row, bank = one["ref"], one["row"], one["bank"]
    if row is None:
        args = {"invoice_id": bank["invoice"], "gateway_ref": ref, "amount_cents": bank["cents"], "paid_on": bank["value"]}
        yield from ask("get_invoice", invoice_id=bank["invoice"])
        yield from surely(lambda: recorded(args), "record_payment", ticket_id=ticket, **args)
        payment = yield from recorded(args)
        return ("missing", ref, payment["payment_id"], bank["cents"]) if payment else None
    number, cents = int(row["payment_id"]), int(row["amount_cents"])
    yield from ask("get_payment", payment_id=number)
    if bank is None or bank["cents"] == 0:
        reason = "reversed" if bank else "duplicate" if ref.endswith("-R") else "not_credited"
        yield from ask("void_payment", ticket_id=ticket, payment_id=number, reason=reason)
        return reason, ref, number, cents
    if bank["cents"] != cents:
        yield from ask("correct_payment", ticket_id=ticket, payment_id=number, amount_cents=bank["cents"])
        return "wrong_amount", ref, number, bank["cents"]
    return None
