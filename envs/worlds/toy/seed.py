"""The start state of the lending desk: plain data, so that families can reason about it, and one function that stores it."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy.orm import Session

from .schema import Item, Loan, Member

OPENING = datetime(2025, 3, 3, 9, 0, tzinfo=UTC)
KINDS = ("drill", "ladder", "sander", "saw", "tent", "projector")
ITEMS_PER_KIND = 3
MEMBERS = ("Ada", "Bela", "Chen", "Dora", "Emil", "Fatma", "Goran", "Hana", "Ivo", "Jun", "Kofi", "Lena")
SUSPENDED = frozenset({4, 9})


@dataclass(frozen=True, slots=True)
class OpenLoan:
    item_id: int
    member_id: int


ITEMS: dict[int, str] = {100 * (number + 1) + copy: kind for number, kind in enumerate(KINDS) for copy in range(1, ITEMS_PER_KIND + 1)}
"""Kind by item id: 101, 102, 103 are drills, 201 and on ladders."""
OPEN_LOANS = (OpenLoan(101, 1), OpenLoan(202, 1), OpenLoan(301, 2), OpenLoan(501, 5), OpenLoan(502, 5), OpenLoan(503, 6))


def seed_rows(session: Session, seed: int) -> None:
    """Store the start state. It is the same for every `seed`; what varies comes with the task."""
    session.add_all(Member(id=i, name=name, suspended=i in SUSPENDED) for i, name in enumerate(MEMBERS, start=1))
    session.add_all(Item(id=item_id, kind=kind, written_off=False) for item_id, kind in ITEMS.items())
    session.flush()
    lent = OPENING - timedelta(days=5)
    for number, loan in enumerate(OPEN_LOANS, start=1):
        due = lent + timedelta(days=14)
        session.add(Loan(id=number, item_id=loan.item_id, member_id=loan.member_id, lent_at=lent, due_at=due, returned_at=None))
