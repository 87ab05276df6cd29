"""What may be between a bank and a ledger: differences that are to be acted on, and look-alikes that are none. One function for each."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta

from wardian.envs.parameters import Between, Parameter, always
from wardian.envs.worlds.billing.books import ROUNDING_CENTS, SETTLES_DAYS, TRANSIT_DAYS, Books, Paid, transposed
from wardian.envs.worlds.billing.seed import gateway_ref


def missing(books: Books) -> None:
    """The bank credited what the ledger has not."""
    day = books.day()
    invoice, customer, cents = books.invoice(day)
    paid = Paid(0, invoice, gateway_ref(books.rng), cents, day)
    value = books.settled(paid)
    books.credited(paid, value)
    books.found("missing", paid.ref, 0, cents)
    what = {"gateway_ref": paid.ref, "amount_cents": cents, "paid_on": f"{value}"}
    books.act("record_payment", invoice_id=invoice, customer_id=customer, **what)


def duplicate(books: Books) -> None:
    """The ledger has a second row of one payment, under the reference with `-R` at its end."""
    paid = books.pay(books.day())
    again = _second_row(books, paid)
    books.exported(paid)
    books.exported(again)
    books.credited(paid, books.settled(paid))
    books.found("duplicate", again.ref, again.payment_id, paid.cents)
    books.act("void_payment", payment_id=again.payment_id, reason="duplicate")


def _second_row(books: Books, paid: Paid) -> Paid:
    """Another row of the same invoice, day and amount, under the reference with `-R` at its end."""
    customer = next(row["customer_id"] for row in books.built.rows["invoices"] if row["id"] == paid.invoice_id)
    ref = f"{paid.ref}-R"
    return replace(paid, ref=ref, payment_id=books.row(paid.invoice_id, int(str(customer)), ref, paid.cents, paid.day))


def wrong_amount(books: Books) -> None:
    """Two digits were changed round in the ledger, or it is off by a cent or two without an exchange rate."""
    paid = books.pay(books.day())
    cents = int(transposed(books.rng, str(paid.cents)))
    if books.rng.random() < 0.3:
        cents = paid.cents + books.rng.choice((-2, -1, 1, 2))
    _set_cents(books, paid, cents)
    books.exported(paid, cents)
    books.credited(paid, books.settled(paid))
    books.found("wrong_amount", paid.ref, paid.payment_id, paid.cents)
    books.act("correct_payment", payment_id=paid.payment_id, amount_cents=paid.cents)


def _set_cents(books: Books, paid: Paid, cents: int) -> None:
    rows = books.built.rows["payments"]
    at = next(number for number, row in enumerate(rows) if row["id"] == paid.payment_id)
    rows[at] = {**rows[at], "amount_cents": cents}


def wrong_reference(books: Books) -> None:
    """Two characters of the reference were changed round in the ledger."""
    paid = books.take()
    ref = transposed(books.rng, paid.ref, first=3)
    books.exported(paid)
    books.credited(paid, books.settled(paid), ref=ref)
    books.found("wrong_reference", ref, paid.payment_id, paid.cents)
    books.act("correct_payment", payment_id=paid.payment_id, gateway_ref=ref)


def wrong_date(books: Books) -> None:
    """The value date is further from the ledger's day than settlement takes, or before it."""
    paid = books.take()
    early = paid.day > books.first + timedelta(days=3) and books.rng.random() < 0.3
    value = paid.day - timedelta(days=books.rng.randint(1, 2)) if early else books.settled(paid, SETTLES_DAYS + 1, SETTLES_DAYS + 6)
    books.exported(paid)
    books.credited(paid, value)
    books.found("wrong_date", paid.ref, paid.payment_id, paid.cents)
    books.act("correct_payment", payment_id=paid.payment_id, paid_on=f"{value}")


def reversed_(books: Books) -> None:
    """The bank credited it and took it back."""
    paid = books.take()
    value = books.settled(paid)
    books.exported(paid)
    books.credited(paid, value)
    books.taken_back(paid, value + timedelta(days=books.rng.randint(1, 4)))
    books.found("reversed", paid.ref, paid.payment_id, paid.cents)
    books.act("void_payment", payment_id=paid.payment_id, reason="reversed")


def not_credited(books: Books) -> None:
    """The bank never credited it, although it had the time."""
    paid = books.take()
    books.exported(paid)
    books.found("not_credited", paid.ref, paid.payment_id, paid.cents)
    books.act("void_payment", payment_id=paid.payment_id, reason="not_credited")


def in_transit(books: Books) -> None:
    """Paid in the last days of the statement, credited after it: to be reported, not acted on."""
    paid = books.pay(books.last - timedelta(days=books.rng.randrange(TRANSIT_DAYS)))
    books.exported(paid)
    books.found("in_transit", paid.ref, paid.payment_id, paid.cents)


