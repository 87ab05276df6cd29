"""A search that forks at every step, on tickets which the `greedy` clerk gets wrong: `python examples/tree_search.py [seeds]`.

The clerk of this search has the tools and observations of any agent, and no idea which refund is right. So it does not choose: where
several acts are possible it forks the episode, takes one in each fork, and goes on in the most promising one first. Only when an episode
has ended does the verifier's verdict say whether that way was right; nothing else of the truth is looked at.

Each ticket is searched twice, and the second search must give the same to the last byte.
"""

import re
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import anyio

from wardian.envs.action import Action, Message, Observation, Step, call
from wardian.envs.environment import ToolEnvironment
from wardian.envs.registry import load_world, open_environment
from wardian.envs.snapshot import Snapshot
from wardian.envs.worlds.billing.guessing import greedy, reason_of

FORKS = 3
"""Branches that are tried at once; each has a cell of its own."""
MOST_STEPS = 400

Propose = Callable[[Sequence[Observation]], Sequence[Action]]
"""What may be done next, most promising first, from all that was seen so far."""


@dataclass(frozen=True, slots=True)
class Node:
    """A state of an episode, and the way to it."""

    snapshot: Snapshot
    seen: tuple[Observation, ...]
    actions: tuple[Action, ...] = ()


@dataclass(slots=True)
class Found:
    """What a search came to."""

    actions: tuple[Action, ...] = ()
    """The way that succeeded; empty where none did."""
    rewards: list[float | None] = field(default_factory=list)
    """Of each episode that ended, in the order of the search."""
    fingerprint: str = ""
    """Of the final state."""
    steps: int = 0

    @property
    def succeeded(self) -> bool:
        return bool(self.actions)


async def search(env: ToolEnvironment, task_id: str, propose: Propose, seed: int = 0) -> Found:
    """Search depth first, the most promising branch first, until an episode succeeds or nothing is left to try."""
    first = await env.reset(task_id, seed)
    left, found = [Node(await env.snapshot(), (first,))], Found()
    while left and not found.succeeded and found.steps < MOST_STEPS:
        node = left.pop()
        grown: list[Node] = []
        options = propose(node.seen)
        for start in range(0, len(options), FORKS):
            grown += await _branch(env, node, options[start : start + FORKS], found)
        left += reversed(grown)
    return found


async def _branch(env: ToolEnvironment, node: Node, options: Sequence[Action], found: Found) -> list[Node]:
    """Take each option in a fork of its own; gives those that go on."""
    await env.restore(node.snapshot)
    forks = await env.fork(len(options))
    results: list[tuple[Step, Snapshot | None] | None] = [None] * len(options)

    async def take(number: int) -> None:
        step = await forks[number].step(options[number])
        results[number] = step, None if step.done else await forks[number].snapshot()

    async with AsyncExitStack() as ends:
        for fork in forks:
            await ends.enter_async_context(fork)
        async with anyio.create_task_group() as group:
            for number in range(len(options)):
                group.start_soon(take, number)
    grown = []
    for action, result in zip(options, results, strict=True):
        assert result is not None
        step, snapshot = result
        found.steps += 1
        way = (*node.actions, action)
        if snapshot is not None:
            grown.append(Node(snapshot, (*node.seen, step.observation), way))
            continue
        found.rewards.append(step.reward)
        if step.info.verdict is not None and step.info.verdict.succeeded and not found.succeeded:
            assert step.info.fingerprint is not None
            found.actions, found.fingerprint = way, step.info.fingerprint.root
    return grown


def clerk(seen: Sequence[Observation]) -> Sequence[Action]:
    """What a clerk may do next: look at all that there is first, then decide what to refund, then answer and close."""
    ticket = int(re.findall(r"ticket (\d+)", seen[0].rendered)[0])
    looked = [observation.results[0].get("result") for observation in seen[1:]]
    look = _look(ticket, looked)
    if look is not None:
        return [look]
    done = looked[LOOKS:]
    refunded = bool(done) and isinstance(done[0], dict) and "refund_id" in done[0]
    if not done:
        return [*_refunds(ticket, looked), _answer(ticket, "I cannot find that we owe you anything.")]
    if len(done) == 1 and refunded:
        return [_answer(ticket, "We have refunded what we owe you.")]
    if len(done) == 1 + refunded:
        return [call("resolve_ticket", ticket_id=ticket, resolution="refunded" if refunded else "declined_unfounded")]
    return [Message("Done.")]


