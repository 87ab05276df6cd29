"""The reference solution of a review: follow the links from account to account, count the money that went back twice, and decide."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from wardian.envs.action import Message, Observation
from wardian.envs.worlds.billing.families.acts import Step, ask, every, found, hand_over
from wardian.envs.worlds.billing.families.reference import HANDED, Facts, decide, gather

PATTERN = 2
LOOK_BACK_DAYS = 180


@dataclass(slots=True)
class Abuse:
    """Payments whose money went back twice."""

    accounts: set[int] = field(default_factory=set)
    cents: int = 0
    count: int = 0


def solve_review(first: Observation) -> Step:
    """Handle the ticket that the first observation names."""
    facts: Facts = yield from gather(int(found(r"ticket (\d+)", first.rendered)))
    abuse: Abuse = yield from abuse_of((yield from linked(facts.customer["customer_id"])), facts.ticket["created_at"])
    if abuse.count >= PATTERN:
        note = f"Linked accounts {', '.join(map(str, sorted(abuse.accounts)))}: {abuse.cents} cents went back twice."
        yield from hand_over(facts.ticket["ticket_id"], "fraud", note, HANDED)
    else:
        yield from decide(facts)
    yield Message("The ticket is done.")


def linked(customer_id: int) -> Step:
    """The account and all that are linked to it, one by way of another."""
    group = [customer_id]
    for one in group:  # grows while it is gone through
        things = yield from every("list_identities", customer_id=one)
        by_kind: dict[str, set[int]] = {"card": set(), "address": set(), "device": set()}
        for thing in things:
            if thing["kind"] in by_kind:
                shown = yield from every("find_accounts", kind=thing["kind"], value=thing["value"])
                by_kind[thing["kind"]] |= {account["customer_id"] for account in shown}
        group += sorted((by_kind["card"] | by_kind["address"] & by_kind["device"]) - set(group))
    return group


def abuse_of(group: Iterable[int], opened_at: str) -> Step:
    """What went back twice to these accounts, by our refund and by a chargeback that stands."""
    abuse = Abuse()
    for one in group:
        for back in (yield from every("list_chargebacks", customer_id=one)):
            if counts(back, opened_at) and (yield from ask("get_payment", payment_id=back["payment_id"]))["refunded_cents"]:
                abuse.count += 1
                abuse.cents += back["amount_cents"]
                abuse.accounts.add(one)
    return abuse


def counts(back: dict[str, Any], opened_at: str) -> bool:
    """Whether a chargeback stands, and is young enough."""
    days = (date.fromisoformat(opened_at[:10]) - date.fromisoformat(back["received_at"][:10])).days
    return back["withdrawn_at"] is None and days <= LOOK_BACK_DAYS
