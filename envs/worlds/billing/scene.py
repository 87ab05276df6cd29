"""What stands around a case: look-alikes, noise, obsolete pages, and the order in which things stand. Data; drawn by difficulty."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from wardian.envs.parameters import Between, OneOf, Parameter, always

OLDEST_FIRST, NEWEST_FIRST = "oldest_first", "newest_first"
FIRST, MIDDLE, LAST = "first", "middle", "last"

SCENE = (
    Parameter(
        "look_alikes",
        "Customers of nearly the same name, each with an open ticket that makes the same claim",
        always(0),
        Between(1, 2),
        Between(2, 4),
    ),
    Parameter(
        "twin_subscriptions",
        "Further subscriptions of the customer, with invoices of the same months and prices, and their lines in the evidence",
        always(0),
        Between(0, 1),
        Between(1, 2),
    ),
    Parameter("noise_lines", "Lines of others in `gateway.csv`", always(12), OneOf((400, 800)), OneOf((2000, 3000))),
    Parameter("small_talk", "Lines that say nothing, in letters and forms", Between(2, 4), Between(15, 30), Between(40, 120)),
    Parameter("asides", "Messages of the customer beside the claim", always(0), Between(0, 1), Between(1, 3)),
    Parameter(
        "claim_place", "Where the claim stands among the messages", always(FIRST), OneOf((FIRST, LAST)), OneOf((FIRST, MIDDLE, LAST))
    ),
    Parameter(
        "evidence_order",
        "Order of the lines in evidence files",
        always(OLDEST_FIRST),
        OneOf((OLDEST_FIRST, NEWEST_FIRST)),
        OneOf((OLDEST_FIRST, NEWEST_FIRST)),
    ),
    Parameter("old_pages", "Obsolete pages of the manual in `/workspace/policies`", always(0), Between(1, 2), Between(2, 4)),
    Parameter(
        "told_first",
        "The customer wants an answer before money moves, which turns the order of refund and reply round",
        always(False),
        OneOf((False, False, True)),
        OneOf((False, True)),
    ),
)


@dataclass(frozen=True, slots=True)
class Scene:
    """Drawn values; the table says what they mean."""

    look_alikes: int
    twin_subscriptions: int
    noise_lines: int
    small_talk: int
    asides: int
    claim_place: str
    evidence_order: str
    old_pages: int
    told_first: bool

    @classmethod
    def of(cls, drawn: Mapping[str, Any]) -> "Scene":
        """Take what belongs to the scene out of a task's drawn parameters."""
        return cls(**{field.name: drawn[field.name] for field in fields(cls)})
