"""The reference solution of the support desk: a careful clerk, by tools and observations only.

Robust by three habits: current records instead of lists; a look at the record before anything unclear is repeated; and one way
out, escalation, when the permission is gone.
"""

import re
from calendar import monthrange
from collections.abc import Callable, Generator
from typing import Any

from wardian.envs.action import Action, Message, Observation, call

TRIES = 8
PASSING = ("unavailable", "timeout", "rate_limited")
AUTHOR = "customer"
CLAIM = re.compile(r"charged twice|order form|I had cancelled|cheaper plan")
TOLD_FIRST = re.compile(r"before (?:any money moves|you refund anything)")
Step = Generator[Action, Observation, Any]


def solve(first: Observation) -> Step:
    """Handle the ticket that the first observation names."""
    ticket = int(found(r"ticket (\d+)", first.rendered))
    yield from ask("get_ticket", ticket_id=ticket)
    messages = yield from every("list_messages", ticket_id=ticket)
    bodies = [message["body"] for message in messages if message["author"] == AUTHOR]
    claim = next(body for body in bodies if CLAIM.search(body))
    told_first = any(TOLD_FIRST.search(body) for body in bodies)
    invoice = yield from ask("get_invoice", invoice_id=int(found(r"[Ii]nvoice (\d+)", claim)))
    payment_id = sorted(invoice["payments"], key=lambda paid: paid["paid_at"])[-1]["payment_id"]
    reason, owed = yield from assess(ticket, claim, invoice)
    payment = yield from ask("get_payment", payment_id=payment_id)
    left = owed - payment["refunded_cents"]
    if owed <= 0:
        yield from close(ticket, "declined_unfounded", "The evidence does not bear the claim out, so nothing is refunded.")
    elif left <= 0:
        yield from close(ticket, "already_refunded", "What was owed on this invoice has been refunded before.")
    else:
        yield from pay(ticket, payment_id, left, reason, told_first)
    yield Message("The ticket is done.")


def pay(ticket: int, payment_id: int, cents: int, reason: str, told_first: bool) -> Step:
    """Refund and reply in the order that the customer wants; hand over where the refund is not permitted."""
    text = f"Your claim is right: {cents} cents go back on your payment."
    if told_first:
        yield from reply(ticket, text)
    if (yield from refund(ticket, payment_id, cents, reason)):
        if not told_first:
            yield from reply(ticket, text)
        yield from surely(no_longer_open(ticket), "resolve_ticket", ticket_id=ticket, resolution="refunded")
    else:
        if not told_first:
            yield from reply(ticket, "Your claim is right; our approvals team makes the refund.")
        note = f"Refund of {cents} cents on payment {payment_id} is due; the agent holds no permission to refund."
        yield from surely(no_longer_open(ticket), "escalate_ticket", ticket_id=ticket, queue="refunds-approval", note=note)


def found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match is not None, f"{pattern} does not stand in the text"
    return match.group(1)


