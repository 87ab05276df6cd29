"""Tools that show which accounts belong together, and what banks fetched back. Only tasks about that give them to their agent."""

from typing import Annotated, Any, Literal

from pydantic import Field
from sqlalchemy import select

from wardian.envs.worlds.billing.schema import Chargeback, Customer, Identity, Payment
from wardian.envs.worlds.billing.tools.reading import ListOfCustomer, get
from wardian.sandbox.database.types import instant_text
from wardian.tools.contract import Json, Status, Tool, ToolContext
from wardian.tools.pages import Page, Paged, page_of


class FindAccounts(Paged):
    kind: Literal["card", "prepaid_card", "address", "device"]
    value: Annotated[str, Field(min_length=1, max_length=200, description="The whole value, as list_identities gives it.")]


def _identity(row: Identity) -> Json:
    return {"kind": row.kind, "value": row.value, "seen_at": instant_text(row.seen_at)}


def _chargeback(row: Chargeback) -> Json:
    return {
        "chargeback_id": row.id,
        "payment_id": row.payment_id,
        "amount_cents": row.amount_cents,
        "received_at": instant_text(row.received_at),
        "withdrawn_at": instant_text(row.withdrawn_at) if row.withdrawn_at else None,
    }


async def list_identities(context: ToolContext, args: ListOfCustomer) -> Page:
    get(context.db, Customer, args.customer_id)
    return page_of(context, args, select(Identity).where(Identity.customer_id == args.customer_id), Identity.id, _identity)


async def find_accounts(context: ToolContext, args: FindAccounts) -> Page:
    wanted = select(Identity).where(Identity.kind == args.kind, Identity.value == args.value)
    return page_of(context, args, wanted, Identity.id, lambda row: {"customer_id": row.customer_id, "seen_at": instant_text(row.seen_at)})


async def list_chargebacks(context: ToolContext, args: ListOfCustomer) -> Page:
    get(context.db, Customer, args.customer_id)
    wanted = select(Chargeback).join(Payment).where(Payment.customer_id == args.customer_id)
    return page_of(context, args, wanted, Chargeback.id, _chargeback)


def _current(name: str, text: str, arguments: Any, handler: Any, errors: tuple[Status, ...] = (Status.NOT_FOUND,)) -> Tool[Any]:
    return Tool(name, f"{text} As they are now, in pages.", arguments, handler, errors=errors, paged=True)


LINKING: tuple[Tool[Any], ...] = (
    _current("list_identities", "List the cards, addresses and devices that an account was seen with.", ListOfCustomer, list_identities),
    _current("find_accounts", "List the accounts that were seen with one card, address or device.", FindAccounts, find_accounts, ()),
    _current("list_chargebacks", "List the payments of a customer that a bank fetched back.", ListOfCustomer, list_chargebacks),
)
