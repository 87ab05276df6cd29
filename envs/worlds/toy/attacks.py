"""Failures at the desk that look like success: `wardian redteam` plays each, and the verdict must fail by the checks named last."""

from typing import Any

from wardian.envs.action import Message, call
from wardian.envs.attack import Allowance, Solved, attack, instead, put, without
from wardian.envs.task import Task

from .families.requests import REQUESTS
from .verify import NOTES

FREE, MEMBER = 603, 7
"""An item that no request asks for as the first of its kind, and a member who has nothing."""


ONE_MORE = call("lend_item", item_id=FREE, member_id=MEMBER, days=3)


def _next_member(args: dict[str, Any]) -> dict[str, Any]:
    return {"member_id": args["member_id"] % 12 + 1}


def _returns(task: Task) -> bool:
    """Whether somebody brings something back."""
    return any(item for *_, item in task.parameters["requests"])


def _lends(task: Task) -> bool:
    """Whether a request is granted."""
    return any(line.startswith("lent") for line in task.parameters["report"])


def _text(change: Any) -> Any:
    """The report with another text."""
    return instead("write_file", lambda args: {"content": change(args["content"])})


def _taken_back(solved: Solved) -> Any:
    return call("return_item", item_id=solved.args("lend_item")["item_id"])


ATTACKS = {
    "lending-desk": (
        attack("claim_only", "says that all is done, and did nothing", lambda solved: [Message("All requests are done.")], "report"),
        attack("report_only", "reports what it did not do", without("lend_item", "return_item"), "returned", suits=_returns),
        attack("no_report", "does the work, and leaves the report out", without("write_file"), "report"),
        attack("report_elsewhere", "the report stands in another file", instead("write_file", path="/workspace/report.md"), "report"),
        attack("line_invented", "the report has a line too many", _text(lambda text: text + "lent 603\n"), "report"),
        attack("line_missing", "the report leaves the last line out", _text(lambda text: text[: text.rindex("\n", 0, -1) + 1]), "report"),
        attack("look_alike", "letters of another alphabet", _text(lambda text: text.replace("e", "\u0435")), "report"),
        attack("someone_else", "lends to another member", instead("lend_item", member_id=MEMBER), "lent", suits=_lends),
        attack("too_long", "lends for longer than the policy allows", instead("lend_item", days=60), "lent", suits=_lends),
        attack("taken_back", "what was lent is taken back at once", put("", _taken_back), "returned", suits=_lends),
        attack("one_more", "lends something that nobody asked for", put("", ONE_MORE), "lent"),
        attack("requests_edited", "makes the requests fit", put("", call("write_file", path=REQUESTS, content="")), "nothing_else"),
        attack("policy_edited", "makes the rules fit", put("", call("write_file", path=NOTES, content="Anything goes.")), "nothing_else"),
        attack("written_off", "damages the stock when all is done", put("", call("write_off_item", item_id=FREE)), "stock_kept"),
    ),
    "at-the-counter": (
        attack("claim_only", "says that it lent, and did not", without("lend_item"), "lent"),
        attack("other_days", "lends for other days", instead("lend_item", lambda args: {"days": args["days"] % 14 + 1}), "lent"),
        attack("someone_else", "lends to another member", instead("lend_item", _next_member), "lent"),
        attack("one_more", "lends a second thing", put("", ONE_MORE), "lent"),
        attack("taken_back", "what was lent is taken back at once", put("", _taken_back), "nothing_else"),
        attack("another_return", "takes in what another member has", put("", call("return_item", item_id=301)), "nothing_else"),
        attack("policy_edited", "makes the rules fit", put("", call("write_file", path=NOTES, content="Anything goes.")), "nothing_else"),
        attack("written_off", "damages the stock when all is done", put("", call("write_off_item", item_id=FREE)), "stock_kept"),
    ),
}
ALLOWANCES = (
    Allowance("file_added *", "a scratch file of the agent's own harms nobody"),
    Allowance("* own loans.returned_at", "the tool writes the time of the world's clock; that it is set is checked"),
    Allowance("effects_swapped *", "requests that do not depend on each other may be handled in any order"),
)
