"""The company before any ticket: plans, queues, agents, and customers with four months of invoices."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random
from typing import Any

from sqlalchemy import insert
from sqlalchemy.orm import Session

from wardian.envs.worlds.billing.schema import (
    Agent,
    Customer,
    Identity,
    Invoice,
    InvoiceLine,
    Payment,
    Plan,
    Queue,
    Refund,
    Subscription,
    Usage,
)
from wardian.sandbox.streams import stream

NOW = datetime(2026, 6, 15, 9, 0, tzinfo=UTC)
"""World time of the morning on which tickets are worked on."""
PERIODS = ("2026-02", "2026-03", "2026-04", "2026-05")
CUSTOMERS = 80
FIRST_TASK_ID = 100_000
"""Rows that a task adds have ids from here on."""
AGENT_ID = "agent-7"
SEED = 0
"""Of the world's template. Tasks that are about the company's own rows rely on it."""

PLANS = (
    {"id": 1, "code": "starter", "name": "Starter", "monthly_cents": 1900, "included_units": 100, "overage_cents": 12},
    {"id": 2, "code": "team", "name": "Team", "monthly_cents": 4900, "included_units": 500, "overage_cents": 9},
    {"id": 3, "code": "business", "name": "Business", "monthly_cents": 12900, "included_units": 2000, "overage_cents": 7},
    {"id": 4, "code": "scale", "name": "Scale", "monthly_cents": 24900, "included_units": 8000, "overage_cents": 5},
)
PRICES = {str(plan["code"]): int(str(plan["monthly_cents"])) for plan in PLANS}
BY_PRICE = sorted(PRICES, key=lambda code: PRICES[code])
PLAN_IDS = {str(plan["code"]): int(str(plan["id"])) for plan in PLANS}
QUEUES = (
    {"id": "refunds-approval", "name": "Refund approvals", "handles": "Refunds that an agent may not or cannot make."},
    {"id": "legal", "name": "Legal", "handles": "Threats of legal action, regulators, subpoenas."},
    {"id": "fraud", "name": "Fraud", "handles": "Stolen cards, linked accounts, patterns of abuse."},
    {"id": "accounts", "name": "Key accounts", "handles": "Money of contract customers."},
    {"id": "engineering", "name": "Billing engineering", "handles": "Faults of the billing system itself."},
)
SCOPES = ["tickets:write", "refunds:write", "credits:write", "subscriptions:write", "disputes:write", "payments:write"]
STREETS = ("Mill Lane", "Station Road", "Canal Street", "Orchard Way", "Chapel Hill", "Quay Street", "Linden Avenue", "Market Square")
TOWNS = ("Northford", "Elmstead", "Rivermouth", "Ashby", "Stonebridge", "Westholm")
FIRST_NAMES = (
    "Ada",
    "Bela",
    "Cleo",
    "Dario",
    "Edda",
    "Femi",
    "Gita",
    "Hugo",
    "Ines",
    "Jonas",
    "Kira",
    "Luca",
    "Mina",
    "Noor",
    "Otis",
    "Paula",
)
LAST_NAMES = (
    "Albers",
    "Banfi",
    "Castro",
    "Diallo",
    "Engel",
    "Farah",
    "Greco",
    "Hansen",
    "Ivanov",
    "Jansen",
    "Keller",
    "Lopez",
    "Meyer",
    "Novak",
)


@dataclass(frozen=True, slots=True)
class CompanyPayment:
    """A payment of the start state."""

    id: int
    invoice_id: int
    ref: str
    cents: int
    paid_at: datetime
    refunded: bool
    """A refund was made on it."""


@cache
def company_payments() -> tuple[CompanyPayment, ...]:
    """What `seed_rows` puts into the payments table under the world's own seed."""
    rng = stream(SEED, "billing/company")
    rows = history(rng, list(customers(rng)))
    refunded = {row["payment_id"] for row in rows[Refund]}
    payments: list[dict[str, Any]] = rows[Payment]
    return tuple(
        CompanyPayment(row["id"], row["invoice_id"], row["gateway_ref"], row["amount_cents"], row["paid_at"], row["id"] in refunded)
        for row in payments
    )


def seed_rows(session: Session, seed: int) -> None:
    """Fill the start state."""
    rng = stream(seed, "billing/company")
    session.execute(insert(Plan), list(PLANS))
    session.execute(insert(Queue), list(QUEUES))
    session.execute(insert(Agent), [{"id": AGENT_ID, "name": "Robin", "scopes": SCOPES}])
    people = list(customers(rng))
    session.execute(insert(Customer), people)
    for table, rows in history(rng, people).items():
        session.execute(insert(table), rows)
    session.execute(insert(Identity), list(identities(stream(seed, "billing/identities"))))


