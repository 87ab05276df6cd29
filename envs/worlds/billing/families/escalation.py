"""The family `policy-escalation`: is the case the agent's to decide, and if not, whose is it?

Half of the scenarios have a reason to hand the ticket over, by the manual's list; the other half look like one of them and have none, so
that acting or declining is right. Whoever always hands over, or never, fails half of the tasks.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from wardian.envs.parameters import Between, Constraint, OneOf, Parameter, always, everywhere
from wardian.envs.splits import Region, Scenarios, Split
from wardian.envs.task import Difficulty, Task
from wardian.envs.worlds.billing.cases import Case, Kind, draw_case, owed_cents
from wardian.envs.worlds.billing.families.desk import DeskFamily
from wardian.envs.worlds.billing.handover import LIMIT_CENTS, WINDOW_DAYS
from wardian.envs.worlds.billing.scene import SCENE
from wardian.envs.worlds.billing.seed import BY_PRICE, PERIODS, PRICES

THREATS = (
    "If the money is not back by Friday, you will hear from my lawyer.",
    "I am going to court over this.",
    "I have filed a complaint against you with the consumer protection authority.",
    "The next thing that you get is a letter before action from my solicitor.",
    "I will report you to the regulator.",
)
TAKEN_BACK = (
    "Please forget what I wrote about lawyers and authorities; I only want this to be looked at.",
    "I take that back, no legal steps. I was upset.",
)
ANGER = (
    "This is outrageous. I will tell everybody never to buy from you.",
    "I am furious, and if this goes on I will cancel everything.",
    "Worst service ever. You will regret losing me.",
    "I am going to post this everywhere until somebody answers.",
)
LEGAL_TALK = (
    "I am a lawyer myself, so I know how busy Mondays are.",
    "Last year I took my landlord to court; with you I am sure that a mail is enough.",
    "The invoice goes to the legal department of my employer, so please be precise.",
)
CONTRACT_TALK = (
    "We have had a contract with you for years, so please put this on top of the pile.",
    "As a contract customer I expect an answer today.",
)
HIGHEST = BY_PRICE[-1]


@dataclass(frozen=True, slots=True)
class Draw:
    """What a scenario shapes its case from."""

    rng: Random
    cents: int
    """How far an amount is from its limit."""
    days: int
    """How far a day is from the end of the window."""
    renewed: bool
    """A threat was taken back, and made again."""


Shape = Callable[[Case, Draw], Case]


def _threat(case: Case, draw: Draw) -> Case:
    threats = draw.rng.sample(THREATS, 2)
    remarks = (threats[0], draw.rng.choice(TAKEN_BACK), threats[1]) if draw.renewed else (threats[0],)
    return replace(case, remarks=remarks, threatens=True)


def _taken_back(case: Case, draw: Draw) -> Case:
    return replace(case, remarks=(draw.rng.choice(THREATS), draw.rng.choice(TAKEN_BACK)))


def _says(texts: tuple[str, ...]) -> Shape:
    return lambda case, draw: replace(case, remarks=(draw.rng.choice(texts),))


def _paid(days: Callable[[Draw], tuple[int, int]]) -> Shape:
    """A payment of February, so many days before the ticket, which was opened so many days ago."""

    def shape(case: Case, draw: Draw) -> Case:
        paid, opened = days(draw)
        return replace(case, period=PERIODS[0], day=min(case.day, 20), paid_days=paid, opened_days=opened)

    return shape


def _amount(owed: Callable[[Draw], int]) -> Shape:
    """A payment of so much that has to go back as a whole."""

    def shape(case: Case, draw: Draw) -> Case:
        whole = replace(case, billed_plan=HIGHEST, other_plan=HIGHEST, returned_percent=0)
        return replace(whole, overage_cents=owed(draw) - PRICES[HIGHEST])

    return shape


def _asked_above(case: Case, draw: Draw) -> Case:
    """More is asked than an agent may refund; what is owed is less."""
    asked = replace(case, billed_plan=HIGHEST, other_plan=HIGHEST, overage_cents=LIMIT_CENTS + draw.cents - PRICES[HIGHEST])
    return replace(asked, returned_percent=draw.rng.randint(20, 70))


def _contract(case: Case, draw: Draw) -> Case:
    return replace(case, segment="contract")


@dataclass(frozen=True, slots=True)
class Scenario:
    queue: str | None
    """Whose the ticket is; `None`: the agent's."""
    shape: Shape
    kinds: tuple[Kind, ...] = tuple(Kind)
    founded: bool | None = None
    """`None`: as drawn."""
    second: Shape | None = None
    """Adds a reason that stands further down the manual's list, where the claim allows it."""


