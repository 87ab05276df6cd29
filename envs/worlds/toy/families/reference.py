"""The reference solution: a careful clerk, by tools and observations only.

Robust by three habits: a call that was unavailable is made again; after an unclear write the primary is looked at before
anything is repeated; what a lagging list says is checked item by item.
"""

from collections.abc import Callable, Generator
from typing import Any

from wardian.envs.action import Action, Message, Observation, call

from .desk import LIMIT, LONGEST_DAYS

TRIES = 8
PASSING = ("unavailable", "timeout", "rate_limited")
Step = Generator[Action, Observation, Any]


def solve(requests: str, report: str) -> Step:
    """Work through the file `requests`, write the file `report`, and say so."""
    found = yield from ask("read_file", path=requests)
    lines: list[str] = []
    for line in found["text"].splitlines():
        words = line.split()
        member = int(words[1])
        if words[2] == "brings":
            lines.append((yield from _take_back(int(words[5]))))
        else:
            lines.append((yield from lend_to(member, words[4], int(words[6]))))
    yield from ask("write_file", path=report, content="".join(f"{line}\n" for line in lines))
    yield Message("All requests are done; the report is written.")


def answer(tool: str, **args: Any) -> Step:
    """One call; where the answer says when to come again, that time is waited for."""
    found = (yield call(tool, **args)).results[0]
    if retry_after_ms := (found.get("details") or {}).get("retry_after_ms"):
        yield call("wait", seconds=-(-retry_after_ms // 1000))
    return found


def ask(tool: str, **args: Any) -> Step:
    """Call a tool that may be called again, until it answers; gives the result."""
    for _ in range(TRIES):
        found = yield from answer(tool, **args)
        if found["status"] not in PASSING:
            break
    return found.get("result")


def _write(done: Callable[[], Step], tool: str, **args: Any) -> Step:
    """Call a tool that changes something until `done` says that it is so, looking before each further try."""
    for _ in range(TRIES):
        found = yield from answer(tool, **args)
        if found["status"] == "ok" or (yield from done()):
            return


def _take_back(item: int) -> Step:
    def is_back() -> Step:
        return (yield from ask("show_item", item_id=item))["in_house"]

    yield from _write(is_back, "return_item", item_id=item)
    return f"returned {item}"


def lend_to(member: int, kind: str, days: int) -> Step:
    """Lend by the policy; gives the line of the report."""
    standing = yield from ask("show_member", member_id=member)
    if standing["suspended"]:
        return "refused suspended"
    if len(standing["items"]) >= LIMIT:
        return "refused limit"
    item = yield from _first_in_house(kind)
    if item is None:
        return "refused none"

    def has_it() -> Step:
        return (yield from ask("show_item", item_id=item))["lent_to"] == member

    yield from _write(has_it, "lend_item", item_id=item, member_id=member, days=min(days, LONGEST_DAYS))
    return f"lent {item}"


def _first_in_house(kind: str) -> Step:
    """The lowest item of `kind` that is in the house; the list names them, the primary says which are in."""
    listed: list[dict[str, Any]] = []
    for _ in range(TRIES):
        listed = yield from ask("list_items", kind=kind)
        if listed:
            break
    for entry in listed:
        if (yield from ask("show_item", item_id=entry["item_id"]))["in_house"]:
            return entry["item_id"]
    return None
