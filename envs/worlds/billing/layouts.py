"""How banks write their statements down: three layouts of the same lines, each with a page that says how it is read."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from typing import TypeAlias

from wardian.envs.worlds.billing.books import BankLine
from wardian.sandbox.streams import stream

NOISE = (
    ("SUPPLIER", "Hosting Nord AG invoice", -180_000, -2_000),
    ("SALARY", "salary", -420_000, -210_000),
    ("TRANSFER", "to savings account", -900_000, -50_000),
    ("INTEREST", "interest", 10, 900),
    ("CASHBACK", "purchase card", 100, 4_000),
    ("INSURANCE", "insurance premium", -9_000, -900),
)
"""Lines that do not concern payments: kind, text, and between which cents they lie."""
NOISE_BLOCKS = 4


@dataclass(frozen=True, slots=True)
class Layout:
    file: str
    head: str
    line: Callable[[BankLine], str]
    page: str
    """The text of `format.txt`."""


def _csv(line: BankLine) -> str:
    return f"{line.booked},{line.value},{line.kind},{line.ref},{line.text},{_money(line.cents, '.')}"


def _semicolon(line: BankLine) -> str:
    return f"{line.booked:%d.%m.%Y};{line.value:%d.%m.%Y};{line.kind};{_money(line.cents, ',')};{line.ref};{line.text}"


def _fixed(line: BankLine) -> str:
    sign = "D" if line.cents < 0 else "C"
    return f"{line.booked:%Y%m%d}{line.value:%Y%m%d}{line.kind:<10}{sign}{abs(line.cents):012}{line.ref:<20}{line.text}"


def _money(cents: int, point: str) -> str:
    return f"{'-' if cents < 0 else ''}{abs(cents) // 100}{point}{abs(cents) % 100:02}"


LAYOUTS: Mapping[str, Layout] = {
    "csv": Layout(
        "statement.csv",
        "booked,value,kind,reference,text,amount\n",
        _csv,
        "statement.csv: one line for each movement, fields separated by commas. Days as YYYY-MM-DD; amount in euros with a decimal point,\n"
        "below zero for what leaves the account.\n",
    ),
    "semicolon": Layout(
        "statement.csv",
        "Buchung;Valuta;Art;Betrag;Referenz;Text\n",
        _semicolon,
        "statement.csv: one line for each movement, fields separated by semicolons: booked, value date, kind, amount, reference, text.\n"
        "Days as DD.MM.YYYY; amount in euros with a decimal comma, below zero for what leaves the account.\n",
    ),
    "fixed": Layout(
        "statement.txt",
        "",
        _fixed,
        "statement.txt: one line for each movement, fields by position, counted from 1:\n"
        "   1-8   booked, YYYYMMDD\n"
        "   9-16  value date, YYYYMMDD\n"
        "  17-26  kind, filled up with blanks\n"
        "  27     C: comes in, D: leaves the account\n"
        "  28-39  amount in cents, with leading zeros\n"
        "  40-59  reference, filled up with blanks\n"
        "  60-    text\n",
    ),
}


Keyed: TypeAlias = tuple[tuple[date, str, str, int], str]
"""A line as it is written, and where it stands among the others."""


def keyed(layout: Layout, line: BankLine) -> Keyed:
    """Write a line down."""
    return (line.booked, line.ref, line.kind, line.cents), f"{layout.line(line)}\n"


def written(layout: Layout, lines: Iterable[BankLine], others: Iterable[Keyed], newest_first: bool) -> str:
    """The statement as text: lines of payments among others that are written already."""
    ordered = sorted([*others, *(keyed(layout, line) for line in lines)], reverse=newest_first)
    return layout.head + "".join(text for _, text in ordered)


@cache
def noise(layout: str, first: date, last: date, count: int, block: int) -> tuple[Keyed, ...]:
    """Lines of everything else. Made once, since thousands of draws would be most of a task's generation."""
    rng = stream(block, f"billing/statement/{first}/{last}/{count}")
    lines = []
    for _ in range(count):
        kind, text, low, high = rng.choice(NOISE)
        day = first + timedelta(days=rng.randrange((last - first).days + 1))
        line = BankLine(day, day, kind, f"TRF-{rng.randrange(10**6):06}", f"{text} {rng.randrange(1000)}", rng.randint(low, high))
        lines.append(keyed(LAYOUTS[layout], line))
    return tuple(sorted(lines))