def identities(rng: Random) -> Iterator[dict[str, object]]:
    """What each customer of the company was seen with; nobody shares anything."""
    for customer_id in range(1, CUSTOMERS + 1):
        for at, kind in enumerate(("card", "address", "device"), start=1):
            seen_at = NOW - timedelta(days=rng.randint(1, 90))
            number = 3 * (customer_id - 1) + at
            yield {"id": number, "customer_id": customer_id, "kind": kind, "value": identity(rng, kind), "seen_at": seen_at}


def identity(rng: Random, kind: str) -> str:
    """Something that an account may be seen with."""
    if kind == "address":
        return f"{rng.randint(1, 999)} {rng.choice(STREETS)}, {rng.choice(TOWNS)}"
    prefix = {"card": "card", "prepaid_card": "prepaid", "device": "dev"}[kind]
    return f"{prefix}_" + "".join(rng.choice("0123456789abcdef") for _ in range(10))


def customers(rng: Random) -> Iterator[dict[str, object]]:
    """People of the company; names repeat, e-mails do not."""
    for number in range(1, CUSTOMERS + 1):
        first, last = rng.choice(FIRST_NAMES), rng.choice(LAST_NAMES)
        yield {
            "id": number,
            "name": f"{first} {last}",
            "email": f"{first}.{last}.{number}@example.com".lower(),
            "segment": "contract" if rng.random() < 0.1 else "standard",
            "created_at": NOW - timedelta(days=rng.randint(200, 1500), minutes=rng.randint(0, 1439)),
        }


def period_start(period: str) -> datetime:
    """The first moment of a month."""
    return datetime.fromisoformat(f"{period}-01T00:00:00+00:00")


def gateway_ref(rng: Random) -> str:
    """A payment's reference at the gateway."""
    return "gw_" + "".join(rng.choice("0123456789abcdef") for _ in range(12))


def history(rng: Random, people: list[dict[str, object]]) -> dict[type, list[dict[str, object]]]:
    """A subscription for each customer, and for each month usage, an invoice with its lines, and its payment."""
    found: dict[type, list[dict[str, object]]] = {Subscription: [], Usage: [], Invoice: [], InvoiceLine: [], Payment: [], Refund: []}
    for person in people:
        plan = rng.choice(PLANS)
        subscription = {
            "id": person["id"],
            "customer_id": person["id"],
            "plan_id": plan["id"],
            "status": "active",
            "started_at": person["created_at"],
            "cancelled_at": None,
        }
        found[Subscription].append(subscription)
        for period in PERIODS:
            add_month(found, rng, subscription, plan, period)
    return found


def add_month(
    found: dict[type, list[dict[str, object]]], rng: Random, subscription: dict[str, object], plan: dict[str, object], period: str
) -> None:
    """One month of one subscription."""
    number = len(found[Invoice]) + 1
    included, over = int(str(plan["included_units"])), 0
    units = rng.randint(included // 3, included + included // 10)
    over = max(0, units - included)
    lines: list[tuple[str, str, int]] = [("plan", f"{plan['name']} plan, {period}", int(str(plan["monthly_cents"])))]
    if over:
        lines.append(("overage", f"{over} units above {included}", over * int(str(plan["overage_cents"]))))
    issued = period_start(period) + timedelta(hours=6)
    total = sum(amount for _, _, amount in lines)
    found[Usage].append({"id": number, "subscription_id": subscription["id"], "period": period, "units": units})
    found[Invoice].append(
        {
            "id": number,
            "customer_id": subscription["customer_id"],
            "subscription_id": subscription["id"],
            "period": period,
            "total_cents": total,
            "issued_at": issued,
        }
    )
    for kind, description, amount in lines:
        row = {"id": len(found[InvoiceLine]) + 1, "invoice_id": number, "kind": kind, "description": description, "amount_cents": amount}
        found[InvoiceLine].append(row)
    payment = {"id": number, "invoice_id": number, "customer_id": subscription["customer_id"], "amount_cents": total}
    found[Payment].append({**payment, "gateway_ref": gateway_ref(rng), "paid_at": issued + timedelta(minutes=rng.randint(5, 600))})
    if rng.random() < 0.03:
        refund = {"id": len(found[Refund]) + 1, "payment_id": number, "ticket_id": None, "amount_cents": total // 4}
        found[Refund].append({**refund, "reason": "goodwill", "created_at": issued + timedelta(days=2)})
