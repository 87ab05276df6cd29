"""What happens at the lending desk by itself."""

from sqlalchemy import select

from wardian.envs.events import EventContext

from .schema import Loan


def brought_back(context: EventContext) -> None:
    """Somebody brings `item_id` back, unless it is in the house already."""
    loan = context.db.scalars(select(Loan).where(Loan.item_id == context.facts["item_id"], Loan.returned_at.is_(None))).first()
    if loan is not None:
        loan.returned_at = context.now
        context.note("brought_back", item_id=loan.item_id)


EVENTS = {"brought_back": brought_back}
