"""A reconciliation task: the finance desk's ticket, the bank's statement, the ledger's export, and what is right to do about them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random
from typing import Any

from wardian.envs.parameters import Between, OneOf, Parameter, always
from wardian.envs.worlds.billing.books import Books
from wardian.envs.worlds.billing.building import FOLDER, TICKET_ID, Built
from wardian.envs.worlds.billing.differences import COUNTS, ITEMS
from wardian.envs.worlds.billing.layouts import LAYOUTS, NOISE_BLOCKS, noise, written
from wardian.envs.worlds.billing.looks import file_look, tool_look
from wardian.envs.worlds.billing.pages import old_pages
from wardian.envs.worlds.billing.scene import NEWEST_FIRST, OLDEST_FIRST
from wardian.envs.worlds.billing.seed import NOW, PERIODS, period_start
from wardian.tools.contract import Json

REPORTS = "/workspace/reports"
REPORT = f"{REPORTS}/{TICKET_ID}.csv"
COLUMNS = ("kind", "reference", "payment_id", "amount_cents")
LEDGER = "ledger.csv"
VOIDS_FIRST, RECORDS_FIRST, ANY = "voids_first", "records_first", "any"
ORDERS = {
    VOIDS_FIRST: "For the auditors: void first what has to be void, before you record anything.",
    RECORDS_FIRST: "For the auditors: record first what is missing, before you void anything.",
    ANY: "",
}
HINT = "Somebody here thinks that something is wrong with payment {payment}. Perhaps, perhaps not."
SURROUNDINGS = (
    Parameter("months", "Months of the statement", always(1), always(2), OneOf((2, 4))),
    Parameter("noise_lines", "Lines that do not concern payments", always(60), always(300), OneOf((900, 1500))),
    Parameter("layout", "How the bank writes its statement", always("csv"), OneOf(tuple(LAYOUTS)), OneOf(tuple(LAYOUTS))),
    Parameter(
        "evidence_order",
        "Order of the lines in statement and export",
        always(OLDEST_FIRST),
        OneOf((OLDEST_FIRST, NEWEST_FIRST)),
        OneOf((OLDEST_FIRST, NEWEST_FIRST)),
    ),
    Parameter("act_order", "The order that the finance desk wants", always(ANY), OneOf(tuple(ORDERS)), OneOf((VOIDS_FIRST, RECORDS_FIRST))),
    Parameter("hints", "Guesses of the finance desk about payments, mostly wrong", always(0), Between(0, 1), Between(1, 2)),
    Parameter("other_tickets", "Open tickets of the finance desk about other statements", always(0), Between(0, 1), Between(1, 2)),
    Parameter("old_reports", "Reports on former statements, in a former format", always(0), Between(0, 1), Between(1, 2)),
    Parameter("old_pages", "Obsolete pages of the manual in `/workspace/policies`", always(0), Between(1, 2), Between(2, 4)),
)
PARAMETERS = (*SURROUNDINGS, *COUNTS)


@dataclass(frozen=True, slots=True)
class Statement:
    """A made task."""

    built: Built
    truth: dict[str, Json]


def reconcile(drawn: Mapping[str, Any], rng: Random) -> Statement:
    """Make both sides and the ticket. The order of draws is part of the task's identity."""
    built = Built()
    first, last = _days(rng, drawn["months"])
    books = Books(rng, built, first, last)
    books.open_company()
    for name, add in ITEMS.items():
        for _ in range(drawn[name]):
            add(books)
    books.close_company()
    rng.shuffle(books.acts)
    _ticket(books, drawn)
    _files(books, drawn)
    return Statement(built, _truth(books, drawn))


def _days(rng: Random, months: int) -> tuple[date, date]:
    """First and last day of so many months."""
    at = rng.randrange(len(PERIODS) - months + 1)
    after = period_start(PERIODS[at + months - 1]).date() + timedelta(days=32)
    return period_start(PERIODS[at]).date(), after.replace(day=1) - timedelta(days=1)


