"""Accounts that belong together: what each was seen with, which are linked by that, and whose money went back twice.

Pure; the source of truth of the family `chargeback-fraud`. Its rows are added after those of the ticket, so that no other family's change.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any

from wardian.envs.parameters import Between, Constraint, OneOf, Parameter, always, everywhere
from wardian.envs.worlds.billing.building import TICKET_ID, Built, account, customer
from wardian.envs.worlds.billing.looks import tool_look
from wardian.envs.worlds.billing.seed import BY_PRICE, FIRST_NAMES, LAST_NAMES, NOW, identity
from wardian.tools.contract import Json

CARD, PREPAID, ADDRESS, DEVICE = "card", "prepaid_card", "address", "device"
KINDS = (CARD, PREPAID, ADDRESS, DEVICE)
PATTERN = 2
"""Payments whose money went back twice make a pattern, from so many on."""
LOOK_BACK_DAYS = 180
"""A chargeback counts when it came so many days before the ticket was opened, or fewer."""
PREPAID_SHARE = 0.4
"""Of accounts that were seen with a prepaid card too."""
ABUSE = ("shared_card", "shared_home", "chain")
INNOCENT = ("household", "public_device", "prepaid", "once", "withdrawn", "long_ago", "other_payments", "clean")
MEANING = {
    "shared_card": "accounts with the card of the ticket's customer, and a pattern",
    "shared_home": "accounts with both address and device of theirs, and a pattern",
    "chain": "the pattern is of accounts that are linked by way of another one",
    "household": "the pattern is of accounts that share the address alone",
    "public_device": "the pattern is of accounts that share the device alone",
    "prepaid": "the pattern is of accounts that share a prepaid card alone",
    "once": "one payment of a linked account went back twice",
    "withdrawn": "the chargebacks of the linked accounts were withdrawn, all but one",
    "long_ago": "the chargebacks are older than counts, all but one",
    "other_payments": "refunds and chargebacks of the linked accounts are of different payments, all but one",
    "clean": "linked accounts with nothing but refunds",
}
"""By scenario, what it is."""
TABLE = (
    # As much abuse as there is of what looks like it.
    everywhere("scenario", "What links the accounts, and whether they abuse refunds", OneOf((*ABUSE * 8, *INNOCENT * 3))),
    Parameter("linked", "Further accounts that belong to the ticket's customer", always(1), Between(1, 2), Between(2, 3)),
    Parameter("doubled", "Payments whose money went back twice, or looks as if it had", always(2), Between(2, 3), Between(2, 4)),
    Parameter("strangers", "Accounts that share one thing with those, which links nobody", Between(0, 1), Between(1, 2), Between(2, 3)),
)

FEWER = Constraint(
    "doubled", always(PATTERN), {"scenario": always("other_payments")}, "an account has four payments, and this takes two each"
)


@dataclass(slots=True)
class Ring:
    """Accounts while they are made."""

    rng: Random
    built: Built
    seen: dict[int, dict[str, str]] = field(default_factory=dict)
    """By account: what it was seen with, by kind."""
    payments: dict[int, list[int]] = field(default_factory=dict)
    """By account: payments that nothing has happened to yet."""

    def join(self, customer_id: int, payments: list[int], **shared: str) -> int:
        """Take an account in; what it does not share is its own."""
        kinds = KINDS if self.rng.random() < PREPAID_SHARE else (CARD, ADDRESS, DEVICE)
        self.seen[customer_id] = {kind: identity(self.rng, kind) for kind in kinds} | shared
        self.payments[customer_id] = payments
        return customer_id

    def open(self, **shared: str) -> int:
        """A new account, with a subscription that is paid month by month."""
        name = f"{self.rng.choice(FIRST_NAMES)} {self.rng.choice(LAST_NAMES)}"
        number = customer(self.built, self.rng, name, "standard")
        before = len(self.built.rows["payments"])
        account(self.built, self.rng, number, self.rng.choice(BY_PRICE))
        return self.join(number, [_id(row) for row in self.built.rows["payments"][before:]], **shared)

    def take(self, customer_id: int) -> int:
        """A payment of an account that nothing has happened to."""
        return self.payments[customer_id].pop(self.rng.randrange(len(self.payments[customer_id])))

    def refund(self, payment_id: int, days: int) -> None:
        """We gave it back, so many days ago."""
        row = {"payment_id": payment_id, "ticket_id": None, "amount_cents": self.cents(payment_id), "reason": "goodwill"}
        self.built.add("refunds", **row, created_at=NOW - timedelta(days=days))

    def charge_back(self, payment_id: int, days: int, *, withdrawn: bool = False) -> None:
        """The bank fetched it back, so many days ago."""
        at = NOW - timedelta(days=days, hours=self.rng.randint(1, 6))
        back = at + timedelta(days=self.rng.randint(2, 6)) if withdrawn else None
        self.built.add("chargebacks", payment_id=payment_id, amount_cents=self.cents(payment_id), received_at=at, withdrawn_at=back)

    def cents(self, payment_id: int) -> int:
        """Amount of a payment."""
        return next(int(str(row["amount_cents"])) for row in self.built.rows["payments"] if row["id"] == payment_id)

    def write_down(self) -> None:
        """What each account was seen with, as rows in a drawn order."""
        rows = [(number, kind, value) for number, things in self.seen.items() for kind, value in things.items()]
        self.rng.shuffle(rows)
        for number, kind, value in rows:
            seen_at = NOW - timedelta(days=self.rng.randint(1, 60))
            self.built.add("identities", customer_id=number, kind=kind, value=value, seen_at=seen_at)


def _id(row: Mapping[str, object]) -> int:
    return int(str(row["id"]))


def add_ring(built: Built, rng: Random, drawn: Mapping[str, Any]) -> Ring:
    """Add the accounts of a scenario, and what went back to them."""
    ring = Ring(rng, built)
    mine = [_id(row) for row in built.rows["payments"] if row["customer_id"] == built.customer_id]
    first = ring.join(built.customer_id, [number for number in mine if number not in _in_question(built)])
    group, guilty = _accounts(ring, first, drawn["scenario"], drawn["linked"])
    for number in range(drawn["strangers"]):
        kind = (ADDRESS, DEVICE)[number % 2]
        stranger = ring.open(**{kind: ring.seen[group[number % len(group)]][kind]})
        ring.refund(ring.take(stranger), rng.randint(20, 60))
    _money_back(ring, guilty, drawn["scenario"], drawn["doubled"])
    ring.write_down()
    return ring


def _in_question(built: Built) -> set[int]:
    """Payments of the invoice in question, of which the claim is."""
    return {_id(row) for row in built.rows["payments"] if row["invoice_id"] == built.invoice_id}


def _accounts(ring: Ring, first: int, scenario: str, count: int) -> tuple[list[int], list[int]]:
    """The further accounts of a scenario; gives those that are linked, the first included, and those whose money goes back twice."""
    things = ring.seen[first]
    card, home = {CARD: things[CARD]}, {ADDRESS: things[ADDRESS], DEVICE: things[DEVICE]}
    match scenario:
        case "household" | "public_device" | "prepaid":
            shared = {"household": ADDRESS, "public_device": DEVICE, "prepaid": PREPAID}[scenario]
            value = things.setdefault(shared, identity(ring.rng, shared))
            others = [ring.open(**{shared: value}) for _ in range(count)]
            return [first], others
        case "chain":
            between = ring.open(**card)
            link = {kind: ring.seen[between][kind] for kind in (ADDRESS, DEVICE)}
            others = [ring.open(**link) for _ in range(count)]
            return [first, between, *others], others
        case "shared_home":
            others = [ring.open(**home) for _ in range(count)]
        case _:
            others = [ring.open(**(card if number % 2 == 0 else home)) for number in range(count)]
    return [first, *others], others


def _money_back(ring: Ring, guilty: list[int], scenario: str, count: int) -> None:
    """So many payments with a refund and a chargeback; in innocent scenarios all but one of them do not count."""
    spoilt = {"withdrawn", "long_ago", "other_payments", "clean"}
    for number in range(1 if scenario == "once" else count):
        owner = guilty[number % len(guilty)]
        payment, days = ring.take(owner), ring.rng.randint(10, 60)
        ring.refund(payment, days)
        if scenario == "clean":
            continue
        if scenario not in spoilt or number == 0:
            ring.charge_back(payment, days - 5)
        elif scenario == "withdrawn":
            ring.charge_back(payment, days, withdrawn=True)
        elif scenario == "long_ago":
            ring.charge_back(payment, LOOK_BACK_DAYS + ring.rng.randint(3, 40))
        else:
            ring.charge_back(ring.take(owner), days - 5)


@dataclass(frozen=True, slots=True)
class Finding:
    """What the manual makes of the accounts."""

    linked: tuple[int, ...]
    """Accounts that are linked to the ticket's customer, who is among them."""
    doubled: tuple[int, ...]
    """Payments whose money went back twice and counts."""
    abusers: tuple[int, ...]
    """Accounts that these are of."""
    cents: int
    """Charged back on these payments."""

    @property
    def is_abuse(self) -> bool:
        return len(self.doubled) >= PATTERN

    @property
    def facts(self) -> tuple[int, ...]:
        """Numbers that a note must name."""
        return (*self.abusers, self.cents)

    def looks(self) -> tuple[dict[str, Json], ...]:
        """Without which nobody knows that: what the customer was seen with, and what went back to each linked account."""
        own = self.linked if self.is_abuse or len(self.linked) > 1 else ()
        return (
            tool_look(["list_identities"], customer_id=self.linked[0]),
            tool_look(["find_accounts"]),
            *(tool_look(["list_chargebacks"], customer_id=number) for number in own),
        )


