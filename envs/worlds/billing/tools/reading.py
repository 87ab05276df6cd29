"""Tools that look. Lists are served from a copy that may lag behind; what shows one record reads the primary."""

from typing import Annotated, Any

from pydantic import Field
from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from wardian.envs.worlds.billing.schema import (
    Agent,
    Credit,
    Customer,
    Dispute,
    Escalation,
    Invoice,
    InvoiceLine,
    Message,
    Payment,
    Plan,
    Queue,
    Refund,
    Subscription,
    Ticket,
    Usage,
)
from wardian.sandbox.database.types import instant_text
from wardian.tools.contract import Arguments, Json, RateLimit, Refusal, Source, Status, Tool, ToolContext
from wardian.tools.pages import EMPTY_PAGE, Page, Paged, page_of
from wardian.tools.versions import version_of

Id = Annotated[int, Field(ge=1, le=2**53)]


class Nothing(Arguments):
    pass


class FindCustomers(Paged):
    query: Annotated[str, Field(min_length=2, max_length=100, description="Part of a name or an e-mail address.")]


class OfCustomer(Arguments):
    customer_id: Id


class ListOfCustomer(Paged):
    customer_id: Id


class OfInvoice(Arguments):
    invoice_id: Id


class OfPayment(Arguments):
    payment_id: Id


class ListOfSubscription(Paged):
    subscription_id: Id


class OfTicket(Arguments):
    ticket_id: Id


class ListOfTicket(Paged):
    ticket_id: Id


def get(session: Session, kind: Any, key: int | str) -> Any:
    """The record, or the refusal `not_found`."""
    found = session.get(kind, key)
    if found is None:
        raise Refusal(Status.NOT_FOUND, f"there is no {kind.__name__.lower()} {key}")
    return found


def refunded(session: Session, payment_id: int) -> int:
    """Cents of a payment that were given back so far."""
    total = session.scalar(select(func.coalesce(func.sum(Refund.amount_cents), 0)).where(Refund.payment_id == payment_id))
    return int(total or 0)


def _customer(row: Customer) -> Json:
    return {"customer_id": row.id, "name": row.name, "email": row.email, "segment": row.segment}


def payment_json(row: Payment) -> dict[str, Json]:
    return {
        "payment_id": row.id,
        "invoice_id": row.invoice_id,
        "amount_cents": row.amount_cents,
        "gateway_ref": row.gateway_ref,
        "paid_at": instant_text(row.paid_at),
        "void": row.voided_at is not None,
    }


def _refund(row: Refund) -> Json:
    return {
        "refund_id": row.id,
        "payment_id": row.payment_id,
        "ticket_id": row.ticket_id,
        "amount_cents": row.amount_cents,
        "reason": row.reason,
    }


def _subscription(row: Subscription, plan: Plan) -> Json:
    return {
        "subscription_id": row.id,
        "version": version_of(row),
        "plan": plan.code,
        "status": row.status,
        "started_at": instant_text(row.started_at),
        "cancelled_at": instant_text(row.cancelled_at) if row.cancelled_at else None,
    }


def _invoice(row: Invoice) -> Json:
    return {"invoice_id": row.id, "period": row.period, "total_cents": row.total_cents, "subscription_id": row.subscription_id}


def _message(row: Message) -> Json:
    return {"author": row.author, "sent_at": instant_text(row.sent_at), "body": row.body}


async def find_customers(context: ToolContext, args: FindCustomers) -> Page:
    columns = (func.lower(Customer.name), func.lower(Customer.email))
    wanted = select(Customer).where(or_(*(text.contains(args.query.lower(), autoescape=True) for text in columns)))
    return page_of(context, args, wanted, Customer.id, _customer)


async def get_customer(context: ToolContext, args: OfCustomer) -> Json:
    return _customer(get(context.db, Customer, args.customer_id))


async def list_plans(context: ToolContext, args: Nothing) -> Json:
    rows = context.db.scalars(select(Plan).order_by(Plan.id))
    return [
        {
            "code": row.code,
            "name": row.name,
            "monthly_cents": row.monthly_cents,
            "included_units": row.included_units,
            "overage_cents": row.overage_cents,
        }
        for row in rows
    ]


async def list_subscriptions(context: ToolContext, args: ListOfCustomer) -> Page:
    get(context.db, Customer, args.customer_id)
    wanted = select(Subscription, Plan).join(Plan).where(Subscription.customer_id == args.customer_id)
    return page_of(context, args, wanted, Subscription.id, _subscription)


async def list_usage(context: ToolContext, args: ListOfSubscription) -> Page:
    get(context.db, Subscription, args.subscription_id)
    wanted = select(Usage).where(Usage.subscription_id == args.subscription_id)
    return page_of(context, args, wanted, Usage.period, lambda row: {"period": row.period, "units": row.units})


async def list_invoices(context: ToolContext, args: ListOfCustomer) -> Page:
    get(context.db, Customer, args.customer_id)
    return page_of(context, args, select(Invoice).where(Invoice.customer_id == args.customer_id), Invoice.id, _invoice)


