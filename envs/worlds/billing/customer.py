"""The ticket's customer: what they leave out of the claim, what they answer, and what happens when they have waited too long.

Both ways to the customer reach the same one. A message that asks something is answered at once and stands among the ticket's messages;
what `reply_to_ticket` asks is answered some minutes later. Either is a question and not the one reply that the manual wants.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Session

from wardian.envs.conversation import HEARS, Channel
from wardian.envs.customer import Correction, Customer, Patience, Phrases, Topic
from wardian.envs.events import EventContext, WorldEvent
from wardian.envs.parameters import Constraint, OneOf, Parameter, always
from wardian.envs.task import Task
from wardian.envs.worlds.billing.cases import Kind
from wardian.envs.worlds.billing.schema import Escalation, Message, Ticket
from wardian.tools.contract import CallEvent, Json

NOTHING, INVOICE = "nothing", "invoice"
ASKING = (
    Parameter(
        "withheld",
        "What the claim leaves out, so that the customer must be asked",
        always(NOTHING),
        OneOf((NOTHING, NOTHING, INVOICE)),
        OneOf((NOTHING, INVOICE)),
    ),
    Parameter(
        "corrects_at",
        "Where the invoice was left out: the customer's turn at which they name another one than at first; 0: never",
        always(0),
        always(0),
        OneOf((0, 0, 1, 2)),
    ),
)
CORRECTS_ONLY_WHAT_WAS_ASKED = Constraint(
    "corrects_at", always(0), {"withheld": always(NOTHING)}, "who named the invoice at once has nothing to correct"
)
VAGUE = {
    Kind.DOUBLE_CHARGE: "I was charged twice for one of my invoices. Please give me {asked} cents back.",
    Kind.WRONG_PLAN: "One of my invoices bills a plan that I never ordered; look at the order form. I want {asked} cents back.",
    Kind.AFTER_CANCELLATION: "I had cancelled before the month of an invoice of mine began, yet was charged. Return my {asked} cents.",
    Kind.PRORATION: "I moved to a cheaper plan within the month, but an invoice of mine has the old price. I expect {asked} cents.",
}
"""The claims without the invoice's number."""
TOPICS = (
    Topic(
        INVOICE,
        (
            "invoice*|bill|charge*|payment*|order|month|one which|what",
            "invoice*|bill|order|charge* number|id|no|nr|reference",
            "number|id|reference of your|the|that invoice*|bill|order|charge*",
            "specify|name|confirm|clarify|identify invoice*|bill|charge*|payment*",
        ),
        ("It is about invoice {value}.", "I mean invoice {value}."),
    ),
    Topic(
        "wish",
        ("how much", "what amount|sum", "what|which expect*|want*|wish*|ask*|would", "amount|sum|refund expect*|want*|ask*|claim*"),
        ("I want {value} cents back.", "I ask for {value} cents."),
    ),
    Topic(
        "requested",
        ("when|date|day cancel*", "when|date ask*|request* cancel*|end"),
        ("I wrote to you on {value} that I cancel.",),
    ),
)
PHRASES = Phrases(
    reminders=("Is there any news about my ticket?", "I am still waiting for an answer to my ticket."),
    leaving=("I have waited long enough. You will hear from my lawyer.",),
)
PATIENCE = Patience(first_s=1800, every_s=1200, reminders=2)


def customer_of(task: Task) -> Customer:
    """The customer of a task's ticket."""
    at_turn = task.parameters.get("corrects_at", 0) if f"{INVOICE}_at_first" in task.facts else 0
    return Customer(
        facts=task.facts,
        topics=TOPICS,
        correction=Correction(INVOICE, f"{INVOICE}_at_first", at_turn, ("Sorry, I looked again.", "I mixed that up.")) if at_turn else None,
        patience=PATIENCE,
        phrases=PHRASES,
        refers_to={"ticket_id": task.parameters["ticket_id"]},
    )


def vague(claim: str, kind: Kind) -> str:
    """The claim without the number of its invoice."""
    asked = re.search(r"(\d+) cents", claim)
    assert asked is not None, "every claim asks for an amount"
    return VAGUE[kind].format(asked=asked[1])


def keep(context: EventContext, author: str, text: str) -> None:
    """A row of `messages`."""
    row = {"ticket_id": context.facts["ticket_id"], "author": author, "body": text}
    context.db.add(Message(id=context.new_id("messages"), sent_at=context.now, **row))


def read(event: CallEvent, refers_to: Mapping[str, Json]) -> str | None:
    """The body of a reply on the customer's ticket."""
    mine = event.tool == "reply_to_ticket" and isinstance(event.args, dict) and event.args["ticket_id"] == refers_to["ticket_id"]
    return str(event.args["body"]) if mine else None


def waits(session: Session, refers_to: Mapping[str, Json]) -> bool:
    """As long as the ticket is open."""
    ticket = session.get(Ticket, refers_to["ticket_id"])
    return ticket is not None and ticket.status == "open"


def gone(context: EventContext) -> None:
    """The ticket goes to the lawyers, and is the agent's no longer."""
    ticket_id = context.facts["ticket_id"]
    ticket = context.db.get(Ticket, ticket_id)
    assert ticket is not None, "a customer refers to a ticket that there is"
    ticket.status = "escalated"
    row: dict[str, Any] = {"ticket_id": ticket_id, "queue_id": "legal", "note": "The customer waited in vain and threatens with a lawyer."}
    context.db.add(Escalation(id=context.new_id("escalations"), created_at=context.now, **row))


CHANNEL = Channel(keep, read, waits, gone)


def questions(background: Sequence[WorldEvent]) -> dict[int, str]:
    """Calls that the customer took as a question for something they may know, and what they asked: index and text."""
    heard = ((event, effect) for event in background if event.kind == HEARS for effect in event.effects)
    return {effect["call"]: str(event.facts["text"]) for event, effect in heard if effect["topics"] and effect["call"] is not None}
