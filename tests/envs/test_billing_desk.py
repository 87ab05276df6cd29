"""The desk's tools on a clone, without a cell: contracts, odd arguments, and amounts up to the last cent."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from wardian.envs.errors import TaskError
from wardian.envs.registry import load_world
from wardian.envs.start import insert_rows
from wardian.envs.task import Difficulty
from wardian.envs.worlds.billing.tools import TOOLS
from wardian.sandbox.database import SqliteTemplate
from wardian.sandbox.database.base import RowChange, Template
from wardian.sandbox.world import World
from wardian.tools.contract import Source, Status, ToolCall, ToolResult
from wardian.tools.toolbox import Toolbox

pytestmark = pytest.mark.anyio
WORLD = load_world("billing")
TASK = WORLD.family("billing-dispute").generate(Difficulty.MEDIUM, 4)
WANTED = TASK.parameters
TICKET, PAYMENT, CUSTOMER = WANTED["ticket_id"], WANTED["payment_id"], WANTED["customer_id"]
SUBSCRIPTION = next(row["id"] for row in TASK.rows["subscriptions"] if row["customer_id"] == CUSTOMER)
ABSENT = 999_999
REFUND: dict[str, Any] = {"payment_id": PAYMENT, "ticket_id": TICKET, "amount_cents": 100, "reason": "goodwill"}
TEXTS: dict[tuple[str, str], dict[str, Any]] = {
    ("find_customers", "query"): {},
    ("find_accounts", "value"): {"kind": "card"},
    ("apply_credit", "reason"): {"customer_id": CUSTOMER, "ticket_id": TICKET, "amount_cents": 1},
    ("open_dispute", "reason"): {"payment_id": PAYMENT, "ticket_id": TICKET},
    ("change_plan", "plan"): {"subscription_id": SUBSCRIPTION, "ticket_id": TICKET},
    ("reply_to_ticket", "body"): {"ticket_id": TICKET},
    ("record_payment", "gateway_ref"): {"ticket_id": TICKET, "invoice_id": 1, "amount_cents": 1, "paid_on": "2026-05-01"},
    ("record_payment", "paid_on"): {"ticket_id": TICKET, "invoice_id": 1, "amount_cents": 1, "gateway_ref": "gw_0123456789ab"},
    ("escalate_ticket", "queue"): {"ticket_id": TICKET, "note": "x"},
    ("escalate_ticket", "note"): {"ticket_id": TICKET, "queue": "legal"},
}
"""Every free text that a tool takes, with the other arguments of a call."""


@dataclass(frozen=True, slots=True)
class Desk:
    world: World
    toolbox: Toolbox

    async def call(self, tool: str, **args: Any) -> ToolResult:
        return (await self.toolbox.call(self.world, ToolCall(tool, args), agent_id=TASK.agent_id, step=1))[0]

    def take_changes(self) -> tuple[RowChange, ...]:
        assert self.world.database is not None
        return self.world.database.take_changes()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return SqliteTemplate.build(WORLD.template, tmp_path_factory.mktemp("templates"))


@pytest.fixture
async def desk(template: Template) -> AsyncIterator[Desk]:
    world = World(start=TASK.start, seed=1, database=template.clone())
    assert world.database is not None
    insert_rows(world.database, WORLD.template.metadata, TASK)
    world.database.take_changes()
    toolbox = Toolbox(WORLD.tools, scopes_of=WORLD.scopes_of)
    yield Desk(world, toolbox)
    toolbox.close()
    world.close()


def test_every_act_needs_a_scope_and_says_that_it_is_not_idempotent() -> None:
    assert all(tool.scopes and not tool.idempotent for tool in TOOLS if tool.mutates)


def test_only_lists_may_lag_and_they_say_so() -> None:
    lagging = [tool for tool in TOOLS if tool.source is Source.REPLICA]
    assert all("may lag" in tool.description and tool.name.startswith(("list_", "find_")) for tool in lagging)


def test_arguments_are_closed() -> None:
    assert all(tool.schema()["additionalProperties"] is False for tool in TOOLS)


async def test_a_refund_goes_up_to_what_is_left_and_no_further(desk: Desk) -> None:
    paid = (await desk.call("get_payment", payment_id=PAYMENT)).content["amount_cents"]
    first = await desk.call("issue_refund", **{**REFUND, "amount_cents": paid - 1})
    desk.take_changes()
    assert (first.content["left_cents"], (await desk.call("issue_refund", **{**REFUND, "amount_cents": 2})).status) == (1, Status.CONFLICT)
    assert desk.take_changes() == ()
    assert (await desk.call("issue_refund", **{**REFUND, "amount_cents": 1})).content["left_cents"] == 0
    assert (await desk.call("get_payment", payment_id=PAYMENT)).content["refunded_cents"] == paid


async def test_equal_refunds_are_two_refunds(desk: Desk) -> None:
    ids = [(await desk.call("issue_refund", **REFUND)).content["refund_id"] for _ in range(2)]
    listed = (await desk.call("list_refunds", customer_id=CUSTOMER)).content["items"]
    assert [refund["refund_id"] for refund in listed] == ids
    assert (await desk.call("get_ticket", ticket_id=TICKET)).content["refunds"] == listed


@pytest.mark.parametrize("amount", [0, -1, 1.5, "1.5", True, None, 10_000_001, 2**70])
async def test_an_amount_is_whole_cents_above_zero(desk: Desk, amount: object) -> None:
    assert (await desk.call("issue_refund", **{**REFUND, "amount_cents": amount})).status is Status.INVALID_ARGUMENTS
    assert desk.take_changes() == ()


async def test_a_cancelled_subscription_is_left_alone(desk: Desk) -> None:
    args = {"subscription_id": SUBSCRIPTION, "ticket_id": TICKET}
    await desk.call("cancel_subscription", **args)
    desk.take_changes()
    again = [await desk.call("cancel_subscription", **args), await desk.call("change_plan", **args, plan="starter")]
    assert [result.status for result in again] == [Status.CONFLICT] * 2
    assert desk.take_changes() == ()


async def test_a_change_to_the_plan_that_it_is_on_is_none(desk: Desk) -> None:
    listed = (await desk.call("list_subscriptions", customer_id=CUSTOMER)).content["items"]
    again = await desk.call("change_plan", subscription_id=SUBSCRIPTION, ticket_id=TICKET, plan=listed[0]["plan"])
    assert (again.status, desk.take_changes()) == (Status.CONFLICT, ())


async def test_pages_of_one_hold_the_same_as_one_page(desk: Desk) -> None:
    whole = (await desk.call("list_invoices", customer_id=CUSTOMER)).content["items"]
    found: list[dict[str, Any]] = []
    more: dict[str, str] = {}
    while not found or more:
        page = (await desk.call("list_invoices", customer_id=CUSTOMER, limit=1, **more)).content
        found += page["items"]
        more = {"cursor": page["next_cursor"]} if page["next_cursor"] else {}
    assert found == whole
    assert len(whole) > 3


@pytest.mark.parametrize(("query", "finds"), [("%%", False), ("__", False), ("@example.org", True), ("EXAMPLE.ORG", True)])
async def test_a_search_knows_no_wildcards(desk: Desk, query: str, finds: bool) -> None:
    assert bool((await desk.call("find_customers", query=query)).content["items"]) == finds


async def test_an_escalated_ticket_takes_no_act_but_a_reply(desk: Desk) -> None:
    await desk.call("escalate_ticket", ticket_id=TICKET, queue="legal", note="x")
    desk.take_changes()
    refused = [
        await desk.call("issue_refund", **REFUND),
        await desk.call("resolve_ticket", ticket_id=TICKET, resolution="other"),
        await desk.call("escalate_ticket", ticket_id=TICKET, queue="fraud", note="x"),
    ]
    assert [result.status for result in refused] == [Status.CONFLICT] * 3
    assert desk.take_changes() == ()
    assert (await desk.call("reply_to_ticket", ticket_id=TICKET, body="x")).status is Status.OK


def test_every_free_text_is_tried() -> None:
    found = {(tool.name, name) for tool in TOOLS for name, info in tool.arguments.model_fields.items() if info.annotation is str}
    assert found == set(TEXTS)


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800x", "x\udfff"])
@pytest.mark.parametrize(("tool", "field"), TEXTS)
async def test_text_that_no_database_takes_is_refused_or_not_found(desk: Desk, tool: str, field: str, text: str) -> None:
    result = await desk.call(tool, **TEXTS[tool, field], **{field: text})
    assert result.status in (Status.MALFORMED_CALL, Status.INVALID_ARGUMENTS) or result.content == []
    assert desk.take_changes() == ()


@pytest.mark.parametrize(
    ("tool", "key"),
    [
        ("get_customer", "customer_id"),
        ("list_subscriptions", "customer_id"),
        ("list_usage", "subscription_id"),
        ("list_invoices", "customer_id"),
        ("get_invoice", "invoice_id"),
        ("list_payments", "customer_id"),
        ("get_payment", "payment_id"),
        ("list_refunds", "customer_id"),
        ("get_ticket", "ticket_id"),
        ("list_messages", "ticket_id"),
    ],
)
async def test_a_look_at_what_is_not_there_says_so(desk: Desk, tool: str, key: str) -> None:
    assert (await desk.call(tool, **{key: ABSENT})).status is Status.NOT_FOUND


async def test_an_agent_that_the_desk_does_not_know_may_do_nothing(desk: Desk) -> None:
    result, event = await desk.toolbox.call(desk.world, ToolCall("issue_refund", REFUND), agent_id="agent-8", step=1)
    assert (result.status, event.committed) == (Status.PERMISSION_DENIED, False)


async def test_rows_of_different_columns_are_refused(template: Template) -> None:
    database = template.clone()
    mixed = replace(TASK, rows={**TASK.rows, "payments": (*TASK.rows["payments"], {"id": 1})})
    with pytest.raises(TaskError, match="adds to payments have different columns; give each row all of them"):
        insert_rows(database, WORLD.template.metadata, mixed)
    database.close()
