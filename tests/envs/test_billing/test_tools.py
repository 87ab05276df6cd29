"""Every tool of the desk: what it does, what it refuses, and that a refusal leaves nothing behind."""

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from wardian.envs.definition import WorldDefinition
from wardian.envs.worlds.billing.tools import TOOLS
from wardian.tools.contract import Arguments, Source, Status

pytestmark = pytest.mark.anyio
Desk: TypeAlias = Any
TICKET = 100_001
ABSENT = 999_999
REFUNDED = 5
"""A customer of the company who got a refund before any ticket."""


def own(desk: Desk) -> dict[str, Any]:
    """Ids of the ticket's customer."""
    wanted = desk.task.parameters
    subscription = next(row["id"] for row in desk.task.rows["subscriptions"] if row["customer_id"] == wanted["customer_id"])
    return {"customer_id": wanted["customer_id"], "payment_id": wanted["payment_id"], "subscription_id": subscription}


def theirs(desk: Desk) -> dict[str, Any]:
    """Ids of the look-alike."""
    customer = next(row["id"] for row in desk.task.rows["customers"] if row["id"] != desk.task.parameters["customer_id"])
    payment = next(row["id"] for row in desk.task.rows["payments"] if row["customer_id"] == customer)
    subscription = next(row["id"] for row in desk.task.rows["subscriptions"] if row["customer_id"] == customer)
    return {"customer_id": customer, "payment_id": payment, "subscription_id": subscription}


Make: TypeAlias = Callable[[Desk], dict[str, Any]]


def refund(desk: Desk) -> dict[str, Any]:
    return {"payment_id": own(desk)["payment_id"], "ticket_id": TICKET, "amount_cents": 100, "reason": "goodwill"}


def credit(desk: Desk) -> dict[str, Any]:
    return {"customer_id": own(desk)["customer_id"], "ticket_id": TICKET, "amount_cents": 100, "reason": "for the trouble"}


def dispute(desk: Desk) -> dict[str, Any]:
    return {"payment_id": own(desk)["payment_id"], "ticket_id": TICKET, "reason": "the bank asks"}


def subscription(desk: Desk) -> dict[str, Any]:
    return {"subscription_id": own(desk)["subscription_id"], "ticket_id": TICKET}


def plan(desk: Desk) -> dict[str, Any]:
    return {**subscription(desk), "plan": "starter"}


def answer(desk: Desk) -> dict[str, Any]:
    return {"ticket_id": TICKET, "body": "Hello"}


def resolution(desk: Desk) -> dict[str, Any]:
    return {"ticket_id": TICKET, "resolution": "other"}


def escalation(desk: Desk) -> dict[str, Any]:
    return {"ticket_id": TICKET, "queue": "legal", "note": "The customer threatens to sue."}


ACTS: dict[str, tuple[Make, str, set[str]]] = {
    "issue_refund": (refund, "refund", {"refunds", "audit_log"}),
    "apply_credit": (credit, "credit", {"credits", "audit_log"}),
    "open_dispute": (dispute, "dispute", {"disputes", "audit_log"}),
    "cancel_subscription": (subscription, "cancel", {"subscriptions", "audit_log"}),
    "change_plan": (plan, "change_plan", {"subscriptions", "audit_log"}),
    "reply_to_ticket": (answer, "reply", {"messages", "audit_log"}),
    "resolve_ticket": (resolution, "resolve", {"tickets", "audit_log"}),
    "escalate_ticket": (escalation, "escalate", {"tickets", "escalations", "audit_log"}),
}
READS: dict[str, dict[str, Any]] = {
    "find_customers": {"query": "example.org"},
    "get_customer": {"customer_id": 1},
    "list_plans": {},
    "list_subscriptions": {"customer_id": 1},
    "list_usage": {"subscription_id": 1},
    "list_invoices": {"customer_id": 1},
    "get_invoice": {"invoice_id": 1},
    "list_payments": {"customer_id": 1},
    "get_payment": {"payment_id": 1},
    "list_refunds": {"customer_id": REFUNDED},
    "get_ticket": {"ticket_id": TICKET},
    "list_messages": {"ticket_id": TICKET},
    "list_queues": {},
    "my_scopes": {},
}


def test_every_tool_has_its_case() -> None:
    assert {tool.name for tool in TOOLS} == {*ACTS, *READS}
    assert {tool.name for tool in TOOLS if tool.mutates} == {*ACTS}


def test_every_act_needs_a_scope_and_says_that_it_is_not_idempotent() -> None:
    assert all(tool.scopes and not tool.idempotent for tool in TOOLS if tool.mutates)


def test_only_lists_may_lag_and_say_so() -> None:
    lagging = [tool for tool in TOOLS if tool.source is Source.REPLICA]
    assert all("may lag" in tool.description and tool.name.startswith(("list_", "find_")) for tool in lagging)
    assert not any(tool.name.startswith("get_") for tool in lagging)


@pytest.mark.parametrize("name", ACTS)
async def test_an_act_writes_its_rows_its_audit_line_and_its_fact(desk: Desk, name: str) -> None:
    make, kind, tables = ACTS[name]
    result, event = await desk.call(name, **make(desk))
    changes = desk.take_changes()
    assert result.status is Status.OK
    assert {change.table for change in changes} == tables
    assert [effect["kind"] for effect in event.effects] == [kind]
    audit = next(change.after for change in changes if change.table == "audit_log" and change.after is not None)
    assert (audit["agent_id"], audit["action"], audit["ticket_id"]) == ("agent-7", kind, TICKET)