def _ticket(books: Books, drawn: Mapping[str, Any]) -> None:
    built, rng = books.built, books.rng
    built.customer_id = built.add(
        "customers", name="Finance desk", email="finance@example.com", segment="standard", created_at=NOW - timedelta(days=900)
    )
    asked = (
        f"Please reconcile the bank statement from {books.first} to {books.last} with our ledger. Statement, format and export of the "
        f"ledger are in the folder of the ticket; we need the report at {REPORT}."
    )
    hints = [HINT.format(payment=rng.choice(books.export).payment_id) for _ in range(drawn["hints"])]
    around = [text for text in (ORDERS[drawn["act_order"]], *hints) if text]
    rng.shuffle(around)
    _open(built, [asked, *around], "Reconcile the bank statement", 4)
    for number in range(drawn["other_tickets"]):
        _open(built, [f"The statement of account {number + 2} comes tomorrow. Nothing to do yet."], "Another bank statement", 9 + number)


def _open(built: Built, bodies: list[str], subject: str, hours: int) -> None:
    at = NOW - timedelta(hours=hours)
    common = {"customer_id": built.customer_id, "subject": subject, "status": "open", "resolution": None}
    ticket = built.add("tickets", **common, created_at=at, closed_at=None)
    for number, body in enumerate(bodies):
        built.add("messages", ticket_id=ticket, author="customer", body=body, sent_at=at + timedelta(minutes=7 * number))


def _files(books: Books, drawn: Mapping[str, Any]) -> None:
    built, rng = books.built, books.rng
    layout, newest_first = LAYOUTS[drawn["layout"]], drawn["evidence_order"] == NEWEST_FIRST
    others = noise(drawn["layout"], books.first, books.last, drawn["noise_lines"], rng.randrange(NOISE_BLOCKS))
    built.write(f"{FOLDER}/{layout.file}", written(layout, books.lines, others, newest_first))
    built.write(f"{FOLDER}/format.txt", layout.page)
    rows = sorted(books.export, key=lambda row: (row.day, row.payment_id), reverse=newest_first)
    lines = [f"{row.payment_id},{row.invoice_id},{row.ref},{row.cents},{row.day}" for row in rows]
    built.write(f"{FOLDER}/{LEDGER}", "\n".join(["payment_id,invoice_id,reference,amount_cents,paid_on", *lines, ""]))
    for number in range(drawn["old_reports"]):
        built.write(f"{REPORTS}/{TICKET_ID - 61 - 13 * number}.csv", _old_report(rng))
    for path, text in old_pages(rng, drawn["old_pages"]).items():
        built.write(path, text)


def _old_report(rng: Random) -> str:
    lines = [
        f"{rng.choice(('lost', 'twice', 'typo'))};{rng.randrange(1, 300)};{rng.randrange(10, 400)},{rng.randrange(100):02}"
        for _ in range(4)
    ]
    return "\n".join(["what;payment;euros", *lines, ""])


def _truth(books: Books, drawn: Mapping[str, Any]) -> dict[str, Json]:
    layout = LAYOUTS[drawn["layout"]]
    fees = {"kind": "fees", "reference": "", "payment_id": None, "amount_cents": books.fees_cents}
    return {
        "ticket_id": TICKET_ID,
        "customer_id": books.built.customer_id,
        "resolution": "reconciled",
        "first_day": str(books.first),
        "last_day": str(books.last),
        "report": [*books.report, fees],
        "acts": books.acts,
        "evidence": [file_look(f"{FOLDER}/{name}", ()) for name in (layout.file, LEDGER)],
    }


def current_look(act: Mapping[str, Any], invoice_of: Mapping[int, int]) -> dict[str, Json]:
    """The look at a current record that has to come before an act."""
    if act["act"] == "record_payment":
        return tool_look(["get_invoice"], invoice_id=act["invoice_id"])
    return tool_look(["get_payment", "get_invoice"], payment_id=act["payment_id"], invoice_id=invoice_of[act["payment_id"]])
