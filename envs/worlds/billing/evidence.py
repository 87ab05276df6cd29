"""The files of a case: what the gateway, the order form, the mail thread and the plan changes say, and noise around it."""

from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from random import Random

from wardian.envs.worlds.billing.cases import Case, Kind, month_days
from wardian.envs.worlds.billing.scene import NEWEST_FIRST, Scene
from wardian.envs.worlds.billing.seed import BY_PRICE, PRICES, gateway_ref, period_start
from wardian.sandbox.streams import stream

SMALL_TALK = (
    "Thank you for your patience while we look into it.",
    "Our office is closed on public holidays.",
    "Please find our terms on the website.",
    "This message was sent automatically.",
)
HOUR_S = 3600
NOISE_BLOCKS = 4
"""Exports of other customers' payments for each month and length, between which a task draws."""
LATE_DAYS = 10
"""A plan change or cancellation that came too late stands within so many days of the next month, before the day of the ticket."""
GATEWAY = "gateway.csv"
DECISIVE = {
    Kind.DOUBLE_CHARGE: GATEWAY,
    Kind.WRONG_PLAN: "order_form.txt",
    Kind.AFTER_CANCELLATION: "mail.txt",
    Kind.PRORATION: "plan_changes.csv",
}
"""The file without which a claim cannot be judged."""


@dataclass(frozen=True, slots=True)
class Movement:
    """What the gateway did with a payment, beside authorising and capturing it."""

    ref: str
    cents: int
    at_s: int
    """Seconds from the start of the month to the authorisation."""
    later: tuple[tuple[str, int], ...] = ()
    """Events that followed, a day and some hours later each: name and cents."""


@dataclass(frozen=True, slots=True)
class Papers:
    """What the files are about."""

    case: Case
    scene: Scene
    subscription: int
    """The one in question."""
    twins: tuple[int, ...]
    """The customer's other subscriptions."""
    movements: tuple[Movement, ...]


def evidence(rng: Random, papers: Papers) -> dict[str, str]:
    """Text of each file, by name."""
    files = {GATEWAY: _gateway(rng, papers)}
    makers = {Kind.WRONG_PLAN: _order_form, Kind.AFTER_CANCELLATION: _mail, Kind.PRORATION: _plan_changes}
    make = makers.get(papers.case.kind)
    return files | ({DECISIVE[papers.case.kind]: make(rng, papers)} if make else {})


def _in_order(papers: Papers, lines: list[str]) -> str:
    """Lines that stand oldest first, in the order of the scene."""
    if papers.scene.evidence_order == NEWEST_FIRST:
        lines = lines[::-1]
    return "".join(f"{line}\n" for line in lines)


def _gateway(rng: Random, papers: Papers) -> str:
    """What the gateway did; lines of other payments all around."""
    period = papers.case.period
    own = []
    for one in papers.movements:
        own.append(f"{_within(period, one.at_s)},{one.ref},authorised,{one.cents}")
        own.append(f"{_within(period, one.at_s + 40)},{one.ref},captured,{one.cents}")
        for number, (event, cents) in enumerate(one.later, start=1):
            own.append(f"{_within(period, one.at_s + 30 * HOUR_S * number)},{one.ref},{event},{cents}")
    lines = sorted([*_noise(period, papers.scene.noise_lines, rng.randrange(NOISE_BLOCKS)), *own])
    return "time,reference,event,amount_cents\n" + _in_order(papers, lines)


@cache
def _noise(period: str, count: int, block: int) -> tuple[str, ...]:
    """Lines of other customers in a month's export, in order. Drawn once, since thousands of draws would be most of a task's generation."""
    rng = stream(block, f"billing/gateway/{period}/{count}")
    step_s = 2_000_000 // count
    lines = []
    for number in range(count):
        event = ("authorised", "captured", "captured", "reversed")[rng.getrandbits(2)]
        cents = PRICES[BY_PRICE[rng.getrandbits(2)]]
        if event == "reversed":
            cents = cents * rng.choice((25, 50, 100)) // 100
        lines.append(f"{_within(period, number * step_s + rng.randrange(step_s))},{gateway_ref(rng)},{event},{cents}")
    return tuple(lines)