@pytest.mark.parametrize("name", ACTS)
async def test_an_act_on_a_ticket_that_is_not_there_leaves_nothing(desk: Desk, name: str) -> None:
    result, event = await desk.call(name, **{**ACTS[name][0](desk), "ticket_id": ABSENT})
    assert (result.status, event.committed, event.effects) == (Status.NOT_FOUND, False, ())
    assert desk.take_changes() == ()


@pytest.mark.parametrize("name", [name for name in ACTS if name != "reply_to_ticket"])
@pytest.mark.parametrize("closing", ["resolve_ticket", "escalate_ticket"])
async def test_an_act_on_a_closed_ticket_leaves_nothing(desk: Desk, name: str, closing: str) -> None:
    await desk.call(closing, **ACTS[closing][0](desk))
    desk.take_changes()
    result, event = await desk.call(name, **ACTS[name][0](desk))
    assert (result.status, event.committed) == (Status.CONFLICT, False)
    assert desk.take_changes() == ()


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("issue_refund", "payment_id"),
        ("apply_credit", "customer_id"),
        ("open_dispute", "payment_id"),
        ("cancel_subscription", "subscription_id"),
        ("change_plan", "subscription_id"),
    ],
)
async def test_what_is_another_customers_is_refused(desk: Desk, name: str, key: str) -> None:
    args = ACTS[name][0](desk)
    result, _ = await desk.call(name, **{**args, key: theirs(desk)[key]})
    missing, _ = await desk.call(name, **{**args, key: ABSENT})
    assert (result.status, missing.status) == (Status.CONFLICT, Status.NOT_FOUND)
    assert desk.take_changes() == ()


async def test_a_refund_goes_up_to_what_is_left_and_no_further(desk: Desk) -> None:
    payment = (await desk.call("get_payment", payment_id=own(desk)["payment_id"]))[0].content
    args = {**refund(desk), "amount_cents": payment["amount_cents"] - 1}
    assert (await desk.call("issue_refund", **args))[0].content["left_cents"] == 1
    desk.take_changes()
    assert (await desk.call("issue_refund", **{**args, "amount_cents": 2}))[0].status is Status.CONFLICT
    assert desk.take_changes() == ()
    assert (await desk.call("issue_refund", **{**args, "amount_cents": 1}))[0].content["left_cents"] == 0


async def test_a_cancelled_subscription_is_left_alone(desk: Desk) -> None:
    await desk.call("cancel_subscription", **subscription(desk))
    desk.take_changes()
    for name, make in (("cancel_subscription", subscription), ("change_plan", plan)):
        assert (await desk.call(name, **make(desk)))[0].status is Status.CONFLICT
    assert desk.take_changes() == ()


@pytest.mark.parametrize(("name", "key"), [("change_plan", "plan"), ("escalate_ticket", "queue")])
async def test_a_name_that_is_not_there_is_refused(desk: Desk, name: str, key: str) -> None:
    result, _ = await desk.call(name, **{**ACTS[name][0](desk), key: "nowhere"})
    assert result.status is Status.NOT_FOUND
    assert desk.take_changes() == ()


@pytest.mark.parametrize("amount", [0, -1, 1.5, "1.5", True, None, 10_000_001, 2**70])
async def test_an_amount_is_whole_cents_above_zero(desk: Desk, amount: object) -> None:
    result, _ = await desk.call("issue_refund", **{**refund(desk), "amount_cents": amount})
    assert result.status is Status.INVALID_ARGUMENTS
    assert desk.take_changes() == ()


TEXTS = [(tool.name, field) for tool in TOOLS for field, info in tool.arguments.model_fields.items() if info.annotation is str]


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800x", "x\udfff"])
@pytest.mark.parametrize(("name", "field"), TEXTS)
async def test_text_that_no_database_takes_is_an_answer_and_no_crash(desk: Desk, name: str, field: str, text: str) -> None:
    args = ACTS[name][0](desk) if name in ACTS else READS[name]
    result, _ = await desk.call(name, **{**args, field: text})
    assert result.status in (Status.MALFORMED_CALL, Status.INVALID_ARGUMENTS) or result.content == []
    assert desk.take_changes() == ()


@pytest.mark.parametrize("name", READS)
async def test_a_read_answers_twice_the_same_and_writes_nothing(desk: Desk, name: str) -> None:
    one, other = [(await desk.call(name, **READS[name]))[0] for _ in range(2)]
    assert one.status is Status.OK
    assert one.content
    assert one.content == other.content
    assert desk.take_changes() == ()


@pytest.mark.parametrize("name", [name for name, args in READS.items() if any(key.endswith("_id") for key in args)])
async def test_a_read_of_what_is_not_there_says_so(desk: Desk, name: str) -> None:
    (key,) = READS[name]
    assert (await desk.call(name, **{key: ABSENT}))[0].status is Status.NOT_FOUND


async def test_without_the_scope_there_is_no_act(desk: Desk) -> None:
    desk.world.memory.revoked_scopes.append("refunds:write")
    result, event = await desk.call("issue_refund", **refund(desk))
    assert (result.status, event.committed) == (Status.PERMISSION_DENIED, False)
    assert "refunds:write" not in (await desk.call("my_scopes"))[0].content
    assert desk.take_changes() == ()


async def test_an_unknown_agent_may_do_nothing(desk: Desk, billing: WorldDefinition) -> None:
    assert billing.scopes_of(desk.world, "nobody") == frozenset()


def test_arguments_are_strict_and_closed() -> None:
    assert all(issubclass(tool.arguments, Arguments) and tool.schema()["additionalProperties"] is False for tool in TOOLS)
