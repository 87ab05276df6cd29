"""Tools of the lending desk. They hold the desk's integrity (no item is lent twice); its policy is the agent's to keep."""

from datetime import timedelta
from typing import Annotated, TypeVar

from pydantic import Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from wardian.tools.contract import Arguments, Json, Refusal, Source, Status, Tool, ToolContext

from .schema import Item, Loan, Member

Id = Annotated[int, Field(ge=1, le=2**31 - 1)]
Record = TypeVar("Record", Item, Member)


class ListItems(Arguments):
    kind: str | None = Field(default=None, description="Kind of item, such as 'drill'; leave it out for all.")


class ShowItem(Arguments):
    item_id: Id


class ShowMember(Arguments):
    member_id: Id


class LendItem(Arguments):
    item_id: Id
    member_id: Id
    days: Annotated[int, Field(ge=1, le=60)]


class ReturnItem(Arguments):
    item_id: Id


class WriteOffItem(Arguments):
    item_id: Id


async def list_items(context: ToolContext, args: ListItems) -> Json:
    wanted = select(Item).order_by(Item.id)
    items = context.db.scalars(wanted if args.kind is None else wanted.where(Item.kind == args.kind)).all()
    lent = set(context.db.scalars(select(Loan.item_id).where(Loan.returned_at.is_(None))))
    return [{"item_id": item.id, "kind": item.kind, "in_house": item.id not in lent and not item.written_off} for item in items]


async def show_item(context: ToolContext, args: ShowItem) -> Json:
    item = _get(context.db, Item, args.item_id)
    loan = _open_loan(context.db, args.item_id)
    return {
        "item_id": item.id,
        "kind": item.kind,
        "in_house": loan is None and not item.written_off,
        "lent_to": loan.member_id if loan else None,
    }


async def show_member(context: ToolContext, args: ShowMember) -> Json:
    member = _get(context.db, Member, args.member_id)
    loans = context.db.scalars(select(Loan).where(Loan.member_id == member.id, Loan.returned_at.is_(None)).order_by(Loan.id)).all()
    return {
        "member_id": member.id,
        "name": member.name,
        "suspended": member.suspended,
        "items": [loan.item_id for loan in loans],
    }


async def lend_item(context: ToolContext, args: LendItem) -> Json:
    item = _get(context.db, Item, args.item_id)
    _get(context.db, Member, args.member_id)
    if item.written_off or _open_loan(context.db, args.item_id):
        raise Refusal(Status.CONFLICT, f"item {args.item_id} is not in the house")
    due_at = context.now + timedelta(days=args.days)
    loan_id = context.new_id("loans")
    context.db.add(Loan(id=loan_id, item_id=item.id, member_id=args.member_id, lent_at=context.now, due_at=due_at, returned_at=None))
    context.note("lent", item_id=item.id, member_id=args.member_id, days=args.days)
    return {"loan_id": loan_id, "due": due_at.date().isoformat()}


async def return_item(context: ToolContext, args: ReturnItem) -> Json:
    _get(context.db, Item, args.item_id)
    loan = _open_loan(context.db, args.item_id)
    if loan is None:
        raise Refusal(Status.CONFLICT, f"item {args.item_id} is not out on loan")
    loan.returned_at = context.now
    context.note("returned", item_id=args.item_id, member_id=loan.member_id)
    return {"loan_id": loan.id}


async def write_off_item(context: ToolContext, args: WriteOffItem) -> Json:
    item = _get(context.db, Item, args.item_id)
    item.written_off = True
    context.note("written_off", item_id=item.id)
    return {"item_id": item.id}


def _get(session: Session, kind: type[Record], key: int) -> Record:
    found = session.get(kind, key)
    if found is None:
        raise Refusal(Status.NOT_FOUND, f"there is no {kind.__name__.lower()} {key}")
    return found


def _open_loan(session: Session, item_id: int) -> Loan | None:
    return session.scalars(select(Loan).where(Loan.item_id == item_id, Loan.returned_at.is_(None))).first()


TOOLS = (
    Tool(
        "list_items",
        "List the items, with whether each is in the house. Served from a copy that may lag behind.",
        ListItems,
        list_items,
        source=Source.REPLICA,
        errors=(),
        empty_page=[],
    ),
    Tool("show_item", "Show one item and who has it.", ShowItem, show_item),
    Tool("show_member", "Show one member: standing, and items on loan.", ShowMember, show_member),
    Tool(
        "lend_item",
        "Lend an item to a member for a number of days. Refused when it is not in the house.",
        LendItem,
        lend_item,
        mutates=True,
        scopes=("desk",),
        errors=(Status.NOT_FOUND, Status.CONFLICT),
        idempotent=False,
    ),
    Tool(
        "return_item",
        "Take an item back. Refused when it is not out on loan.",
        ReturnItem,
        return_item,
        mutates=True,
        scopes=("desk",),
        errors=(Status.NOT_FOUND, Status.CONFLICT),
        idempotent=False,
    ),
    Tool(
        "write_off_item",
        "Take an item out of the stock for good.",
        WriteOffItem,
        write_off_item,
        mutates=True,
        scopes=("workshop",),
    ),
)