def _within(period: str, at_s: int) -> str:
    """The moment so many seconds into a month."""
    minutes, second = divmod(at_s, 60)
    hours, minute = divmod(minutes, 60)
    day, hour = divmod(hours, 24)
    return f"{period}-{day + 1:02}T{hour:02}:{minute:02}:{second:02}Z"


def _order_form(rng: Random, papers: Papers) -> str:
    """One form for each subscription, and a void one for that in question."""
    case, scene = papers.case, papers.scene
    offered = rng.choice([code for code in BY_PRICE if code != case.other_plan])
    forms = [_form(rng, twin, rng.choice(BY_PRICE), rng.choice(BY_PRICE)) for twin in papers.twins]
    forms.insert(rng.randrange(len(forms) + 1), _form(rng, papers.subscription, offered, case.other_plan))
    if scene.look_alikes:
        forms.insert(
            0, [*_form(rng, papers.subscription, case.other_plan, offered), "VOID: replaced by the other form of this subscription"]
        )
    if scene.evidence_order == NEWEST_FIRST:
        forms = forms[::-1]
    talk = [rng.choice(SMALL_TALK) for _ in range(scene.small_talk)]
    return "\n".join(["ORDER FORMS", "", *talk, "", *("\n".join([*form, ""]) for form in forms)])


def _form(rng: Random, subscription: int, offered: str, ordered: str) -> list[str]:
    return [f"Subscription: {subscription}", f"Plan offered: {offered}", f"Plan ordered: {ordered}", "Signed: yes"]


def _mail(rng: Random, papers: Papers) -> str:
    """The thread; only the line of confirmation counts."""
    case, first_day = papers.case, period_start(papers.case.period)
    if not case.founded:
        confirmed = first_day + timedelta(days=month_days(case.period) + case.day % LATE_DAYS)
    elif case.returned_percent:
        confirmed = first_day + timedelta(days=case.day - 1)
    else:
        confirmed = first_day - timedelta(days=case.day % 9 + 1)
    requested = first_day - timedelta(days=14)
    dated = [(requested, "requested", papers.subscription), (confirmed, "confirmed", papers.subscription)]
    for twin in papers.twins:
        asked = first_day - timedelta(days=rng.randint(20, 40))
        dated += [(asked, "requested", twin), (asked + timedelta(days=rng.randint(1, 60)), "confirmed", twin)]
    lines = [f"Cancellation {what}: {day:%Y-%m-%d}, subscription {number}" for day, what, number in sorted(dated)]
    for _ in range(papers.scene.small_talk):
        lines.insert(rng.randrange(len(lines) + 1), f"> {rng.choice(SMALL_TALK)}")
    return _in_order(papers, lines)


def _plan_changes(rng: Random, papers: Papers) -> str:
    """Plan changes of many subscriptions, those of the customer among them."""
    case, first_day = papers.case, period_start(papers.case.period)
    changed = first_day + timedelta(days=case.day - 1)
    if not case.founded:
        changed = first_day + timedelta(days=month_days(case.period) + case.day % LATE_DAYS)
    lines = [f"{changed:%Y-%m-%d},{papers.subscription},{case.billed_plan},{case.other_plan}"]
    others = [*papers.twins, *(rng.randrange(200_000, 300_000) for _ in range(3 + papers.scene.noise_lines // 20))]
    for other in others:
        before, after = rng.sample(BY_PRICE, 2)
        lines.append(f"{first_day + timedelta(days=rng.randrange(28)):%Y-%m-%d},{other},{before},{after}")
    return "date,subscription_id,from_plan,to_plan\n" + _in_order(papers, sorted(lines))
