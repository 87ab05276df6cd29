"""From a case to a task's rows and files: the concrete customer, invoices, payments, messages, and what stands around them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

from wardian.envs.worlds.billing.cases import Case, Kind, total_cents
from wardian.envs.worlds.billing.evidence import DECISIVE, GATEWAY, Movement, Papers, evidence
from wardian.envs.worlds.billing.letters import CLAIMS, SUBJECTS, letters
from wardian.envs.worlds.billing.looks import file_look
from wardian.envs.worlds.billing.pages import old_pages
from wardian.envs.worlds.billing.scene import Scene
from wardian.envs.worlds.billing.seed import (
    FIRST_NAMES,
    FIRST_TASK_ID,
    LAST_NAMES,
    NOW,
    PERIODS,
    PLAN_IDS,
    PRICES,
    gateway_ref,
    period_start,
)
from wardian.sandbox.files import FileEntry, FileLayer
from wardian.tools.contract import Json

TABLES = (
    "customers",
    "subscriptions",
    "invoices",
    "invoice_lines",
    "payments",
    "tickets",
    "messages",
    "refunds",
    "identities",
    "chargebacks",
)
MONTH_BEFORE = "2026-01"
"""Billed as well where the first month is in question, so that there is another invoice in any case."""
TICKET_ID = FIRST_TASK_ID + 1
FOLDER = f"/workspace/tickets/{TICKET_ID}"


@dataclass(slots=True)
class Built:
    """A task's rows by table, its files, and where the case stands in them."""

    customer_id: int = 0
    subscription_id: int = 0
    invoice_id: int = 0
    payment_id: int = 0
    """The payment in question."""
    twins: list[int] = field(default_factory=list)
    """Further subscriptions of the customer."""
    refs: list[str] = field(default_factory=list)
    """What the gateway calls the payments of the invoice in question."""
    movements: list[Movement] = field(default_factory=list)
    rows: dict[str, list[Mapping[str, object]]] = field(default_factory=lambda: {name: [] for name in TABLES})
    files: dict[str, FileEntry] = field(default_factory=dict)

    @property
    def ticket_id(self) -> int:
        return TICKET_ID

    def add(self, table: str, **row: object) -> int:
        """Append a row under the table's next id."""
        number = FIRST_TASK_ID + len(self.rows[table]) + 1
        self.rows[table].append({"id": number, **row})
        return number

    def write(self, path: str, text: str) -> None:
        """Add a file."""
        self.files[path] = FileEntry(text.encode())

    def frozen_rows(self) -> dict[str, tuple[Mapping[str, object], ...]]:
        return {name: tuple(rows) for name, rows in self.rows.items() if rows}

    def layer(self) -> FileLayer:
        return FileLayer(self.files)


def claim_look(built: Built, kind: Kind) -> dict[str, Json]:
    """The look at a file without which a claim cannot be decided."""
    number = str(built.subscription_id)
    passages = {
        Kind.DOUBLE_CHARGE: lambda: [found for ref in built.refs for found in _moves(built, ref, r"captured|reversed")],
        Kind.WRONG_PLAN: lambda: _found(built, DECISIVE[kind], rf"^Subscription: {number}\n(?:[^V\n].*\n)+(?!VOID)", number),
        Kind.AFTER_CANCELLATION: lambda: _found(built, DECISIVE[kind], rf"^Cancellation confirmed: .*, subscription {number}$", number),
        Kind.PRORATION: lambda: _found(built, DECISIVE[kind], rf"^.*,{number},.*$", number),
    }
    return file_look(f"{FOLDER}/{DECISIVE[kind]}", passages[kind]())


def gateway_look(built: Built) -> dict[str, Json]:
    """The look at the chargeback of the payment in question."""
    return file_look(f"{FOLDER}/{GATEWAY}", _moves(built, built.refs[-1], "chargeback.*"))


def _moves(built: Built, ref: str, events: str) -> list[tuple[str, str]]:
    return _found(built, GATEWAY, rf"^[^,]*,{ref},(?:{events}),.*$", ref)


def _found(built: Built, name: str, pattern: str, record: str) -> list[tuple[str, str]]:
    """Passages of a file about a record."""
    text = built.files[f"{FOLDER}/{name}"].data.decode()
    found = [(record, one.strip()) for one in re.findall(pattern, text, re.MULTILINE)]
    assert found, f"{name} says nothing of {record}"
    return found