def finding(built: Built, opened: datetime) -> Finding:
    """Judge the rows by the manual, whatever the scenario was called."""
    seen: dict[int, dict[str, str]] = {}
    for row in built.rows["identities"]:
        seen.setdefault(int(str(row["customer_id"])), {})[str(row["kind"])] = str(row["value"])
    group = [built.customer_id]
    for one in group:  # grows while it is gone through
        group += [other for other in seen if other not in group and _linked(seen[one], seen[other])]
    owners = {_id(row): int(str(row["customer_id"])) for row in built.rows["payments"]}
    doubled = [row for row in _doubled(built, opened) if owners[int(row["payment_id"])] in group]
    abusers = sorted({owners[int(row["payment_id"])] for row in doubled})
    cents = sum(int(row["amount_cents"]) for row in doubled)
    return Finding(tuple(group), tuple(int(row["payment_id"]) for row in doubled), tuple(abusers), cents)


def _linked(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    same = {kind for kind in one if other.get(kind) == one[kind]}
    return CARD in same or {ADDRESS, DEVICE} <= same


def _doubled(built: Built, opened: datetime) -> Iterator[Mapping[str, Any]]:
    refunded = {row["payment_id"] for row in built.rows["refunds"]}
    for row in built.rows["chargebacks"]:
        at: Any = row["received_at"]
        if row["payment_id"] in refunded and row["withdrawn_at"] is None and at >= opened - timedelta(days=LOOK_BACK_DAYS):
            yield row


def asks_for_review(built: Built, at: datetime) -> None:
    """The risk desk asks on the ticket to look at linked accounts first."""
    text = "Risk desk: before any money moves here, look at linked accounts (section 7)."
    built.add("messages", ticket_id=TICKET_ID, author="risk-desk", body=text, sent_at=at)
