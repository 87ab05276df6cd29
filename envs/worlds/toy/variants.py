"""Operators that make variants of tasks of the lending desk: the truth is computed anew from what was changed."""

import re
from collections.abc import Iterator
from dataclasses import replace

from wardian.envs.errors import TaskError
from wardian.envs.task import Task
from wardian.envs.variants import Broke, Operator
from wardian.sandbox.files import FileLayer

from .families.desk import LONGEST_DAYS, Desk, Request
from .families.requests import REQUESTS
from .seed import KINDS, MEMBERS, SUSPENDED

DESK, COUNTER = "lending-desk", "at-the-counter"
WISH = re.compile(r"member (\d+) wants a (\w+) for (\d+) days")
RETURN = re.compile(r"member (\d+) brings back item (\d+)")
Words = tuple[str, ...]


def move_trap(task: Task, words: Words) -> Task:
    """A request that must be refused is another member's, or for another kind, for whom the same holds."""
    requests, number = requests_of(task), place(task, words)
    refused = answers(requests)[number]
    for other in _others(requests[number], refused):
        moved = [*requests[:number], other, *requests[number + 1 :]]
        if refused.startswith("refused") and answers(moved)[number] == refused:
            return rebuilt(task, moved)
    raise TaskError(f"task_id: request {number} of {task.id} is no trap that can be moved")


def distractor(task: Task, words: Words) -> Task:
    """Right after a request that must be refused comes one that reads nearly the same and must be granted."""
    requests, number = requests_of(task), place(task, words)
    if answers(requests)[number].startswith("refused"):
        for member in range(1, len(MEMBERS) + 1):
            more = [*requests[: number + 1], replace(requests[number], member_id=member), *requests[number + 1 :]]
            if answers(more)[number + 1].startswith("lent"):
                return rebuilt(task, more)
    raise TaskError(f"task_id: request {number} of {task.id} has no neighbour that may be granted")


def shift_amount(task: Task, words: Words) -> Task:
    """The days that are wanted move across the longest time that is granted."""
    if task.id.family == COUNTER:
        return _shifted_wish(task)
    requests, number = requests_of(task), place(task, words)
    wish = requests[number]
    if wish.item_id or not answers(requests)[number].startswith("lent"):
        raise TaskError(f"task_id: request {number} of {task.id} is no wish that is granted")
    return rebuilt(task, [*requests[:number], replace(wish, days=across(wish.days)), *requests[number + 1 :]])


def across(days: int) -> int:
    """On the other side of the longest time that is granted, as near as can be."""
    return LONGEST_DAYS if days > LONGEST_DAYS else LONGEST_DAYS + 1


def _shifted_wish(task: Task) -> Task:
    days = across(int(task.facts["days"]))
    item, member, _ = task.parameters["loan"]
    facts = {**task.facts, "days": str(days)}
    if facts.get("days_at_first") == facts["days"]:
        raise TaskError(f"task_id: in {task.id} that is what the member wants at first")
    return replace(task, facts=facts, parameters={**task.parameters, "days": days, "loan": [item, member, min(days, LONGEST_DAYS)]})


def requests_of(task: Task) -> list[Request]:
    """The requests of a task, as its file has them."""
    found: list[Request] = []
    for line in task.files.entries[REQUESTS].data.decode().splitlines():
        if wish := WISH.fullmatch(line):
            found.append(Request(int(wish[1]), wish[2], int(wish[3])))
        elif back := RETURN.fullmatch(line):
            found.append(Request(int(back[1]), item_id=int(back[2])))
    return found


def place(task: Task, words: Words) -> int:
    """The number of a request, from 0."""
    count = len(requests_of(task))
    if len(words) != 1 or not words[0].isdigit() or int(words[0]) >= count:
        raise TaskError(f"task_id: {task.id} takes the number of a request, from 0 to {count - 1}; got {'.'.join(words) or 'none'}")
    return int(words[0])


def answers(requests: list[Request]) -> list[str]:
    """What the policy says to each.

    Raises:
        TaskError: something is brought back that nobody has.
    """
    desk = Desk()
    try:
        return [desk.handle(request) for request in requests]
    except KeyError as error:
        raise TaskError(f"task_id: item {error} would be brought back, and nobody has it") from error


def rebuilt(task: Task, requests: list[Request]) -> Task:
    """The task with other requests, and the truth about them."""
    truth = {
        "requests": [[one.member_id, one.kind, min(one.days, LONGEST_DAYS), one.item_id] for one in requests],
        "report": answers(requests),
        "requests_count": len(requests),
    }
    text = "".join(f"{one.line()}\n" for one in requests).encode()
    files = FileLayer({**task.files.entries, REQUESTS: replace(task.files.entries[REQUESTS], data=text)})
    return replace(task, parameters={**task.parameters, **truth}, files=files)


def _others(request: Request, refused: str) -> Iterator[Request]:
    members = sorted(SUSPENDED) if refused == "refused suspended" else range(1, len(MEMBERS) + 1)
    yield from (replace(request, member_id=member) for member in members if member != request.member_id)
    yield from (replace(request, kind=kind) for kind in KINDS if kind != request.kind and refused == "refused none")


def every_request(task: Task, broke: Broke) -> Iterator[Words]:
    """The requests of the member whom the policy was wrong about first."""
    requests = requests_of(task)
    mine = [number for number, one in enumerate(requests) if one.member_id == broke.args.get("member_id")]
    yield from ((str(number),) for number in [*mine, *(number for number in range(len(requests)) if number not in mine)])


def the_wish(task: Task, broke: Broke) -> Iterator[Words]:
    """A counter has one wish."""
    if task.id.family == COUNTER:
        yield ()
    else:
        yield from every_request(task, broke)


OPERATORS = (
    Operator("move_trap", "the request that must be refused is another member's, or for another kind", (DESK,), move_trap, every_request),
    Operator("distractor", "a request that is granted follows one like it that is refused", (DESK,), distractor, every_request),
    Operator("shift_amount", "the days move across the longest time that is granted", (DESK, COUNTER), shift_amount, the_wish),
)
