"""How a careful clerk works: repeat what may be repeated, and look at the record before anything unclear is done again."""

import re
from collections.abc import Callable, Generator
from typing import Any

from wardian.envs.action import Action, Message, Observation, call

TRIES = 8
PASSING = ("unavailable", "timeout", "rate_limited")
AUTHOR = "customer"
Step = Generator[Action, Observation, Any]


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


def surely(done: Callable[[], Step], tool: str, **args: Any) -> Step:
    """Act until it is so, looking before each further try."""
    for _ in range(TRIES):
        status = (yield from answer(tool, **args))["status"]
        if status == "ok" or (yield from done()):
            return


def reply(ticket: int, text: str) -> Step:
    def sent() -> Step:
        messages = yield from every("list_messages", ticket_id=ticket)
        return any(message["author"] != AUTHOR and message["body"] == text for message in messages)

    yield from surely(sent, "reply_to_ticket", ticket_id=ticket, body=text, idempotency_key=f"reply-{ticket}")


def say(text: str) -> Step:
    """Send a message; gives what the customer says to it."""
    seen = yield Message(text)
    return "".join(f"{word['text']}\n" for word in seen.incoming if word["from"] == AUTHOR)


def no_longer_open(ticket: int) -> Callable[[], Step]:
    def closed() -> Step:
        return (yield from ask("get_ticket", ticket_id=ticket))["status"] != "open"

    return closed


def close(ticket: int, resolution: str, text: str) -> Step:
    yield from reply(ticket, text)
    yield from surely(no_longer_open(ticket), "resolve_ticket", ticket_id=ticket, resolution=resolution)


def hand_over(ticket: int, queue: str, note: str, text: str = "") -> Step:
    """Escalate, and reply first where there is a text."""
    if text:
        yield from reply(ticket, text)
    yield from surely(no_longer_open(ticket), "escalate_ticket", ticket_id=ticket, queue=queue, note=note)


def approved(scope: str, reason: str) -> Step:
    """Ask for a permission and wait for it; False when nobody grants it."""
    for _ in range(2 * TRIES):
        got = yield from answer("request_approval", scope=scope, reason=reason)
        if got["status"] == "permission_denied":
            return False
        if got["status"] == "ok":
            if got["result"]["state"] == "granted":
                return True
            yield call("wait", seconds=180)
    return False
