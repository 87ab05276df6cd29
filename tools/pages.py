"""Lists in pages, with cursors.

A tool with `paged=True` takes `Paged` arguments and answers with a `Page`; the toolbox makes the cursor of the next page and reads it back.

A cursor is a *stable key*: it says after which key of this list to go on. It is bound to the tool, to all other arguments but `limit`, and
to the episode, not to a version of the world: rows that come or go between two pages show or do not, and no row is shown twice or left out
for it. It is good for `CURSOR_LIFE_S` of world time, carries its own check, and needs no memory.
"""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from blake3 import blake3
from pydantic import Field
from sqlalchemy import Select
from sqlalchemy.orm import InstrumentedAttribute

from wardian.sandbox.world import World
from wardian.tools.contract import Arguments, Json, Tool, ToolContext
from wardian.tools.loading import Kind, Rejected

CURSOR_LIFE_S = 1800
LONGEST_PAGE = 50
EMPTY_PAGE: dict[str, Json] = {"items": [], "next_cursor": None}
_CHECK_BYTES = 6


class Paged(Arguments):
    """Base of the arguments of tools that list in pages."""

    cursor: str | None = Field(
        default=None, min_length=1, max_length=400, description="next_cursor of the page before; leave it out for the first page."
    )
    limit: int = Field(default=20, ge=1, le=LONGEST_PAGE, description="Most items of a page.")


@dataclass(frozen=True, slots=True)
class Page:
    """Items in the order of their keys, which are unique in the list; an integer or a text for each item."""

    items: tuple[Json, ...]
    keys: tuple[int | str, ...]
    more: bool
    """There are items after the last one."""

    def cut(self, amount: float) -> "Page":
        """A shorter page, of one item at least, by an amount from 0 to below 1; itself when it cannot be shorter."""
        if len(self.items) < 2:
            return self
        kept = 1 + int(amount * (len(self.items) - 1))
        return Page(self.items[:kept], self.keys[:kept], more=True)


def page_of(
    context: ToolContext, args: Paged, wanted: Select[*tuple[Any, ...]], key: InstrumentedAttribute[Any], show: Callable[..., Json]
) -> Page:
    """The page that `args` ask for of the rows that `wanted` selects, by the unique column `key`.

    `show` makes an item of what was selected of a row.
    """
    wanted = wanted.add_columns(key).order_by(key)
    if context.after is not None:
        wanted = wanted.where(key > context.after)
    rows = context.db.execute(wanted.limit(args.limit + 1)).all()
    page = rows[: args.limit]
    return Page(tuple(show(*row[:-1]) for row in page), tuple(row[-1] for row in page), more=len(rows) > len(page))


def answer(world: World, tool: Tool[Any], args: Arguments, page: Page) -> dict[str, Json]:
    """What the agent gets of a page."""
    cursor = _cursor(world, tool, args, page.keys[-1]) if page.more and page.keys else None
    return {"items": list(page.items), "next_cursor": cursor}


def after(world: World, tool: Tool[Any], args: Arguments) -> Json | Rejected:
    """The key after which a call goes on, `None` for a first page; or why its cursor is none."""
    cursor = getattr(args, "cursor", None)
    if not tool.paged or cursor is None:
        return None
    issued_ms, key = _read(world, tool, args, cursor)
    if issued_ms is None:
        message = f"cursor: this is no cursor that {tool.name} gave for these arguments. Copy next_cursor exactly, or leave cursor out."
        return Rejected(Kind.INVALID_VALUE, message, "cursor")
    if world.clock.now_ms - issued_ms > CURSOR_LIFE_S * 1000:
        message = f"cursor: it is older than {CURSOR_LIFE_S // 60} minutes. Leave cursor out, to begin with the first page again."
        return Rejected(Kind.INVALID_VALUE, message, "cursor")
    return key


def _cursor(world: World, tool: Tool[Any], args: Arguments, key: int | str) -> str:
    body = json.dumps([world.clock.now_ms, key], separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(_check(world, tool, args, body) + body).decode().rstrip("=")


def _read(world: World, tool: Tool[Any], args: Arguments, cursor: str) -> tuple[int | None, Json]:
    try:
        found = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return None, None
    body = found[_CHECK_BYTES:]
    if found[:_CHECK_BYTES] != _check(world, tool, args, body):
        return None, None
    issued_ms, key = json.loads(body)
    return issued_ms, key


def _check(world: World, tool: Tool[Any], args: Arguments, body: bytes) -> bytes:
    """Ties a cursor to episode, tool and query, so that no other one is taken for it."""
    query = args.model_dump_json(exclude={"cursor", "limit"})
    bound = f"{world.streams.seed}\x00{tool.name}\x00{query}\x00".encode("utf-8", "surrogatepass")
    return blake3(bound + body).digest(length=_CHECK_BYTES)