def build(case: Case, scene: Scene, rng: Random) -> Built:
    """Make everything of a case. The order of draws is part of the task's identity."""
    built = Built()
    first, last = rng.choice(FIRST_NAMES), rng.choice(LAST_NAMES)
    place = rng.randrange(scene.look_alikes + 1)
    for number in range(scene.look_alikes + 1):
        name = f"{first} {last}" if number == place else f"{first} {last}{rng.choice(('', ' jr.', 's', 'e'))}"
        if number == place:
            _main_customer(built, rng, name, case, scene)
        else:
            account(built, rng, customer(built, rng, name, case.other_segment), case.billed_plan)
    _tickets(built, rng, case, scene)
    if case.prior_cents:
        paid_at = period_start(case.period) + timedelta(days=9)
        built.add(
            "refunds", payment_id=built.payment_id, ticket_id=None, amount_cents=case.prior_cents, reason="goodwill", created_at=paid_at
        )
    papers = Papers(case, scene, built.subscription_id, tuple(built.twins), tuple(built.movements))
    for name, text in evidence(rng, papers).items():
        built.write(f"{FOLDER}/{name}", text)
    for path, text in old_pages(rng, scene.old_pages).items():
        built.write(path, text)
    return built


def customer(built: Built, rng: Random, name: str, segment: str) -> int:
    """A customer of that name."""
    address = f"{name.lower().replace(' ', '.').replace('..', '.')}.{rng.randrange(10**6)}.{len(built.rows['customers'])}@example.org"
    return built.add("customers", name=name, email=address, segment=segment, created_at=NOW - timedelta(days=400))


def _main_customer(built: Built, rng: Random, name: str, case: Case, scene: Scene) -> None:
    """The ticket's customer: the subscription in question, and its twins in some order."""
    built.customer_id = customer(built, rng, name, case.segment)
    before = rng.randrange(scene.twin_subscriptions + 1)
    for number in range(scene.twin_subscriptions + 1):
        if number == before:
            _disputed_account(built, rng, case)
        else:
            subscription, paid = account(built, rng, built.customer_id, case.billed_plan)
            built.twins.append(subscription)
            built.movements.append(_movement(case, *paid[case.period], PRICES[case.billed_plan], case.events_elsewhere))
    if not built.twins and case.events_elsewhere:
        at = period_start(case.period) + timedelta(hours=rng.randint(7, 200))
        built.movements.append(_movement(case, gateway_ref(rng), at, PRICES[case.billed_plan], case.events_elsewhere))


def _disputed_account(built: Built, rng: Random, case: Case) -> None:
    """The subscription in question, with the payments that the case is about."""
    plan = case.other_plan if case.kind is Kind.PRORATION else case.billed_plan
    built.subscription_id = _subscription(built, built.customer_id, plan)
    for period in (MONTH_BEFORE, *PERIODS) if case.period == PERIODS[0] else PERIODS:
        if case.kind is Kind.AFTER_CANCELLATION and period > case.period:
            break  # who cancelled was not billed after the month in question
        if period == case.period:
            _disputed_month(built, rng, case)
        else:
            _month(built, rng, built.customer_id, built.subscription_id, case.billed_plan, period)