def answer(tool: str, **args: Any) -> Step:
    """One call; where the answer says when to come again, that time is waited for."""
    got = (yield call(tool, **args)).results[0]
    if retry_after_ms := (got.get("details") or {}).get("retry_after_ms"):
        yield call("wait", seconds=-(-retry_after_ms // 1000))
    return got


def ask(tool: str, **args: Any) -> Step:
    """Call a tool that may be called again until it answers; gives the result, or `None` for a refusal."""
    for _ in range(TRIES):
        got = yield from answer(tool, **args)
        if got["status"] not in PASSING:
            break
    return got.get("result")


def every(tool: str, **args: Any) -> Step:
    """All items of a list, page by page."""
    items: list[dict[str, Any]] = []
    more: dict[str, str] = {}
    while True:
        page = yield from ask(tool, **args, **more)
        items += page["items"]
        if page["next_cursor"] is None:
            return items
        more = {"cursor": page["next_cursor"]}


def search(ticket: int, command: str) -> Step:
    """Run a search in the ticket's evidence; gives the lines."""
    done = yield from ask("shell", command=f"cd /workspace/tickets/{ticket} && {command}")
    return done["stdout"].splitlines()


def assess(ticket: int, claim: str, invoice: dict[str, Any]) -> Step:
    """Reason code and what is owed, 0 when the claim is unfounded."""
    billed = sum(line["amount_cents"] for line in invoice["lines"] if line["kind"] == "plan")
    if "twice" in claim:
        return "double_charge", (yield from double_charge(ticket, invoice))
    if "order form" in claim:
        return "wrong_plan", (yield from wrong_plan(ticket, invoice["subscription_id"], billed))
    if "cancelled" in claim:
        return "after_cancellation", (yield from after_cancellation(ticket, invoice, billed))
    return "proration", (yield from proration(ticket, invoice, billed))


def double_charge(ticket: int, invoice: dict[str, Any]) -> Step:
    refs = [payment["gateway_ref"] for payment in sorted(invoice["payments"], key=lambda paid: paid["paid_at"])]
    lines = yield from search(ticket, f"grep -E '{'|'.join(refs)}' gateway.csv")
    kept = dict.fromkeys(refs, 0)
    for _, ref, event, cents in (line.split(",") for line in lines):
        kept[ref] += {"captured": 1, "reversed": -1}.get(event, 0) * int(cents)
    return kept[refs[-1]] if len(refs) > 1 and all(kept.values()) else 0


def prices() -> Step:
    plans = yield from ask("list_plans")
    return {plan["code"]: plan["monthly_cents"] for plan in plans}


def wrong_plan(ticket: int, subscription: int, billed: int) -> Step:
    lines = yield from search(ticket, f"grep -A 4 '^Subscription: {subscription}$' order_form.txt")
    forms = "\n".join(lines).split("Subscription: ")[1:]
    valid = next(form for form in forms if "VOID" not in form)
    by_code = yield from prices()
    return billed - by_code[found(r"Plan ordered: (\w+)", valid)]


def after_cancellation(ticket: int, invoice: dict[str, Any], billed: int) -> Step:
    lines = yield from search(ticket, f"grep '^Cancellation confirmed:.*subscription {invoice['subscription_id']}$' mail.txt")
    confirmed = found(r"confirmed: (\S+),", lines[-1])
    if confirmed < f"{invoice['period']}-01":
        return billed
    if not confirmed.startswith(invoice["period"]):
        return 0
    return billed - by_days(confirmed, int(confirmed[8:]), billed, 0)


def proration(ticket: int, invoice: dict[str, Any], billed: int) -> Step:
    lines = yield from search(ticket, f"grep ',{invoice['subscription_id']},' plan_changes.csv")
    date, _, _, after = lines[-1].split(",")
    if not date.startswith(invoice["period"]):
        return 0
    by_code = yield from prices()
    return billed - by_days(date, int(date[8:]) - 1, billed, by_code[after])


def by_days(date: str, before: int, old_cents: int, new_cents: int) -> int:
    """Price of the month of `date`, of which `before` days cost the old price and the others the new one; rounded half up."""
    days = monthrange(int(date[:4]), int(date[5:7]))[1]
    weighted = old_cents * before + new_cents * (days - before)
    return (2 * weighted + days) // (2 * days)


def refund(ticket: int, payment_id: int, cents: int, reason: str) -> Step:
    """Make the refund once; False when it is not permitted."""
    for _ in range(TRIES):
        act = answer("issue_refund", payment_id=payment_id, ticket_id=ticket, amount_cents=cents, reason=reason)
        status = (yield from act)["status"]
        if status == "ok":
            return True
        if (yield from ask("get_ticket", ticket_id=ticket))["refunds"]:
            return True
        if status == "permission_denied":
            return False
    return False


def surely(done: Callable[[], Step], tool: str, **args: Any) -> Step:
    """Act until it is so, looking before each further try."""
    for _ in range(TRIES):
        status = (yield from answer(tool, **args))["status"]
        if status == "ok" or (yield from done()):
            return


def reply(ticket: int, text: str) -> Step:
    def sent() -> Step:
        messages = yield from every("list_messages", ticket_id=ticket)
        return any(message["author"] != AUTHOR for message in messages)

    yield from surely(sent, "reply_to_ticket", ticket_id=ticket, body=text)


def no_longer_open(ticket: int) -> Callable[[], Step]:
    def closed() -> Step:
        return (yield from ask("get_ticket", ticket_id=ticket))["status"] != "open"

    return closed


def close(ticket: int, resolution: str, text: str) -> Step:
    yield from reply(ticket, text)
    yield from surely(no_longer_open(ticket), "resolve_ticket", ticket_id=ticket, resolution=resolution)