def rounding(books: Books) -> None:
    """A cent or two that an exchange rate makes: to be reported, not acted on."""
    paid = books.take()
    off = books.rng.choice((-ROUNDING_CENTS, -1, 1, ROUNDING_CENTS))
    foreign = paid.cents * 108 // 100
    books.exported(paid)
    books.credited(paid, books.settled(paid), kind="FX", off=off, note=f" / USD {foreign // 100}.{foreign % 100:02} at 1.08")
    books.found("rounding", paid.ref, paid.payment_id, off)


def recorded_since(books: Books) -> None:
    """Missing in the export alone: recorded after it was made, or paid before the statement begins."""
    before = books.rng.random() < 0.5
    paid = books.pay(books.first - timedelta(days=1) if before else books.day())
    books.credited(paid, books.settled(paid))


def corrected_since(books: Books) -> None:
    """Wrong in the export alone."""
    paid = books.pay(books.day())
    books.exported(paid, int(transposed(books.rng, str(paid.cents))))
    books.credited(paid, books.settled(paid))


def paid_twice(books: Books) -> None:
    """Two payments of one invoice that the bank credited both, the second under a reference with `-R` at its end."""
    paid = books.pay(books.day())
    for one in (paid, _second_row(books, paid)):
        books.exported(one)
        books.credited(one, books.settled(one))


def credited_again(books: Books) -> None:
    """Credited, taken back, and credited again in time."""
    paid = books.take()
    books.exported(paid)
    books.credited(paid, paid.day + timedelta(days=1))
    books.taken_back(paid, paid.day + timedelta(days=2))
    books.credited(paid, paid.day + timedelta(days=books.rng.randint(3, SETTLES_DAYS)))


def settled_late(books: Books) -> None:
    """Credited on the last day that is still ordinary, or the one before."""
    paid = books.take()
    books.exported(paid)
    books.credited(paid, books.settled(paid, SETTLES_DAYS - 1, SETTLES_DAYS))


def fee_withheld(books: Books) -> None:
    """Credited less the bank's fee, which the line names."""
    paid = books.take()
    books.exported(paid)
    books.credited_less_fee(paid, books.settled(paid))


def plain(books: Books) -> None:
    """A payment of this task's own that is as it should be."""
    paid = books.pay(books.day())
    books.exported(paid)
    books.credited(paid, books.settled(paid))


ITEMS: Mapping[str, Callable[[Books], None]] = {
    "missing": missing,
    "duplicate": duplicate,
    "wrong_amount": wrong_amount,
    "wrong_reference": wrong_reference,
    "wrong_date": wrong_date,
    "reversed": reversed_,
    "not_credited": not_credited,
    "in_transit": in_transit,
    "rounding": rounding,
    "recorded_since": recorded_since,
    "corrected_since": corrected_since,
    "paid_twice": paid_twice,
    "credited_again": credited_again,
    "settled_late": settled_late,
    "fee_withheld": fee_withheld,
    "plain": plain,
}
COUNTS = (
    Parameter("missing", "Payments that the bank credited and the ledger has not", always(1), Between(1, 2), Between(1, 3)),
    Parameter("duplicate", "Rows that the ledger has twice", Between(0, 1), Between(0, 1), Between(1, 2)),
    Parameter("wrong_amount", "Amounts with two digits changed round, or some cents off", Between(0, 1), Between(1, 2), Between(1, 3)),
    Parameter("wrong_reference", "References with two characters changed round", always(0), Between(0, 1), Between(1, 2)),
    Parameter("wrong_date", "Days that no settlement explains", always(0), Between(0, 1), Between(0, 1)),
    Parameter("reversed", "Credits that the bank took back", Between(0, 1), Between(0, 1), Between(1, 2)),
    Parameter("not_credited", "Rows that the bank never credited", always(0), Between(0, 1), Between(0, 1)),
    Parameter("in_transit", "Payments of the last days, to be reported only", always(0), Between(0, 2), Between(1, 3)),
    Parameter("rounding", "Cents that an exchange rate makes, to be reported only", always(0), Between(0, 2), Between(1, 3)),
    Parameter("recorded_since", "Look-alike: missing in the export alone", always(0), Between(0, 1), Between(1, 2)),
    Parameter("corrected_since", "Look-alike: wrong in the export alone", always(0), Between(0, 1), Between(1, 2)),
    Parameter("paid_twice", "Look-alike: two payments of one invoice, both credited", always(0), Between(0, 1), Between(1, 2)),
    Parameter("credited_again", "Look-alike: taken back and credited again", always(0), Between(0, 1), Between(1, 2)),
    Parameter("settled_late", "Look-alike: credited on the last ordinary days", Between(1, 2), Between(2, 4), Between(4, 8)),
    Parameter("fee_withheld", "Look-alike: credited less a fee that the line names", always(0), Between(1, 3), Between(3, 6)),
    Parameter("plain", "Further payments that are right", always(10), Between(20, 30), Between(30, 50)),
)
"""How many of each, in the order of `ITEMS`."""