def _disputed_month(built: Built, rng: Random, case: Case) -> None:
    """The invoice in question and its payments; the last one is the payment in question."""
    total = total_cents(case)
    extra = (("overage", "units above the included ones", case.overage_cents), ("discount", "loyalty discount", -case.discount_cents))
    built.invoice_id, issued = _invoice(built, built.customer_id, built.subscription_id, case.billed_plan, case.period, total)
    for kind, description, cents in extra:
        if cents:
            built.add("invoice_lines", invoice_id=built.invoice_id, kind=kind, description=description, amount_cents=cents)
    first = issued + timedelta(minutes=rng.randint(5, 500))
    last = first if case.paid_days is None else NOW - timedelta(days=case.opened_days + case.paid_days, minutes=rng.randint(0, 500))
    if case.kind is Kind.DOUBLE_CHARGE:
        _, ref = _payment(built, rng, built.invoice_id, built.customer_id, total, first)
        built.refs.append(ref)
        built.movements.append(_movement(case, ref, first, total))
        last = last if last > first else first + timedelta(hours=17)
    returned = (total * case.returned_percent // 100 if case.founded else total) if case.kind is Kind.DOUBLE_CHARGE else 0
    built.payment_id, ref = _payment(built, rng, built.invoice_id, built.customer_id, total, last)
    built.refs.append(ref)
    built.movements.append(_movement(case, ref, last, total, case.later_events, returned))


def _movement(case: Case, ref: str, at: datetime, cents: int, events: tuple[str, ...] = (), returned: int = 0) -> Movement:
    later = [("reversed", returned)] if returned else []
    at_s = int((at - period_start(case.period)).total_seconds())
    return Movement(ref, cents, at_s, (*later, *((event, cents) for event in events)))


def account(built: Built, rng: Random, customer_id: int, plan: str) -> tuple[int, dict[str, tuple[str, datetime]]]:
    """An undisputed subscription, paid month by month; gives it, and reference and time of each month's payment."""
    subscription = _subscription(built, customer_id, plan)
    return subscription, {period: _month(built, rng, customer_id, subscription, plan, period) for period in PERIODS}


def _subscription(built: Built, customer_id: int, plan: str) -> int:
    started = NOW - timedelta(days=390)
    common = {"customer_id": customer_id, "plan_id": PLAN_IDS[plan], "status": "active"}
    return built.add("subscriptions", **common, started_at=started, cancelled_at=None)


def _month(built: Built, rng: Random, customer_id: int, subscription: int, plan: str, period: str) -> tuple[str, datetime]:
    """An invoice of the plan's price, and its payment."""
    invoice, issued = _invoice(built, customer_id, subscription, plan, period, PRICES[plan])
    at = issued + timedelta(minutes=rng.randint(5, 500))
    _, ref = _payment(built, rng, invoice, customer_id, PRICES[plan], at)
    return ref, at


def _invoice(built: Built, customer_id: int, subscription: int, plan: str, period: str, total: int) -> tuple[int, datetime]:
    issued = period_start(period) + timedelta(hours=6)
    invoice = built.add(
        "invoices", customer_id=customer_id, subscription_id=subscription, period=period, total_cents=total, issued_at=issued
    )
    built.add("invoice_lines", invoice_id=invoice, kind="plan", description=f"{plan} plan, {period}", amount_cents=PRICES[plan])
    return invoice, issued


def _payment(built: Built, rng: Random, invoice: int, customer_id: int, cents: int, at: datetime) -> tuple[int, str]:
    ref = gateway_ref(rng)
    row = {"invoice_id": invoice, "customer_id": customer_id, "amount_cents": cents, "gateway_ref": ref, "paid_at": at}
    return built.add("payments", **row, dispute_window=None), ref


def _tickets(built: Built, rng: Random, case: Case, scene: Scene) -> None:
    """The ticket, and after it an open one of each look-alike with the same claim on an invoice of their own."""
    at = NOW - timedelta(days=case.opened_days, hours=5)
    mine = [row["id"] for row in built.rows["invoices"] if row["customer_id"] == built.customer_id and row["id"] != built.invoice_id]
    claim = _claim(case, built.invoice_id)
    _ticket(built, case, built.customer_id, at, letters(rng, scene, claim, rng.choice(mine), case.remarks))
    theirs = {row["customer_id"]: row["id"] for row in built.rows["invoices"] if row["period"] == case.period}
    theirs.pop(built.customer_id)
    for number, (customer_id, invoice_id) in enumerate(theirs.items(), start=1):
        _ticket(built, case, customer_id, at - timedelta(minutes=7 * number), [_claim(case, invoice_id)])


def _claim(case: Case, invoice_id: object) -> str:
    asked = total_cents(case) if case.kind in (Kind.DOUBLE_CHARGE, Kind.AFTER_CANCELLATION) else PRICES[case.billed_plan]
    return CLAIMS[case.kind].format(invoice=invoice_id, asked=asked)


def _ticket(built: Built, case: Case, customer_id: object, at: datetime, bodies: list[str]) -> None:
    common = {"customer_id": customer_id, "subject": SUBJECTS[case.kind], "status": "open", "resolution": None}
    ticket_id = built.add("tickets", **common, created_at=at, closed_at=None)
    for number, body in enumerate(bodies):
        built.add("messages", ticket_id=ticket_id, author="customer", body=body, sent_at=at + timedelta(minutes=20 * number))
