"""The desk in pure Python: what the policy says about a request, given who has what. The generator's source of truth."""

from dataclasses import dataclass, field

from ..seed import ITEMS, OPEN_LOANS, SUSPENDED

LIMIT = 2
LONGEST_DAYS = 14


@dataclass(frozen=True, slots=True)
class Request:
    member_id: int
    kind: str = ""
    """What to lend; empty for a return."""
    days: int = 0
    item_id: int = 0
    """What is brought back; 0 for a wish to borrow."""

    def line(self) -> str:
        """As it stands in the requests file."""
        if self.item_id:
            return f"member {self.member_id} brings back item {self.item_id}"
        return f"member {self.member_id} wants a {self.kind} for {self.days} days"


@dataclass(slots=True)
class Desk:
    holders: dict[int, int] = field(default_factory=lambda: {loan.item_id: loan.member_id for loan in OPEN_LOANS})
    """Member by item on loan."""

    def held_by(self, member_id: int) -> list[int]:
        return [item for item, holder in sorted(self.holders.items()) if holder == member_id]

    def handle(self, request: Request) -> str:
        """Do what the policy says, and give the line of the report."""
        if request.item_id:
            del self.holders[request.item_id]
            return f"returned {request.item_id}"
        free = [item for item, kind in sorted(ITEMS.items()) if kind == request.kind and item not in self.holders]
        if request.member_id in SUSPENDED:
            return "refused suspended"
        if len(self.held_by(request.member_id)) >= LIMIT:
            return "refused limit"
        if not free:
            return "refused none"
        self.holders[free[0]] = request.member_id
        return f"lent {free[0]}"