async def get_invoice(context: ToolContext, args: OfInvoice) -> Json:
    row = get(context.db, Invoice, args.invoice_id)
    lines = context.db.scalars(select(InvoiceLine).where(InvoiceLine.invoice_id == row.id).order_by(InvoiceLine.id))
    payments = context.db.scalars(select(Payment).where(Payment.invoice_id == row.id).order_by(Payment.id))
    return {
        "invoice_id": row.id,
        "customer_id": row.customer_id,
        "subscription_id": row.subscription_id,
        "period": row.period,
        "total_cents": row.total_cents,
        "issued_at": instant_text(row.issued_at),
        "lines": [{"kind": line.kind, "description": line.description, "amount_cents": line.amount_cents} for line in lines],
        "payments": [payment_json(payment) for payment in payments],
    }


async def list_payments(context: ToolContext, args: ListOfCustomer) -> Page:
    get(context.db, Customer, args.customer_id)
    return page_of(context, args, select(Payment).where(Payment.customer_id == args.customer_id), Payment.id, payment_json)


async def get_payment(context: ToolContext, args: OfPayment) -> Json:
    row = get(context.db, Payment, args.payment_id)
    more = {"customer_id": row.customer_id, "refunded_cents": refunded(context.db, row.id), "dispute_window": row.dispute_window}
    return {**payment_json(row), **more}


async def list_refunds(context: ToolContext, args: ListOfCustomer) -> Page:
    get(context.db, Customer, args.customer_id)
    wanted = select(Refund).join(Payment).where(Payment.customer_id == args.customer_id)
    return page_of(context, args, wanted, Refund.id, _refund)


async def get_ticket(context: ToolContext, args: OfTicket) -> Json:
    row = get(context.db, Ticket, args.ticket_id)
    db = context.db
    return {
        "ticket_id": row.id,
        "version": version_of(row),
        "customer_id": row.customer_id,
        "subject": row.subject,
        "status": row.status,
        "resolution": row.resolution,
        "created_at": instant_text(row.created_at),
        "refunds": [_refund(found) for found in db.scalars(select(Refund).where(Refund.ticket_id == row.id).order_by(Refund.id))],
        "credits_cents": [c.amount_cents for c in db.scalars(select(Credit).where(Credit.ticket_id == row.id).order_by(Credit.id))],
        "disputes": [d.payment_id for d in db.scalars(select(Dispute).where(Dispute.ticket_id == row.id).order_by(Dispute.id))],
        "escalated_to": [e.queue_id for e in db.scalars(select(Escalation).where(Escalation.ticket_id == row.id).order_by(Escalation.id))],
    }


async def list_messages(context: ToolContext, args: ListOfTicket) -> Page:
    get(context.db, Ticket, args.ticket_id)
    return page_of(context, args, select(Message).where(Message.ticket_id == args.ticket_id), Message.id, _message)


async def list_queues(context: ToolContext, args: Nothing) -> Json:
    return [{"queue": row.id, "name": row.name, "handles": row.handles} for row in context.db.scalars(select(Queue).order_by(Queue.id))]


async def my_scopes(context: ToolContext, args: Nothing) -> Json:
    held = get(context.db, Agent, context.agent_id).scopes
    return sorted(held)


def _list(name: str, text: str, arguments: Any, handler: Any, errors: tuple[Status, ...] = (Status.NOT_FOUND,), **more: Any) -> Tool[Any]:
    lagging = f"{text} In pages, from a copy that may lag behind by some minutes."
    common: dict[str, Any] = {"version": 2, "source": Source.REPLICA, "paged": True, "empty_page": EMPTY_PAGE}
    return Tool(name, lagging, arguments, handler, errors=errors, **common, **more)


READING: tuple[Tool[Any], ...] = (
    _list(
        "find_customers",
        "Find customers by part of a name or e-mail address. Takes 20 calls a minute.",
        FindCustomers,
        find_customers,
        (),
        rate_limit=RateLimit(calls=20, per_s=60),
    ),
    Tool("get_customer", "Show one customer.", OfCustomer, get_customer),
    Tool("list_plans", "List the plans with prices in cents per month.", Nothing, list_plans, errors=()),
    _list("list_subscriptions", "List a customer's subscriptions.", ListOfCustomer, list_subscriptions),
    _list("list_usage", "List the used units of a subscription by month.", ListOfSubscription, list_usage),
    _list("list_invoices", "List a customer's invoices.", ListOfCustomer, list_invoices),
    Tool("get_invoice", "Show one invoice with its lines and payments, as they are now.", OfInvoice, get_invoice),
    _list("list_payments", "List a customer's payments.", ListOfCustomer, list_payments),
    Tool(
        "get_payment",
        "Show one payment, how much of it was refunded, and the gateway's dispute window (open, lapsed or null), as they are now.",
        OfPayment,
        get_payment,
        version=2,
    ),
    _list("list_refunds", "List all refunds of a customer.", ListOfCustomer, list_refunds),
    Tool(
        "get_ticket",
        "Show one ticket with its refunds, credits, disputes and escalations, as they are now.",
        OfTicket,
        get_ticket,
        version=2,
    ),
    Tool(
        "list_messages",
        "List the messages of a ticket as they are now, oldest first, in pages.",
        ListOfTicket,
        list_messages,
        version=2,
        paged=True,
    ),
    Tool("list_queues", "List the escalation queues and what each handles.", Nothing, list_queues, errors=()),
    Tool("my_scopes", "List what you are allowed to do at this moment.", Nothing, my_scopes),
)
