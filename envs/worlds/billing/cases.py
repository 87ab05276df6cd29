"""Cases: what a ticket is about, as parameters, and what the policy says about it. Pure; the source of a task's truth.

A case is drawn from a seeded stream by difficulty. `outcome` computes the right answer from the drawn facts alone, apart from both
the reference solution (which sees only observations) and the verifier (which sees only the final state).
"""

from calendar import monthrange
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random

from wardian.envs.task import Difficulty
from wardian.envs.worlds.billing.seed import BY_PRICE, PERIODS, PRICES


class Kind(StrEnum):
    DOUBLE_CHARGE = "double_charge"
    WRONG_PLAN = "wrong_plan"
    AFTER_CANCELLATION = "after_cancellation"
    PRORATION = "proration"


PRIOR_SHARES = (0, 0, 25, 50, 100)
"""Percent of what is owed that was refunded before, in hard cases."""
PARTLY_SHARE = 2 / 3
"""Of founded claims for a whole payment, those that hold only in part: else most could be answered without the evidence."""


@dataclass(frozen=True, slots=True)
class Case:
    kind: Kind
    founded: bool
    """Whether the evidence bears the claim out."""
    period: str
    """The billed month, `2026-04`."""
    billed_plan: str
    other_plan: str
    """Plan of the order form, or the one that was changed to."""
    day: int
    """Day of the month on which the plan was changed, or offset of the cancellation."""
    returned_percent: int
    """What went back before by itself: share of the later capture that the gateway reversed, or, above 0, a cancellation that was
    confirmed within the month. 0: the whole payment is owed."""
    prior_cents: int
    """Refunded on the payment in question before the ticket."""
    overage_cents: int = 0
    """Billed above the plan's price."""
    discount_cents: int = 0
    """Taken off the plan's price, on a line of its own."""
    fault_cents: int = 0
    """By how much the invoice's total is above the sum of its lines."""
    segment: str = "standard"
    """Of the ticket's customer."""
    other_segment: str = "standard"
    """Of the look-alikes."""
    paid_days: int | None = None
    """Days between the payment in question and the opening of the ticket; `None`: it was paid when it was billed."""
    opened_days: int = 0
    """How many days ago the ticket was opened."""
    later_events: tuple[str, ...] = ()
    """What the gateway did with the payment in question in the end, each with the whole amount."""
    events_elsewhere: tuple[str, ...] = ()
    """The same for a payment of somebody else, or of a twin subscription."""
    remarks: tuple[str, ...] = ()
    """What the customer says beside the claim, and matters, oldest first."""
    threatens: bool = False
    """Whether the remarks come to a legal threat."""


@dataclass(frozen=True, slots=True)
class Outcome:
    resolution: str
    refund_cents: int
    """0: no refund is due."""


def draw_case(rng: Random, difficulty: Difficulty, kind: Kind, founded: bool, prior: bool) -> Case:
    """Draw the rest of a case. `prior`: hard ones may have an earlier refund."""
    low = rng.randrange(len(BY_PRICE) - 1)
    high = rng.randrange(low + 1, len(BY_PRICE))
    billed, other = BY_PRICE[high], BY_PRICE[low]
    if kind in (Kind.DOUBLE_CHARGE, Kind.AFTER_CANCELLATION) or (kind is Kind.WRONG_PLAN and not founded):
        other = billed
    period = rng.choice(PERIODS[1:])
    case = Case(kind, founded, period, billed, other, day=rng.randint(4, month_days(period) - 3), returned_percent=0, prior_cents=0)
    share, returned, partly = rng.choice(PRIOR_SHARES), rng.randint(15, 85), rng.random() < PARTLY_SHARE
    if founded and partly and kind in (Kind.DOUBLE_CHARGE, Kind.AFTER_CANCELLATION):
        case = replace(case, returned_percent=returned)
    if prior and difficulty is Difficulty.HARD:
        case = replace(case, prior_cents=_prior_cents(case, share))
    return case


def _prior_cents(case: Case, share: int) -> int:
    """An earlier refund says nothing about the claim: unfounded ones have them as well, unless the payment is gone already."""
    if not case.founded:
        return 0 if case.kind is Kind.DOUBLE_CHARGE else PRICES[case.billed_plan] * (share % 100) // 100
    return owed_cents(case) * share // 100


def total_cents(case: Case) -> int:
    """What the invoice in question bills."""
    return PRICES[case.billed_plan] + case.overage_cents - case.discount_cents + case.fault_cents


def owed_cents(case: Case) -> int:
    """What the policy owes for the claim, before earlier refunds."""
    price, other = PRICES[case.billed_plan], PRICES[case.other_plan]
    if not case.founded:
        return 0
    if case.kind is Kind.WRONG_PLAN:
        return price - other
    if case.kind is Kind.PRORATION:
        return price - prorated(price, other, case.day, month_days(case.period))
    if case.kind is Kind.AFTER_CANCELLATION and case.returned_percent:
        return price - prorated(price, 0, case.day + 1, month_days(case.period))
    total = total_cents(case)
    return total - total * case.returned_percent // 100


def month_days(period: str) -> int:
    """Days of a month."""
    return monthrange(int(period[:4]), int(period[5:]))[1]


def prorated(old_cents: int, new_cents: int, day: int, days: int) -> int:
    """Price of a month whose plan changed on `day`, rounded half up."""
    weighted = old_cents * (day - 1) + new_cents * (days - day + 1)
    return (2 * weighted + days) // (2 * days)


def left_cents(case: Case) -> int:
    """What is still to be refunded."""
    return max(0, owed_cents(case) - case.prior_cents)


def outcome(case: Case) -> Outcome:
    """What is right to do where the case is the agent's own to decide."""
    if owed_cents(case) == 0:
        return Outcome("declined_unfounded", 0)
    left = left_cents(case)
    return Outcome("refunded", left) if left else Outcome("already_refunded", 0)
