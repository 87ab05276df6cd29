"""Tools that change something. Each checks all that it must before it writes, and leaves a line in the audit log."""

from typing import Annotated, Any, Literal

from pydantic import Field

from wardian.envs.worlds.billing.schema import (
    LAPSED,
    Audit,
    Credit,
    Customer,
    Dispute,
    Escalation,
    Message,
    Payment,
    Plan,
    Queue,
    Refund,
    Subscription,
    Ticket,
)
from wardian.envs.worlds.billing.tools.reading import Id, get, refunded
from wardian.tools.contract import Arguments, Json, Refusal, Status, Tool, ToolContext
from wardian.tools.versions import unchanged

Cents = Annotated[int, Field(ge=1, le=10_000_000, description="Amount in cents.")]
Text = Annotated[str, Field(min_length=1, max_length=4000)]
Reason = Literal["double_charge", "wrong_plan", "after_cancellation", "proration", "goodwill"]
Resolution = Literal["refunded", "declined_unfounded", "already_refunded", "reconciled", "other"]


class Keyed(Arguments):
    """Base of the arguments of acts that a repeated request would do again."""

    idempotency_key: str | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="A text of your own for this request, the same when you repeat it: with one key it is done once. Without, a request "
        "that arrives twice is done twice.",
    )
    timeout_ms: int | None = Field(default=None, ge=50, le=10_000, description="Give up waiting for the answer after so many milliseconds.")


class IssueRefund(Keyed):
    payment_id: Id
    ticket_id: Id
    amount_cents: Cents
    reason: Reason


class ApplyCredit(Keyed):
    customer_id: Id
    ticket_id: Id
    amount_cents: Cents
    reason: Text


class OpenDispute(Keyed):
    payment_id: Id
    ticket_id: Id
    reason: Text


class Versioned(Arguments):
    """Base of the arguments of acts that change one record."""

    if_version: str | None = Field(
        default=None, max_length=64, description="The version that the record had when you read it; refused if it has changed since."
    )


class CancelSubscription(Versioned):
    subscription_id: Id
    ticket_id: Id


class ChangePlan(Versioned):
    subscription_id: Id
    ticket_id: Id
    plan: Annotated[str, Field(description="Code of the new plan.")]


class ReplyToTicket(Keyed):
    ticket_id: Id
    body: Text


class ResolveTicket(Versioned):
    ticket_id: Id
    resolution: Resolution


class EscalateTicket(Versioned):
    ticket_id: Id
    queue: str
    note: Text


def audit(context: ToolContext, action: str, ticket_id: int, **detail: Json) -> None:
    """Write a line of audit log, and note the same fact in the trusted event log."""
    row = Audit(
        id=context.new_id("audit_log"), at=context.now, agent_id=context.agent_id, action=action, ticket_id=ticket_id, detail=detail
    )
    context.db.add(row)
    context.note(action, ticket_id=ticket_id, **detail)


def open_ticket(context: ToolContext, ticket_id: int, if_version: str | None = None) -> Ticket:
    """The ticket, or the refusal `conflict` where it is not open or has changed."""
    ticket: Ticket = get(context.db, Ticket, ticket_id)
    if ticket.status != "open":
        raise Refusal(Status.CONFLICT, f"ticket {ticket_id} is {ticket.status}, not open")
    unchanged(ticket, if_version, f"ticket {ticket_id}")
    return ticket


def in_time(payment: Payment) -> None:
    """The refusal `conflict` where the gateway's window of the payment has lapsed."""
    if payment.dispute_window == LAPSED:
        raise Refusal(Status.CONFLICT, f"the gateway's dispute window of payment {payment.id} has lapsed; it gives nothing back any more")


async def issue_refund(context: ToolContext, args: IssueRefund) -> Json:
    ticket = open_ticket(context, args.ticket_id)
    payment: Payment = get(context.db, Payment, args.payment_id)
    if payment.customer_id != ticket.customer_id:
        raise Refusal(Status.CONFLICT, f"payment {payment.id} is not one of customer {ticket.customer_id}")
    if payment.voided_at is not None:
        raise Refusal(Status.CONFLICT, f"payment {payment.id} is void")
    in_time(payment)
    left = payment.amount_cents - refunded(context.db, payment.id)
    if args.amount_cents > left:
        raise Refusal(Status.CONFLICT, f"payment {payment.id} has {left} cents left to refund, {args.amount_cents} asked")
    refund_id = context.new_id("refunds")
    context.db.add(
        Refund(
            id=refund_id,
            payment_id=payment.id,
            ticket_id=ticket.id,
            amount_cents=args.amount_cents,
            reason=args.reason,
            created_at=context.now,
        )
    )
    audit(context, "refund", ticket.id, payment_id=payment.id, amount_cents=args.amount_cents, reason=args.reason)
    return {"refund_id": refund_id, "left_cents": left - args.amount_cents}


async def apply_credit(context: ToolContext, args: ApplyCredit) -> Json:
    ticket = open_ticket(context, args.ticket_id)
    get(context.db, Customer, args.customer_id)
    if ticket.customer_id != args.customer_id:
        raise Refusal(Status.CONFLICT, f"ticket {ticket.id} belongs to customer {ticket.customer_id}")
    credit_id = context.new_id("credits")
    credit = {"customer_id": args.customer_id, "ticket_id": ticket.id, "amount_cents": args.amount_cents, "reason": args.reason}
    context.db.add(Credit(id=credit_id, created_at=context.now, **credit))
    audit(context, "credit", ticket.id, amount_cents=args.amount_cents)
    return {"credit_id": credit_id}


