"""Scripted ways of handling a ticket less than well; for baselines and for dirtying the world."""

import re
from collections.abc import Iterator
from random import Random

from wardian.envs.action import Action, Message, Observation, call
from wardian.envs.family import Solution
from wardian.envs.worlds.billing.families.acts import AUTHOR, Step
from wardian.envs.worlds.billing.guessing import best_guess, greedy, reason_of
from wardian.envs.worlds.billing.seed import CUSTOMERS, FIRST_TASK_ID
from wardian.tools.contract import Json

__all__ = ["best_guess", "careless", "greedy", "vandal_calls"]

BLIND_TRIES = 3


def careless(first: Observation) -> Solution:
    """Open one file of the evidence, refund what is asked whatever it says, and repeat blindly whatever did not say `ok`."""
    named = re.search(r"ticket (\d+)", first.rendered)
    ticket = int(named.group(1)) if named else 0
    listed = yield from blindly("list_messages", ticket_id=ticket)
    messages = listed["items"] if listed else []
    yield from blindly("read_file", path=f"/workspace/tickets/{ticket}/gateway.csv")
    claim = " ".join(message["body"] for message in messages if message["author"] == AUTHOR)
    invoice_id, asked = re.search(r"[Ii]nvoice (\d+)", claim), re.search(r"(\d+) cents", claim)
    if invoice_id and asked:
        invoice = (yield from blindly("get_invoice", invoice_id=int(invoice_id.group(1)))) or {"payments": []}
        for payment in invoice["payments"][-1:]:
            refund: dict[str, Json] = {"payment_id": payment["payment_id"], "amount_cents": int(asked.group(1))}
            yield from blindly("issue_refund", ticket_id=ticket, reason=reason_of(claim), **refund)
    yield from blindly("reply_to_ticket", ticket_id=ticket, body="We have refunded what you asked for.")
    yield from blindly("resolve_ticket", ticket_id=ticket, resolution="refunded")
    yield Message("Done.")


def blindly(tool: str, **args: Json) -> Step:
    """Repeat a call until it says `ok`, whatever it may have done before."""
    for _ in range(BLIND_TRIES):
        answer = (yield call(tool, **args)).results[0]
        if answer["status"] == "ok":
            return answer["result"]
    return None


def vandal_calls(rng: Random) -> Iterator[Action]:
    """Calls without end that change whatever they can: money, tickets, subscriptions of anybody."""
    ticket = FIRST_TASK_ID + 1
    while True:
        near, cents = FIRST_TASK_ID + rng.randint(1, 8), rng.randint(1, 2000)
        yield rng.choice(
            (
                call("issue_refund", payment_id=near, ticket_id=ticket, amount_cents=cents, reason="goodwill"),
                call("apply_credit", customer_id=rng.randint(1, CUSTOMERS), ticket_id=ticket, amount_cents=cents, reason="for fun"),
                call("change_plan", subscription_id=near, ticket_id=ticket, plan="scale"),
                call("cancel_subscription", subscription_id=near, ticket_id=ticket),
                call("open_dispute", payment_id=near, ticket_id=ticket, reason="none"),
                call("reply_to_ticket", ticket_id=ticket, body="x" * cents),
            )
        )