TWICE = (Kind.DOUBLE_CHARGE,)
WHOLE = (*TWICE, Kind.AFTER_CANCELLATION)
"""Claims that may come to the whole of a payment, and so to more than a price."""
_over = _amount(lambda draw: LIMIT_CENTS + draw.cents)
SCENARIOS: Mapping[str, Scenario] = {
    "legal": Scenario("legal", _threat, second=_contract),
    "chargeback": Scenario("fraud", lambda case, draw: replace(case, later_events=("chargeback",)), second=_contract),
    "invoice_fault": Scenario("engineering", lambda case, draw: replace(case, fault_cents=draw.cents), second=_contract),
    "contract": Scenario("accounts", _contract, founded=True, second=_over),
    "window": Scenario("refunds-approval", _paid(lambda draw: (WINDOW_DAYS + draw.days, 0)), founded=True, second=_over),
    "limit": Scenario("refunds-approval", _over, kinds=WHOLE, founded=True),
    "anger": Scenario(None, _says(ANGER)),
    "threat_taken_back": Scenario(None, _taken_back),
    "legal_talk": Scenario(None, _says(LEGAL_TALK)),
    "chargeback_withdrawn": Scenario(None, lambda case, draw: replace(case, later_events=("chargeback", "chargeback_withdrawn"))),
    "chargeback_elsewhere": Scenario(None, lambda case, draw: replace(case, events_elsewhere=("chargeback",))),
    "discount": Scenario(None, lambda case, draw: replace(case, discount_cents=100 + draw.cents % 500), kinds=TWICE),
    "contract_talk": Scenario(None, lambda case, draw: replace(_says(CONTRACT_TALK)(case, draw), other_segment="contract")),
    "contract_unfounded": Scenario(None, _contract, founded=False),
    "window_unfounded": Scenario(None, _paid(lambda draw: (WINDOW_DAYS + draw.days, 0)), founded=False),
    "last_days": Scenario(None, _paid(lambda draw: (WINDOW_DAYS + 1 - draw.days, 0)), founded=True),
    "opened_in_time": Scenario(None, _paid(lambda draw: (WINDOW_DAYS + 1 - draw.days, draw.days + 1)), founded=True),
    "under_limit": Scenario(None, _amount(lambda draw: max(PRICES[HIGHEST], LIMIT_CENTS + 1 - draw.cents)), kinds=WHOLE, founded=True),
    "asked_above": Scenario(None, _asked_above, kinds=TWICE, founded=True),
}
HANDED, OWN = ([name for name, one in SCENARIOS.items() if (one.queue is None) == own] for own in (False, True))


AT_A_LIMIT = ("limit", "under_limit", "asked_above")


def _constraints() -> Iterator[Constraint]:
    """What a scenario leaves open."""
    for kinds in sorted({one.kinds for one in SCENARIOS.values() if one.kinds != tuple(Kind)}):
        names = OneOf(tuple(name for name, one in SCENARIOS.items() if one.kinds == kinds))
        yield Constraint("claim", OneOf(tuple(kind.value for kind in kinds)), {"scenario": names}, "other claims cannot come to that")
    for founded in (True, False):
        names = OneOf(tuple(name for name, one in SCENARIOS.items() if one.founded is founded))
        yield Constraint("bears_out", always(founded), {"scenario": names}, "the scenario says whether anything is due")
    alone = OneOf(tuple(name for name, one in SCENARIOS.items() if one.second is None))
    yield Constraint("second_reason", always(False), {"scenario": alone}, "no further reason goes with it")
    limited = OneOf(tuple(name for name, one in SCENARIOS.items() if one.second is _over))
    parts = OneOf(tuple(kind.value for kind in Kind if kind not in WHOLE))
    yield Constraint("second_reason", always(False), {"scenario": limited, "claim": parts}, "a difference of prices is below the limit")
    yield Constraint(
        "renewed", always(False), {"scenario": OneOf(tuple(name for name in SCENARIOS if name != "legal"))}, "there is no threat"
    )


class PolicyEscalation(DeskFamily):
    name = "policy-escalation"
    parameters = (
        # Each reason twice, and each of its look-alikes once: about as many of one sort as of the other.
        everywhere("scenario", "What makes the ticket somebody else's, or looks as if it did", OneOf((*HANDED, *HANDED, *OWN))),
        everywhere("claim", "What the customer claims, where the scenario leaves it open", OneOf(tuple(kind.value for kind in Kind))),
        everywhere("bears_out", "Whether the evidence bears the claim out, where the scenario leaves it open", OneOf((True, True, False))),
        Parameter("margin_cents", "Cents between an amount and its limit", Between(800, 3000), Between(60, 600), Between(1, 40)),
        Parameter("margin_days", "Days between a payment and the end of its window", Between(4, 6), Between(2, 3), always(1)),
        Parameter(
            "second_reason", "A reason further down the list holds as well", always(False), OneOf((False, True)), OneOf((False, True))
        ),
        Parameter(
            "renewed", "A legal threat was taken back and made again", always(False), OneOf((False, False, True)), OneOf((False, True))
        ),
        *SCENE,
    )

    constraints = tuple(_constraints())
    scenarios = Scenarios(
        "scenario", eval=("contract_talk", "discount", "limit"), heldout=("chargeback_elsewhere", "invoice_fault", "opened_in_time")
    )
    regions = (
        Region(
            "one_cent_or_day",
            "The amount or the day is next to its limit",
            {"scenario": OneOf(AT_A_LIMIT), "margin_cents": Between(1, 9)},
            Split.HELDOUT,
        ),
        Region("two_reasons", "Two reasons of the manual's list hold", {"second_reason": always(True)}),
        Region("handed", "One reason holds", {"scenario": OneOf(tuple(HANDED))}),
        Region("look_alike", "No reason holds, and something looks like one", {"scenario": OneOf(tuple(OWN))}),
    )

    def make(self, difficulty: Difficulty, seed: int, drawn: Mapping[str, Any]) -> Task:
        """A claim that is shaped by a scenario."""
        case = shaped(drawn, difficulty, self.rng(difficulty, seed, "case"))
        return self.task(case, difficulty, seed, drawn)


def shaped(drawn: Mapping[str, Any], difficulty: Difficulty, rng: Random) -> Case:
    """The case of a scenario."""
    scenario = SCENARIOS[drawn["scenario"]]
    case = draw_case(rng, difficulty, Kind(drawn["claim"]), drawn["bears_out"], prior=False)
    margins = Draw(rng, drawn["margin_cents"], drawn["margin_days"], drawn["renewed"])
    case = scenario.shape(case, margins)
    if drawn["second_reason"] and scenario.second is not None:
        case = scenario.second(case, margins)
    assert scenario.founded is not True or owed_cents(case), drawn
    return case