async def open_dispute(context: ToolContext, args: OpenDispute) -> Json:
    ticket = open_ticket(context, args.ticket_id)
    payment: Payment = get(context.db, Payment, args.payment_id)
    if payment.customer_id != ticket.customer_id:
        raise Refusal(Status.CONFLICT, f"payment {payment.id} is not one of customer {ticket.customer_id}")
    in_time(payment)
    dispute_id = context.new_id("disputes")
    context.db.add(Dispute(id=dispute_id, payment_id=payment.id, ticket_id=ticket.id, reason=args.reason, opened_at=context.now))
    audit(context, "dispute", ticket.id, payment_id=payment.id)
    return {"dispute_id": dispute_id}


def _subscription(context: ToolContext, ticket: Ticket, args: CancelSubscription | ChangePlan) -> Subscription:
    found: Subscription = get(context.db, Subscription, args.subscription_id)
    if found.customer_id != ticket.customer_id:
        raise Refusal(Status.CONFLICT, f"subscription {found.id} is not one of customer {ticket.customer_id}")
    if found.status != "active":
        raise Refusal(Status.CONFLICT, f"subscription {found.id} is {found.status}")
    unchanged(found, args.if_version, f"subscription {found.id}")
    return found


async def cancel_subscription(context: ToolContext, args: CancelSubscription) -> Json:
    ticket = open_ticket(context, args.ticket_id)
    found = _subscription(context, ticket, args)
    found.status, found.cancelled_at = "cancelled", context.now
    audit(context, "cancel", ticket.id, subscription_id=found.id)
    return {"subscription_id": found.id, "status": found.status}


async def change_plan(context: ToolContext, args: ChangePlan) -> Json:
    ticket = open_ticket(context, args.ticket_id)
    found = _subscription(context, ticket, args)
    plan = context.db.query(Plan).filter(Plan.code == args.plan).one_or_none()
    if plan is None:
        raise Refusal(Status.NOT_FOUND, f"there is no plan {args.plan!r}; list_plans shows them")
    if found.plan_id == plan.id:
        raise Refusal(Status.CONFLICT, f"subscription {found.id} is on plan {plan.code!r} already")
    found.plan_id = plan.id
    audit(context, "change_plan", ticket.id, subscription_id=found.id, plan=plan.code)
    return {"subscription_id": found.id, "plan": plan.code}


async def reply_to_ticket(context: ToolContext, args: ReplyToTicket) -> Json:
    ticket: Ticket = get(context.db, Ticket, args.ticket_id)
    message_id = context.new_id("messages")
    context.db.add(Message(id=message_id, ticket_id=ticket.id, author=context.agent_id, body=args.body, sent_at=context.now))
    audit(context, "reply", ticket.id)
    return {"message_id": message_id}


async def resolve_ticket(context: ToolContext, args: ResolveTicket) -> Json:
    ticket = open_ticket(context, args.ticket_id, args.if_version)
    ticket.status, ticket.resolution, ticket.closed_at = "resolved", args.resolution, context.now
    audit(context, "resolve", ticket.id, resolution=args.resolution)
    return {"ticket_id": ticket.id, "status": ticket.status}


async def escalate_ticket(context: ToolContext, args: EscalateTicket) -> Json:
    ticket = open_ticket(context, args.ticket_id, args.if_version)
    queue: Queue = get(context.db, Queue, args.queue)
    ticket.status = "escalated"
    escalation_id = context.new_id("escalations")
    context.db.add(Escalation(id=escalation_id, ticket_id=ticket.id, queue_id=queue.id, note=args.note, created_at=context.now))
    audit(context, "escalate", ticket.id, queue=queue.id)
    return {"escalation_id": escalation_id, "queue": queue.id}


def act(name: str, text: str, arguments: Any, handler: Any, scope: str) -> Tool[Any]:
    """Declare an act of the desk."""
    errors = (Status.NOT_FOUND, Status.CONFLICT)
    more: dict[str, Any] = {}
    if issubclass(arguments, Keyed):
        more = {"version": 2, "idempotency_key": "idempotency_key", "timeout_argument": "timeout_ms"}
    if issubclass(arguments, Versioned):
        more = {"version": 2, "version_argument": "if_version"}
    return Tool(name, text, arguments, handler, mutates=True, scopes=(scope,), errors=errors, idempotent=False, **more)


ACTING: tuple[Tool[Any], ...] = (
    act(
        "issue_refund",
        "Give money of a payment back to the ticket's customer. "
        "Without a known key each call is a refund of its own. Refused beyond what is left.",
        IssueRefund,
        issue_refund,
        "refunds:write",
    ),
    act("apply_credit", "Put a credit on the account of the ticket's customer.", ApplyCredit, apply_credit, "credits:write"),
    act("open_dispute", "Open a dispute with the payment gateway on a payment.", OpenDispute, open_dispute, "disputes:write"),
    act("cancel_subscription", "Cancel an active subscription now.", CancelSubscription, cancel_subscription, "subscriptions:write"),
    act("change_plan", "Move an active subscription to another plan from now on.", ChangePlan, change_plan, "subscriptions:write"),
    act(
        "reply_to_ticket",
        "Send a message to the customer of a ticket. Without a known key each call is a message of its own.",
        ReplyToTicket,
        reply_to_ticket,
        "tickets:write",
    ),
    act(
        "resolve_ticket",
        "Close an open ticket with a resolution code. Send the reply before.",
        ResolveTicket,
        resolve_ticket,
        "tickets:write",
    ),
    act(
        "escalate_ticket",
        "Hand an open ticket to a queue, with a note for those who take over.",
        EscalateTicket,
        escalate_ticket,
        "tickets:write",
    ),
)
