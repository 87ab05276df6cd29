"""Tools that keep the payments table in step with the bank: record, correct, void. Each needs an open ticket and leaves a line of audit."""

from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator
from sqlalchemy import select

from wardian.envs.worlds.billing.schema import Invoice, Payment
from wardian.envs.worlds.billing.tools.acting import Cents, act, audit, open_ticket
from wardian.envs.worlds.billing.tools.reading import Id, get, payment_json, refunded
from wardian.tools.contract import Arguments, Json, Refusal, Status, Tool, ToolContext


def _day(text: str) -> str:
    try:
        date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text} is no day of the calendar; give one such as 2026-05-31") from None
    return text


Day = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", description="Day in UTC, such as 2026-05-31."), AfterValidator(_day)]
Reference = Annotated[str, Field(pattern=r"^gw_[0-9a-f]{12}(-R)?$", description="The gateway's reference.")]


class RecordPayment(Arguments):
    ticket_id: Id
    invoice_id: Id
    gateway_ref: Reference
    amount_cents: Cents
    paid_on: Day


class CorrectPayment(Arguments):
    ticket_id: Id
    payment_id: Id
    gateway_ref: Reference | None = None
    amount_cents: Cents | None = None
    paid_on: Day | None = None

    @model_validator(mode="after")
    def _corrects_something(self) -> "CorrectPayment":
        if self.gateway_ref is None and self.amount_cents is None and self.paid_on is None:
            raise ValueError("give at least one of gateway_ref, amount_cents, paid_on")
        return self


class VoidPayment(Arguments):
    ticket_id: Id
    payment_id: Id
    reason: Literal["duplicate", "reversed", "not_credited"]


def _start_of(context: ToolContext, day: str) -> datetime:
    found = datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC)
    if found > context.now:
        raise Refusal(Status.CONFLICT, f"{day} is not over yet; nothing was paid on it")
    return found


def _free(context: ToolContext, ref: str) -> None:
    taken = context.db.scalar(select(Payment.id).where(Payment.gateway_ref == ref))
    if taken is not None:
        raise Refusal(Status.CONFLICT, f"reference {ref} is that of payment {taken} already")


def _valid(context: ToolContext, payment_id: int) -> Payment:
    found: Payment = get(context.db, Payment, payment_id)
    if found.voided_at is not None:
        raise Refusal(Status.CONFLICT, f"payment {payment_id} is void")
    return found


async def record_payment(context: ToolContext, args: RecordPayment) -> Json:
    ticket = open_ticket(context, args.ticket_id)
    invoice: Invoice = get(context.db, Invoice, args.invoice_id)
    paid_at = _start_of(context, args.paid_on)
    _free(context, args.gateway_ref)
    payment_id = context.new_id("payments")
    what: dict[str, Json] = {"invoice_id": invoice.id, "gateway_ref": args.gateway_ref, "amount_cents": args.amount_cents}
    context.db.add(Payment(id=payment_id, customer_id=invoice.customer_id, paid_at=paid_at, **what))
    audit(context, "record_payment", ticket.id, payment_id=payment_id, paid_on=args.paid_on, **what)
    return {"payment_id": payment_id}


async def correct_payment(context: ToolContext, args: CorrectPayment) -> Json:
    ticket = open_ticket(context, args.ticket_id)
    payment = _valid(context, args.payment_id)
    paid_at = _start_of(context, args.paid_on) if args.paid_on else None
    if args.gateway_ref is not None and args.gateway_ref != payment.gateway_ref:
        _free(context, args.gateway_ref)
    wanted = {"gateway_ref": args.gateway_ref, "amount_cents": args.amount_cents, "paid_at": paid_at}
    changes = {name: value for name, value in wanted.items() if value is not None and value != getattr(payment, name)}
    if not changes:
        raise Refusal(Status.CONFLICT, f"payment {payment.id} is like that already")
    given_back = refunded(context.db, payment.id)
    if args.amount_cents is not None and args.amount_cents < given_back:
        raise Refusal(Status.CONFLICT, f"{given_back} cents of payment {payment.id} were refunded; it cannot be less")
    for name, value in changes.items():
        setattr(payment, name, value)
    given = args.model_dump(exclude_none=True, exclude={"ticket_id", "payment_id"})
    audit(context, "correct_payment", ticket.id, payment_id=payment.id, **given)
    return payment_json(payment)


async def void_payment(context: ToolContext, args: VoidPayment) -> Json:
    ticket = open_ticket(context, args.ticket_id)
    payment = _valid(context, args.payment_id)
    if refunded(context.db, payment.id):
        raise Refusal(Status.CONFLICT, f"payment {payment.id} has refunds; it cannot be void")
    payment.voided_at = context.now
    audit(context, "void_payment", ticket.id, payment_id=payment.id, reason=args.reason)
    return payment_json(payment)


LEDGER: tuple[Tool[Any], ...] = (
    act(
        "record_payment",
        "Add a payment to the ledger that the bank credited and the ledger has not. Refused when the reference is known.",
        RecordPayment,
        record_payment,
        "payments:write",
    ),
    act(
        "correct_payment",
        "Correct reference, amount or day of a payment in the ledger; what is not given stays. Refused when it is like that already.",
        CorrectPayment,
        correct_payment,
        "payments:write",
    ),
    act(
        "void_payment",
        "Mark a payment in the ledger as void: it was never made, was taken back, or stands there twice. Refused when it has refunds.",
        VoidPayment,
        void_payment,
        "payments:write",
    ),
)
