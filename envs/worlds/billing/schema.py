"""Tables of the support desk. Ids come from the world, times from its clock, money is cents; no default of the engine."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from wardian.sandbox.database.types import Count, Id, Instant, JsonValue, Money, Text

OPEN, LAPSED = "open", "lapsed"
"""Of the gateway's window of a payment."""


class Base(DeclarativeBase):
    pass


def key() -> Mapped[int]:
    return mapped_column(Id, primary_key=True, autoincrement=False)


def link(target: str) -> Mapped[int]:
    return mapped_column(Id, ForeignKey(target), index=True)


class Agent(Base):
    __tablename__ = "agents"

    id: Mapped[str] = mapped_column(Text, primary_key=True)
    name: Mapped[str] = mapped_column(Text)
    scopes: Mapped[Any] = mapped_column(JsonValue)
    """List of scope names."""


class Plan(Base):
    __tablename__ = "plans"

    id: Mapped[int] = key()
    code: Mapped[str] = mapped_column(Text, unique=True)
    name: Mapped[str] = mapped_column(Text)
    monthly_cents: Mapped[int] = mapped_column(Money)
    included_units: Mapped[int] = mapped_column(Count)
    overage_cents: Mapped[int] = mapped_column(Money)
    """For each unit above the included ones."""


class Customer(Base):
    __tablename__ = "customers"

    id: Mapped[int] = key()
    name: Mapped[str] = mapped_column(Text)
    email: Mapped[str] = mapped_column(Text, unique=True)
    segment: Mapped[str] = mapped_column(Text)
    """`standard` or `contract`."""
    created_at: Mapped[datetime] = mapped_column(Instant)


class Subscription(Base):
    __tablename__ = "subscriptions"

    id: Mapped[int] = key()
    customer_id: Mapped[int] = link("customers.id")
    plan_id: Mapped[int] = link("plans.id")
    status: Mapped[str] = mapped_column(Text)
    """`active` or `cancelled`."""
    started_at: Mapped[datetime] = mapped_column(Instant)
    cancelled_at: Mapped[datetime | None] = mapped_column(Instant)


class Usage(Base):
    __tablename__ = "usage"

    id: Mapped[int] = key()
    subscription_id: Mapped[int] = link("subscriptions.id")
    period: Mapped[str] = mapped_column(Text)
    """Month, `2026-03`."""
    units: Mapped[int] = mapped_column(Count)


class Invoice(Base):
    __tablename__ = "invoices"

    id: Mapped[int] = key()
    customer_id: Mapped[int] = link("customers.id")
    subscription_id: Mapped[int] = link("subscriptions.id")
    period: Mapped[str] = mapped_column(Text)
    total_cents: Mapped[int] = mapped_column(Money)
    issued_at: Mapped[datetime] = mapped_column(Instant)


class InvoiceLine(Base):
    __tablename__ = "invoice_lines"

    id: Mapped[int] = key()
    invoice_id: Mapped[int] = link("invoices.id")
    kind: Mapped[str] = mapped_column(Text)
    """`plan` or `overage`."""
    description: Mapped[str] = mapped_column(Text)
    amount_cents: Mapped[int] = mapped_column(Money)


class Payment(Base):
    __tablename__ = "payments"

    id: Mapped[int] = key()
    invoice_id: Mapped[int] = link("invoices.id")
    customer_id: Mapped[int] = link("customers.id")
    amount_cents: Mapped[int] = mapped_column(Money)
    gateway_ref: Mapped[str] = mapped_column(Text, unique=True)
    paid_at: Mapped[datetime] = mapped_column(Instant)
    voided_at: Mapped[datetime | None] = mapped_column(Instant)
    """`None`: it counts."""
    dispute_window: Mapped[str | None] = mapped_column(Text)
    """`open` while the gateway gives money of it back, `lapsed` when it no longer does; `None`: it has no such window."""


class Refund(Base):
    __tablename__ = "refunds"

    id: Mapped[int] = key()
    payment_id: Mapped[int] = link("payments.id")
    ticket_id: Mapped[int | None] = mapped_column(Id, ForeignKey("tickets.id"), index=True)
    amount_cents: Mapped[int] = mapped_column(Money)
    reason: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(Instant)


class Credit(Base):
    __tablename__ = "credits"

    id: Mapped[int] = key()
    customer_id: Mapped[int] = link("customers.id")
    ticket_id: Mapped[int] = link("tickets.id")
    amount_cents: Mapped[int] = mapped_column(Money)
    reason: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(Instant)


class Dispute(Base):
    __tablename__ = "disputes"

    id: Mapped[int] = key()
    payment_id: Mapped[int] = link("payments.id")
    ticket_id: Mapped[int] = link("tickets.id")
    reason: Mapped[str] = mapped_column(Text)
    opened_at: Mapped[datetime] = mapped_column(Instant)


class Chargeback(Base):
    """Money that a bank fetched back for its customer, against our will."""

    __tablename__ = "chargebacks"

    id: Mapped[int] = key()
    payment_id: Mapped[int] = link("payments.id")
    amount_cents: Mapped[int] = mapped_column(Money)
    received_at: Mapped[datetime] = mapped_column(Instant)
    withdrawn_at: Mapped[datetime | None] = mapped_column(Instant)
    """`None`: it stands."""


class Identity(Base):
    """Something that an account was seen with."""

    __tablename__ = "identities"

    id: Mapped[int] = key()
    customer_id: Mapped[int] = link("customers.id")
    kind: Mapped[str] = mapped_column(Text)
    """`card`, `prepaid_card`, `address` or `device`."""
    value: Mapped[str] = mapped_column(Text, index=True)
    seen_at: Mapped[datetime] = mapped_column(Instant)


class Ticket(Base):
    __tablename__ = "tickets"

    id: Mapped[int] = key()
    customer_id: Mapped[int] = link("customers.id")
    subject: Mapped[str] = mapped_column(Text)
    status: Mapped[str] = mapped_column(Text)
    """`open`, `resolved` or `escalated`."""
    resolution: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(Instant)
    closed_at: Mapped[datetime | None] = mapped_column(Instant)


class Message(Base):
    __tablename__ = "messages"

    id: Mapped[int] = key()
    ticket_id: Mapped[int] = link("tickets.id")
    author: Mapped[str] = mapped_column(Text)
    """`customer` or the agent's id."""
    body: Mapped[str] = mapped_column(Text)
    sent_at: Mapped[datetime] = mapped_column(Instant)


class Queue(Base):
    __tablename__ = "queues"

    id: Mapped[str] = mapped_column(Text, primary_key=True)
    name: Mapped[str] = mapped_column(Text)
    handles: Mapped[str] = mapped_column(Text)


class Escalation(Base):
    __tablename__ = "escalations"

    id: Mapped[int] = key()
    ticket_id: Mapped[int] = link("tickets.id")
    queue_id: Mapped[str] = mapped_column(Text, ForeignKey("queues.id"), index=True)
    note: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(Instant)


class Audit(Base):
    __tablename__ = "audit_log"

    id: Mapped[int] = key()
    at: Mapped[datetime] = mapped_column(Instant)
    agent_id: Mapped[str] = mapped_column(Text)
    action: Mapped[str] = mapped_column(Text)
    ticket_id: Mapped[int | None] = mapped_column(Id, index=True)
    detail: Mapped[Any] = mapped_column(JsonValue)
