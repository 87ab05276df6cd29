"""The toolbox on a real database: commits, rollbacks, stale reads, and reads that may not write."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field
from sqlalchemy import ForeignKey, select, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from wardian.sandbox.database import SqliteTemplate
from wardian.sandbox.database.base import TemplateSource, WorldDatabase
from wardian.sandbox.world import World
from wardian.tools.contract import Arguments, CallEvent, Json, Refusal, Source, Status, Tool, ToolCall, ToolContext, ToolResult
from wardian.tools.errors import ToolBroken
from wardian.tools.faults import Fault, FaultPlan, FaultProfile
from wardian.tools.packs.sql import sql_tools
from wardian.tools.toolbox import Toolbox


class Base(DeclarativeBase):
    pass


class Account(Base):
    __tablename__ = "accounts"
    id: Mapped[int] = mapped_column(primary_key=True)
    balance: Mapped[int]


class Transfer(Base):
    __tablename__ = "transfers"
    id: Mapped[int] = mapped_column(primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"))
    amount: Mapped[int]


def seed_rows(session: Session, seed: int) -> None:
    session.add_all([Account(id=number, balance=100 * number) for number in (1, 2, 3)])


class Deposit(Arguments):
    account_id: int = Field(ge=1)
    amount: int


class Which(Arguments):
    account_id: int = 1


async def deposit(context: ToolContext, arguments: Deposit) -> Json:
    account = context.db.get(Account, arguments.account_id)
    context.db.add(Transfer(id=context.new_id("transfers"), account_id=arguments.account_id, amount=arguments.amount))
    if account is None:
        raise Refusal(Status.NOT_FOUND, f"there is no account {arguments.account_id}")
    account.balance += arguments.amount
    context.db.flush()
    context.note("deposit", account_id=account.id)
    if account.balance > 1_000_000:
        raise Refusal(Status.CONFLICT, "too much")
    return {"balance": account.balance}


async def balances(context: ToolContext, arguments: Which) -> Json:
    return [account.balance for account in context.db.scalars(select(Account).order_by(Account.id))]


DEPOSIT = Tool("deposit", "Pay in.", Deposit, deposit, mutates=True, errors=(Status.NOT_FOUND, Status.CONFLICT), idempotent=False)
BALANCES = Tool("balances", "All balances.", Which, balances, source=Source.REPLICA, empty_page=[])
EXACT = Tool("exact_balances", "All balances.", Which, balances)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    template = SqliteTemplate.build(TemplateSource("bank", Base.metadata, seed_rows), tmp_path)
    world = World(start=datetime(2026, 1, 1, tzinfo=UTC), seed=3, database=template.clone())
    yield world
    world.close()


def call(box: Toolbox, on: World, name: str, step: int = 1, **args: Json) -> tuple[ToolResult, CallEvent]:
    return asyncio.run(box.call(on, ToolCall(name, args), agent_id="agent", step=step))


def plan(fault: Fault, **more: Any) -> FaultPlan:
    return FaultPlan(FaultProfile(name="always", **{fault.value: 1.0, "max_total": 1000, "max_consecutive": 5, **more}))


def database(world: World) -> WorldDatabase:
    assert world.database is not None
    return world.database


def test_a_call_commits_whole(world: World) -> None:
    result, event = call(Toolbox([DEPOSIT, BALANCES]), world, "deposit", account_id=1, amount=5)
    assert (result.content, event.committed) == ({"balance": 105}, True)
    assert {change.table for change in database(world).take_changes()} == {"accounts", "transfers"}


@pytest.mark.parametrize(("account_id", "amount", "status"), [(9, 5, "not_found"), (1, 2_000_000, "conflict")])
def test_a_refusal_leaves_nothing_behind(world: World, account_id: int, amount: int, status: str) -> None:
    before = database(world).fingerprint()
    result, event = call(Toolbox([DEPOSIT]), world, "deposit", account_id=account_id, amount=amount)
    assert (result.status.value, event.committed, event.effects) == (status, False, ())
    assert database(world).fingerprint().root == before.root == database(world).recompute().root
    assert call(Toolbox([DEPOSIT]), world, "deposit", account_id=1, amount=1)[0].status is Status.OK


def test_a_bug_leaves_nothing_behind(world: World) -> None:
    async def broken(context: ToolContext, arguments: Deposit) -> Json:
        await deposit(context, arguments)
        raise KeyError("bug")

    before = database(world).fingerprint().root
    box = Toolbox([Tool("deposit", "Pay in.", Deposit, broken, mutates=True)])
    with pytest.raises(ToolBroken):
        call(box, world, "deposit", account_id=1, amount=5)
    assert database(world).fingerprint().root == before


def test_a_value_that_the_database_refuses_is_an_outcome(world: World) -> None:
    async def orphan(context: ToolContext, arguments: Deposit) -> Json:
        context.db.add(Transfer(id=1, account_id=arguments.account_id, amount=1))
        context.db.add(Transfer(id=1, account_id=arguments.account_id, amount=2))

    before = database(world).fingerprint().root
    box = Toolbox([Tool("orphan", "Pay in.", Deposit, orphan, mutates=True)])
    assert call(box, world, "orphan", account_id=1, amount=5)[0].status is Status.CONFLICT
    assert database(world).fingerprint().root == before


def test_a_timeout_after_the_effect_has_really_committed(world: World) -> None:
    result, event = call(Toolbox([DEPOSIT], plan(Fault.TIMEOUT_AFTER)), world, "deposit", account_id=1, amount=5)
    assert (result.status, event.fault, event.committed) == (Status.TIMEOUT, "timeout_after", True)
    assert call(Toolbox([EXACT]), world, "exact_balances")[0].content == [105, 200, 300]


def test_a_timeout_after_does_not_land_on_a_refusal(world: World) -> None:
    result, event = call(Toolbox([DEPOSIT], plan(Fault.TIMEOUT_AFTER)), world, "deposit", account_id=9, amount=5)
    assert (result.status, event.fault, event.committed) == (Status.NOT_FOUND, None, False)


def test_a_stale_read_is_really_older_and_heals(world: World) -> None:
    box = Toolbox([DEPOSIT, BALANCES, EXACT], plan(Fault.STALE, max_lag_steps=2))
    assert call(box, world, "balances", step=1)[1].fault is None
    call(box, world, "deposit", step=2, account_id=1, amount=5)
    result, event = call(box, world, "balances", step=3)
    assert (result.content, event.fault, event.stale_step) == ([100, 200, 300], "stale", 2)
    assert call(box, world, "exact_balances", step=3)[0].content == [105, 200, 300]
    healed, later = call(box, world, "balances", step=5)
    assert (healed.content, later.fault) == ([105, 200, 300], None)
    box.close()


def test_a_refused_write_is_no_older_state(world: World) -> None:
    box = Toolbox([DEPOSIT, BALANCES], plan(Fault.STALE))
    call(box, world, "deposit", account_id=9, amount=5)
    assert call(box, world, "balances", step=2)[1].fault is None


def test_a_state_changed_back_is_not_stale(world: World) -> None:
    box = Toolbox([DEPOSIT, BALANCES], plan(Fault.STALE))
    with box.holding(world, 1), database(world).transaction() as session:
        session.execute(text("update accounts set balance = 7 where id = 1"))
    assert call(box, world, "balances", step=2)[1].stale_step == 1
    with box.holding(world, 3), database(world).transaction() as session:
        session.execute(text("update accounts set balance = 100 where id = 1"))
    assert call(box, world, "balances", step=4)[0].content == [7, 200, 300]
    box.close()


def test_an_empty_page_lands_and_the_next_read_is_full(world: World) -> None:
    box = Toolbox([BALANCES], plan(Fault.EMPTY, max_consecutive=1))
    assert (call(box, world, "balances")[0].content, call(box, world, "balances")[0].content) == ([], [100, 200, 300])


@pytest.mark.parametrize("flush", [True, False])
def test_a_read_that_writes_is_a_bug_of_its_author(world: World, flush: bool) -> None:
    async def sneaky(context: ToolContext, arguments: Which) -> Json:
        account = context.db.get(Account, 1)
        assert account is not None
        account.balance = 0
        if flush:
            context.db.flush()

    with pytest.raises(ToolBroken, match="mutates=False"):
        call(Toolbox([Tool("look", "Look.", Which, sneaky)]), world, "look")


def test_an_id_of_a_refused_call_is_given_again(world: World) -> None:
    box = Toolbox([DEPOSIT])
    call(box, world, "deposit", account_id=9, amount=1)
    call(box, world, "deposit", account_id=1, amount=1)
    with database(world).freeze().session() as session:
        assert session.scalars(select(Transfer.id)).all() == [1]


def test_the_sql_pack_reads_and_cannot_write(world: World) -> None:
    box = Toolbox(sql_tools(Base.metadata))
    before = database(world).fingerprint().root
    rows = call(box, world, "query_database", sql="select id, balance from accounts order by id")[0]
    assert rows.content == {"columns": ["id", "balance"], "rows": [[1, 100], [2, 200], [3, 300]]}
    for bad in ("selec 1", "delete from accounts", "select 1; drop table accounts"):
        assert call(box, world, "query_database", sql=bad)[0].status is Status.INVALID_ARGUMENTS
    assert call(box, world, "query_database", sql="select 1 as one")[0].content["rows"] == [[1]]
    assert database(world).fingerprint().root == before


def test_the_schema_is_told_from_the_models(world: World) -> None:
    found = call(Toolbox(sql_tools(Base.metadata)), world, "describe_database")[0].content
    assert found["transfers"]["account_id"] == "integer not null references accounts.id"