LOOKS = 6


def _look(ticket: int, looked: Sequence[Any]) -> Action | None:
    """The next thing to look at; `None` when all was seen."""
    match len(looked):
        case 0:
            return call("list_messages", ticket_id=ticket)
        case 1:
            return call("get_invoice", invoice_id=int(re.findall(r"nvoice (\d+)", _claim(looked))[0]))
        case 2:
            return call("get_customer", customer_id=looked[1]["customer_id"])
        case 3:
            names = [payment["gateway_ref"] for payment in looked[1]["payments"]] + [rf"\b{looked[1]['subscription_id']}\b"]
            return call("shell", command=f"cd /workspace/tickets/{ticket} && grep -rh -A 4 -E '{'|'.join(names)}' .")
        case 4:
            return call("get_payment", payment_id=looked[1]["payments"][-1]["payment_id"])
        case 5:
            return call("list_plans")
    return None


def _claim(looked: Sequence[Any]) -> str:
    return " ".join(message["body"] for message in looked[0]["items"])


def _answer(ticket: int, body: str) -> Action:
    return call("reply_to_ticket", ticket_id=ticket, body=body)


def _refunds(ticket: int, looked: Sequence[Any]) -> list[Action]:
    """Refunds that could be meant: what is asked for, what the evidence names, what lies between two prices, and its share of a month."""
    claim, evidence, payment = _claim(looked), looked[3]["stdout"], looked[4]
    paid, reason = payment["amount_cents"], reason_of(claim)
    asked = [int(cents) for cents in re.findall(r"(\d+) cents", claim)]
    named = [int(cents) for cents in re.findall(r",(\d+)\b", evidence)]
    between = [paid - plan["monthly_cents"] for plan in looked[5] if plan["code"] in evidence]
    days = [31 - int(day) for day in re.findall(r"\d{4}-\d\d-(\d\d),", evidence)]
    shares = [cents * left // 30 for left in days for cents in (*between, paid)]
    amounts = dict.fromkeys([*shares, *between, *(paid - cents for cents in named), *asked])
    arguments = {"ticket_id": ticket, "payment_id": payment["payment_id"], "reason": reason}
    return [call("issue_refund", amount_cents=cents, **arguments) for cents in amounts if 0 < cents <= paid]


async def by_greed(env: ToolEnvironment, task_id: str) -> Step:
    """Play the `greedy` clerk; gives the last step."""
    solution = greedy(await env.reset(task_id))
    action = next(solution)
    while not (step := await env.step(action)).done:
        action = solution.send(step.observation)
    return step


async def main(seeds: Sequence[int]) -> int:
    """Compare both on easy disputes; gives how many tickets the search did not solve or solved in two ways."""
    wrong = 0
    async with open_environment(load_world("billing"), forks=FORKS) as env:
        for seed in seeds:
            task_id = f"billing-dispute/easy/seed-{seed}"
            greed = await by_greed(env, task_id)
            started = time.perf_counter()
            found = await search(env, task_id, clerk)
            spent_s = time.perf_counter() - started
            same = found == await search(env, task_id, clerk)
            wrong += not (found.succeeded and same)
            came = "solved it" if found.succeeded else "found nothing"
            again = "the same twice" if same else "ANOTHER RESULT THE SECOND TIME"
            print(
                f"{task_id}: greedy {greed.reward:+.2f}; search {came} in {found.steps} steps of {len(found.rewards)} episodes,"
                f" {spent_s:.1f} s; {again}"
            )
    return wrong


if __name__ == "__main__":
    sys.exit(anyio.run(main, [int(seed) for seed in sys.argv[1:]] or [1, 2, 3, 4]))
