"""The two sides of a reconciliation: what the ledger has, and what the bank says. Pure; the source of such a task's truth."""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from random import Random

from wardian.envs.worlds.billing.building import Built
from wardian.envs.worlds.billing.seed import CUSTOMERS, company_payments, gateway_ref
from wardian.tools.contract import Json

SETTLES_DAYS = 5
"""Days from a payment to its value date at the bank that are ordinary."""
TRANSIT_DAYS = 3
"""A payment of so many last days of a statement may be credited after it."""
ROUNDING_CENTS = 2
"""Differences that an exchange rate makes."""


@dataclass(frozen=True, slots=True)
class Paid:
    """A payment as it was made."""

    payment_id: int
    """0: the ledger has no row of it."""
    invoice_id: int
    ref: str
    cents: int
    day: date


@dataclass(frozen=True, slots=True)
class BankLine:
    booked: date
    value: date
    kind: str
    """`CARD`, `FX`, `RVSL`, `FEE`, or what does not concern payments."""
    ref: str
    text: str
    cents: int
    """Below zero for what leaves the account."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A row of the ledger's export."""

    payment_id: int
    invoice_id: int
    ref: str
    cents: int
    day: date


@dataclass(slots=True)
class Books:
    """Both sides while they are made, and what a clerk has to find."""

    rng: Random
    built: Built
    first: date
    last: date
    """First and last day of the statement."""
    lines: list[BankLine] = field(default_factory=list)
    export: list[Exported] = field(default_factory=list)
    report: list[dict[str, Json]] = field(default_factory=list)
    acts: list[dict[str, Json]] = field(default_factory=list)
    fees_cents: int = 0
    known: list[Paid] = field(default_factory=list)
    """Payments of the company that no item has taken yet, in a drawn order."""
    refunded: list[Paid] = field(default_factory=list)
    """Payments of the company that no item may take: they have refunds, so they cannot be void."""

    def open_company(self) -> None:
        """Take the company's payments of these days."""
        for row in company_payments():
            if self.first <= row.paid_at.date() <= self.last:
                paid = Paid(row.id, row.invoice_id, row.ref, row.cents, row.paid_at.date())
                (self.refunded if row.refunded else self.known).append(paid)
        self.rng.shuffle(self.known)

    def close_company(self) -> None:
        """What no item has taken is right on both sides."""
        for paid in (*self.known, *self.refunded):
            self.exported(paid)
            self.credited(paid, self.settled(paid))

    def take(self) -> Paid:
        """A payment that is right in the ledger, of the company or one of this task's own."""
        if self.known and self.rng.random() < 0.5:
            return self.known.pop()
        return self.pay(self.day())

    def day(self) -> date:
        """A day whose payments the bank credits within the statement."""
        return self.first + timedelta(days=self.rng.randrange((self.last - self.first).days - SETTLES_DAYS - 8))

    def invoice(self, day: date) -> tuple[int, int, int]:
        """A further invoice of a customer of the company; gives it, the customer and its total."""
        customer, cents = self.rng.randint(1, CUSTOMERS), self.rng.randint(1_000, 60_000)
        while len(set(str(cents))) < 3:
            cents += 37  # so that two neighbouring digits differ
        issued = datetime.combine(day - timedelta(days=1), time(6), UTC)
        number = self.built.add(
            "invoices", customer_id=customer, subscription_id=customer, period=f"{day:%Y-%m}", total_cents=cents, issued_at=issued
        )
        self.built.add("invoice_lines", invoice_id=number, kind="overage", description="units above the included ones", amount_cents=cents)
        return number, customer, cents

    def row(self, invoice: int, customer: int, ref: str, cents: int, day: date) -> int:
        """A row of the payments table."""
        at = datetime.combine(day, time(self.rng.randrange(24), self.rng.randrange(60)), UTC)
        return self.built.add("payments", invoice_id=invoice, customer_id=customer, amount_cents=cents, gateway_ref=ref, paid_at=at)

    def pay(self, day: date, ledger_cents: int | None = None) -> Paid:
        """An invoice of this task and its payment; the ledger may have another amount."""
        invoice, customer, cents = self.invoice(day)
        ref = gateway_ref(self.rng)
        number = self.row(invoice, customer, ref, cents if ledger_cents is None else ledger_cents, day)
        return Paid(number, invoice, ref, cents, day)

    def exported(self, paid: Paid, cents: int | None = None) -> None:
        """The ledger's export has it."""
        self.export.append(Exported(paid.payment_id, paid.invoice_id, paid.ref, paid.cents if cents is None else cents, paid.day))

    def settled(self, paid: Paid, low: int = 1, high: int = 3) -> date:
        """A value date so many days after the payment."""
        return paid.day + timedelta(days=self.rng.randint(low, high))

    def credited(self, paid: Paid, value: date, *, kind: str = "CARD", ref: str = "", off: int = 0, note: str = "") -> None:
        """The bank credits it, `off` cents aside, and charges its fee on a line of its own."""
        fee = self.fee(paid)
        self.lines.append(BankLine(value, value, kind, ref or paid.ref, f"INV {paid.invoice_id}{note}", paid.cents + off))
        self.lines.append(BankLine(value, value, "FEE", ref or paid.ref, "card fee", -fee))

    def credited_less_fee(self, paid: Paid, value: date) -> None:
        """The bank credits it less its fee."""
        fee = self.fee(paid)
        text = f"INV {paid.invoice_id} / fee {fee // 100}.{fee % 100:02} withheld"
        self.lines.append(BankLine(value, value, "CARD", paid.ref, text, paid.cents - fee))

    def fee(self, paid: Paid) -> int:
        """What the bank takes for it."""
        fee = 25 + paid.cents * 14 // 1000
        self.fees_cents += fee
        return fee

    def taken_back(self, paid: Paid, value: date) -> None:
        """The bank reverses a credit."""
        self.lines.append(BankLine(value, value, "RVSL", paid.ref, f"INV {paid.invoice_id} reversal", -paid.cents))

    def found(self, kind: str, ref: str, payment_id: int, cents: int) -> None:
        """A line of the report; `payment_id` 0: that of the row which is to be recorded."""
        self.report.append({"kind": kind, "reference": ref, "payment_id": payment_id or None, "amount_cents": cents})

    def act(self, act: str, **what: Json) -> None:
        """An act that the difference asks for."""
        self.acts.append({"act": act, **what})


def transposed(rng: Random, text: str, first: int = 0) -> str:
    """Two neighbouring characters, from position `first` on, that differ, changed round."""
    places = [at for at in range(first, len(text) - 1) if text[at] != text[at + 1] and not (at == 0 and text[1] == "0")]
    at = rng.choice(places)
    return text[:at] + text[at + 1] + text[at] + text[at + 2 :]
