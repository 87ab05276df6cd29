"""Lists in pages: cursors that hold while rows come and go, cursors that are none, and pages that are cut short."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from wardian.sandbox.database import SqliteTemplate
from wardian.sandbox.database.base import Template, TemplateSource
from wardian.sandbox.world import World
from wardian.tools import pages
from wardian.tools.contract import CallEvent, Json, Source, Status, Tool, ToolCall, ToolContext, ToolResult
from wardian.tools.errors import ToolBroken, ToolMisdeclared
from wardian.tools.faults import Fault, FaultPlan, FaultProfile
from wardian.tools.packs.waiting import WAIT
from wardian.tools.pages import EMPTY_PAGE, Page, Paged, page_of
from wardian.tools.toolbox import Toolbox


class Base(DeclarativeBase):
    pass


class Entry(Base):
    __tablename__ = "entries"
    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    code: Mapped[str] = mapped_column(unique=True)


ALL = range(10, 101, 10)


def seed_rows(session: Session, seed: int) -> None:
    session.add_all([Entry(id=number, kind="odd" if number % 20 else "even", code=f"c{number:03}") for number in ALL])


class Listing(Paged):
    kind: str | None = None


def chosen(args: Listing) -> Any:
    wanted = select(Entry)
    return wanted if args.kind is None else wanted.where(Entry.kind == args.kind)


async def by_id(context: ToolContext, args: Listing) -> Page:
    return page_of(context, args, chosen(args), Entry.id, lambda row: row.id)


async def by_code(context: ToolContext, args: Listing) -> Page:
    return page_of(context, args, chosen(args), Entry.code, lambda row: row.id)


def tool(name: str = "entries", handler: Any = by_id, **more: Any) -> Tool[Any]:
    return Tool(name, "List.", Listing, handler, **{"source": Source.REPLICA, "paged": True, "empty_page": EMPTY_PAGE, **more})


TOOLS = (tool(), tool("others"), tool("coded", by_code), WAIT)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return SqliteTemplate.build(TemplateSource("list", Base.metadata, seed_rows), Path(tmp_path_factory.mktemp("list")))


def call(on: World, name: str = "entries", box: Toolbox | None = None, **args: Json) -> tuple[ToolResult, CallEvent]:
    return asyncio.run((box or Toolbox(TOOLS)).call(on, ToolCall(name, args), agent_id="agent", step=1))


def walk(on: World, name: str = "entries", box: Toolbox | None = None, **args: Json) -> Iterator[list[int]]:
    """The pages of a list; whatever is done between two of them has happened when the next is read."""
    more: dict[str, Json] = {}
    while True:
        page = call(on, name, box, **args, **more)[0].content
        yield page["items"]
        if page["next_cursor"] is None:
            return
        more = {"cursor": page["next_cursor"]}


def change(on: World, *, add: int = 0, remove: int = 0) -> None:
    assert on.database is not None
    with on.database.transaction() as session:
        if add:
            session.add(Entry(id=add, kind="new", code=f"c{add:03}"))
        if remove:
            session.delete(session.get(Entry, remove))


@pytest.mark.parametrize("name", ["entries", "coded"])
@pytest.mark.parametrize("limit", [1, 3, 5, 9, 10, 11])
def test_pages_hold_every_row_once_and_in_order(make_world: Callable[..., World], limit: int, name: str) -> None:
    pages = list(walk(make_world(), name, limit=limit))
    assert list(chain.from_iterable(pages)) == list(ALL)
    assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)
    assert 0 < len(pages[-1]) <= limit


def test_an_empty_list_is_one_page(make_world: Callable[..., World]) -> None:
    assert call(make_world(), kind="none")[0].content == EMPTY_PAGE


def test_rows_that_come_and_go_shift_no_other(make_world: Callable[..., World]) -> None:
    on, found = make_world(), []
    for number, page in enumerate(walk(on, limit=3)):
        found += page
        if number == 0:
            change(on, remove=20)
            change(on, remove=30)
            change(on, add=15)
            change(on, add=45)
    assert found == [10, 20, 30, 40, 45, 50, 60, 70, 80, 90, 100]


def test_the_limit_may_change_between_pages(make_world: Callable[..., World]) -> None:
    on = make_world()
    cursor = call(on, limit=2)[0].content["next_cursor"]
    assert call(on, limit=4, cursor=cursor)[0].content["items"] == [30, 40, 50, 60]


def refused(on: World, name: str = "entries", **args: Json) -> str:
    result, event = call(on, name, **args)
    assert (result.status, event.problem, event.committed) == (Status.INVALID_ARGUMENTS, "invalid_value(cursor)", False)
    return result.message


def test_a_cursor_of_another_tool_query_or_episode_is_refused(make_world: Callable[..., World]) -> None:
    on = make_world()
    cursor = call(on, limit=2)[0].content["next_cursor"]
    assert "no cursor that others gave" in refused(on, "others", cursor=cursor)
    assert "no cursor that entries gave" in refused(on, kind="odd", cursor=cursor)
    assert "no cursor that entries gave" in refused(make_world(seed=2), cursor=cursor)


@pytest.mark.parametrize("made_up", ["1", "next", "é", "10", "=", "A" * 400, "AAAAAAAA", "W10", "\x00"])
def test_a_text_that_is_no_cursor_is_refused(make_world: Callable[..., World], made_up: str) -> None:
    refused(make_world(), cursor=made_up)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 200), st.characters(codec="ascii"))
def test_a_changed_cursor_is_refused_or_means_the_same(place: int, letter: str) -> None:
    on = World(start=datetime(2026, 1, 1, tzinfo=UTC), seed=1)
    page, args = Page(("a",), (30,), more=True), Listing()
    cursor = pages.answer(on, TOOLS[0], args, page)["next_cursor"]
    at = place % len(cursor)
    changed = Listing(cursor=cursor[:at] + letter + cursor[at + 1 :])
    assert pages.after(on, TOOLS[0], changed) == 30 or not isinstance(pages.after(on, TOOLS[0], changed), int)


def test_a_cursor_is_good_for_half_an_hour(make_world: Callable[..., World]) -> None:
    on = make_world()
    cursor = call(on, limit=2)[0].content["next_cursor"]
    call(on, "wait", seconds=1790)
    assert call(on, limit=2, cursor=cursor)[0].status is Status.OK
    call(on, "wait", seconds=11)
    assert "older than 30 minutes" in refused(on, cursor=cursor)


def test_equal_episodes_give_equal_cursors(make_world: Callable[..., World]) -> None:
    assert call(make_world(), limit=2)[0] == call(make_world(), limit=2)[0]


def always(fault: Fault, **more: Any) -> Toolbox:
    return Toolbox(TOOLS, FaultPlan(FaultProfile(name="always", **{fault.value: 1.0, "max_total": 1000, "max_consecutive": 5, **more})))


@pytest.mark.parametrize("seed", range(5))
def test_a_page_that_is_cut_short_says_so_and_paging_still_finds_all(make_world: Callable[..., World], seed: int) -> None:
    on, box = make_world(seed), always(Fault.PARTIAL)
    result, event = call(on, box=box, limit=6)
    assert (event.fault, result.content["next_cursor"] is not None) == ("partial", True)
    assert 1 <= len(result.content["items"]) < 6
    assert list(chain.from_iterable(walk(on, box=box, limit=4))) == list(ALL)


def test_a_page_of_one_cannot_be_cut_short(make_world: Callable[..., World]) -> None:
    assert call(make_world(), box=always(Fault.PARTIAL), limit=1)[1].fault is None


def test_an_empty_page_in_place_of_rows_heals(make_world: Callable[..., World]) -> None:
    on, box = make_world(), always(Fault.EMPTY, max_consecutive=1)
    result, event = call(on, box=box)
    assert (result.content, event.fault) == (EMPTY_PAGE, "empty")
    assert call(on, box=box)[0].content["items"] == list(ALL)


def test_what_contradicts_itself_is_refused(make_world: Callable[..., World]) -> None:
    async def rows(context: ToolContext, args: Listing) -> Json:
        return []

    with pytest.raises(ToolBroken, match="no Page"):
        call(make_world(), box=Toolbox([tool(handler=rows)]))
    with pytest.raises(ToolMisdeclared, match="cursor and limit"):
        Tool("wait", "Wait.", WAIT.arguments, rows, paged=True)
