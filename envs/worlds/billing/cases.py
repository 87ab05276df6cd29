"""Cases: what a ticket is about, as parameters, and what the policy says about it. Pure; the source of a task's truth.

A case is drawn from a seeded stream by difficulty. `outcome` computes the right answer from the drawn facts alone, apart from both
the reference solution (which sees only observations) and the verifier (which sees only the final state).
"""

from calendar import monthrange
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from wardian.envs.task import Difficulty
from wardian.envs.worlds.billing.seed import PERIODS, PRICES


class Kind(StrEnum):
    DOUBLE_CHARGE = "double_charge"
    WRONG_PLAN = "wrong_plan"
    AFTER_CANCELLATION = "after_cancellation"
    PRORATION = "proration"


BY_PRICE = sorted(PRICES, key=lambda code: PRICES[code])
PRIOR_SHARES = (0, 0, 25, 50, 100)
"""Percent of what is owed that was refunded before, in hard cases."""


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
    prior_cents: int
    """Refunded on the payment in question before the ticket."""
    decoys: int
    """Other invoices, look-alike customers and lines of noise beside the case."""
    noise_lines: int


@dataclass(frozen=True, slots=True)
class Outcome:
    resolution: str
    refund_cents: int
    """0: no refund is due."""


def draw_case(rng: Random, difficulty: Difficulty, kinds: tuple[Kind, ...], unfounded_share: float, prior: bool) -> Case:
    """Draw one case."""
    kind = rng.choice(kinds)
    founded = rng.random() >= unfounded_share
    low = rng.randrange(len(BY_PRICE) - 1)
    high = rng.randrange(low + 1, len(BY_PRICE))
    billed, other = BY_PRICE[high], BY_PRICE[low]
    if kind in (Kind.DOUBLE_CHARGE, Kind.AFTER_CANCELLATION):
        other = billed
    if kind is Kind.WRONG_PLAN and not founded:
        other = billed
    period = rng.choice(PERIODS[1:])
    days = monthrange(int(period[:4]), int(period[5:]))[1]
    hard, easy = difficulty is Difficulty.HARD, difficulty is Difficulty.EASY
    case = Case(
        kind=kind,
        founded=founded,
        period=period,
        billed_plan=billed,
        other_plan=other,
        day=rng.randint(4, days - 3),
        prior_cents=0,
        decoys=0 if easy else 3 if hard else 1,
        noise_lines=12 if easy else 3000 if hard else 800,
    )
    share = rng.choice(PRIOR_SHARES)
    owed = owed_cents(case)
    if prior and hard and founded and owed:
        case = _with_prior(case, owed * share // 100)
    return case


def _with_prior(case: Case, prior_cents: int) -> Case:
    fields = {name: getattr(case, name) for name in Case.__slots__}
    return Case(**{**fields, "prior_cents": prior_cents})


def owed_cents(case: Case) -> int:
    """What the policy owes for the claim, before earlier refunds."""
    price, other = PRICES[case.billed_plan], PRICES[case.other_plan]
    if not case.founded:
        return 0
    if case.kind is Kind.WRONG_PLAN:
        return price - other
    if case.kind is Kind.PRORATION:
        days = monthrange(int(case.period[:4]), int(case.period[5:]))[1]
        return price - prorated(price, other, case.day, days)
    return price


def prorated(old_cents: int, new_cents: int, day: int, days: int) -> int:
    """Price of a month whose plan changed on `day`, rounded half up."""
    weighted = old_cents * (day - 1) + new_cents * (days - day + 1)
    return (2 * weighted + days) // (2 * days)


def outcome(case: Case) -> Outcome:
    """What is right to do."""
    owed = owed_cents(case)
    if owed == 0:
        return Outcome("declined_unfounded", 0)
    left = owed - case.prior_cents
    return Outcome("refunded", left) if left > 0 else Outcome("already_refunded", 0)
