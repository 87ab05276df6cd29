"""The billing world on SQLite and on Postgres, side by side: whatever is done, both say the same and are the same afterwards.

A longer walk, as `WALKS=20 ACTIONS=500`: 20 walks of 500 actions each.
"""

import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from wardian.envs.action import Action, Malformed, Message, Observation, ToolCalls
from wardian.envs.environment import ToolEnvironment
from wardian.envs.registry import cell_spec, load_world, profile
from wardian.envs.task import Difficulty, TaskId
from wardian.envs.worlds.billing.policies import vandal_calls
from wardian.rollouts.policies.base import Player, TaskView
from wardian.rollouts.policies.chance import Seen, _arguments
from wardian.rollouts.policies.registry import load_policies
from wardian.sandbox.database import SqliteTemplate
from wardian.sandbox.database.base import Template
from wardian.sandbox.database.postgres.server import Server
from wardian.sandbox.database.postgres.template import PostgresTemplate
from wardian.sandbox.pool import CellPool
from wardian.tools.contract import Json, ToolCall

WALKS, ACTIONS = int(os.environ.get("WALKS", "2")), int(os.environ.get("ACTIONS", "40"))
WORLD = load_world("billing")
POLICIES = load_policies("expert,expert,best-guess", WORLD, "billing")
COUNTS = Counter[str]()
"""Calls of all walks, by tool and status."""
ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**63, -(2**63), 2**63 - 1, 10**400, 1.5, float("nan"), float("inf"), "", "x" * 70_000, "a\x00b", "\ud83d"),
    *("Zo\u00eb", "e\u0301", "' OR 1=1 --", "%", "now", "2026-02-30", "../../etc/passwd", [], {}, [1, 2], {"a": 1}),
)
"""Values that some argument does not take; which ones, is for the tools to say, and alike."""


class Walker:
    """Draws actions of all kinds from one seed: what an expert, or a vandal of the world, would do next, or anything at all."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.deeds = vandal_calls(self.rng)
        self.seen = Seen()
        self.last = Observation("", 0)
        self.player: Player | None = None
        self.faith = 0.0
        """How often its player is followed."""

    def begin(self, first: Observation, task: TaskId, schemas: tuple[dict[str, Any], ...]) -> None:
        """Begin an episode."""
        self.seen, self.last = Seen(), first
        self.seen.first(first)
        self.faith = self.rng.choice((0.4, 0.4, 1.0))
        self.player = self.rng.choice(POLICIES).begin(first, TaskView(task, schemas, task.seed))

    def take(self, observation: Observation) -> None:
        """See what the last action gave."""
        self.seen.take(observation)
        self.last = observation

    async def next(self, schemas: dict[str, Any]) -> Action:
        """An action for these tools."""
        if self.player is not None and self.rng.random() < self.faith:
            try:
                acted = await self.player.act(self.last)
                assert isinstance(acted, ToolCalls | Message)
                return acted
            except Exception:  # noqa: BLE001 - it was written for a world in which nobody else acts
                self.player = None
        return next(self.deeds) if self.rng.random() < 0.15 else self._any(schemas)

    def _any(self, schemas: dict[str, Any]) -> Action:
        kind = self.rng.random()
        if kind < 0.02:
            return Message(self.rng.choice(("Done.", "", "Please wait.", "\ud83d", "a\x00b")))
        if kind < 0.05:
            return Malformed(self.rng.choice(('{"tool": ', "", "\udcff", "[]")), "no JSON")
        if kind < 0.06:  # an exact text to replace is hardly ever met by chance
            note = {"path": "note.txt"}
            return ToolCalls(
                (ToolCall("write_file", {**note, "content": "one"}), ToolCall("edit_file", {**note, "old": "one", "new": "two"}))
            )
        return ToolCalls(tuple(self._call(schemas) for _ in range(self.rng.choice((1, 1, 1, 1, 2, 3)))))

    def _call(self, schemas: dict[str, Any]) -> ToolCall:
        name = self.rng.choice(sorted(schemas))
        args = dict(_arguments(self.rng, schemas[name], self.seen) or {})
        if self.rng.random() < 0.25:
            self._spoil(args, schemas[name])
        if args.get("path") == "/etc/passwd":  # it shows the agent's uid, which no two cells of a host share
            args["path"] = "/etc/group.none"
        return ToolCall("no_such_tool" if self.rng.random() < 0.02 else name, args)

    def _spoil(self, args: dict[str, Json], schema: dict[str, Any]) -> None:
        names = sorted(schema.get("properties", {})) or ["odd"]
        name = self.rng.choice([*names, "no_such_argument"])
        if self.rng.random() < 0.3:
            args.pop(name, None)
        else:
            args[name] = self.rng.choice(ODD)


class Pair:
    """One environment on each engine."""

    def __init__(self, one: ToolEnvironment, other: ToolEnvironment) -> None:
        self.one, self.other = one, other

    async def walk(self, seed: int, actions: int) -> dict[str, int]:
        """Take `actions` actions in as many episodes as they last for; how often each tool was called with which status."""
        walker, counts, episode, taken = Walker(seed), dict[str, int](), 0, 0
        while taken < actions:
            episode += 1
            await self._begin(walker, seed, episode)
            over = False
            while not over and taken < actions:
                taken += 1
                over = await self._step(walker, counts)
        return counts

    async def _begin(self, walker: Walker, seed: int, episode: int) -> None:
        family = walker.rng.choice(WORLD.families)
        task = str(TaskId(family.name, walker.rng.choice(list(Difficulty)), seed * 1000 + episode))
        firsts: list[Observation] = [await env.reset(task, seed=episode) for env in (self.one, self.other)]
        assert firsts[0] == firsts[1]
        walker.begin(firsts[0], TaskId.parse(task), self.one.tool_schemas)

    async def _step(self, walker: Walker, counts: dict[str, int]) -> bool:
        action = await walker.next({one["function"]["name"]: one["function"]["parameters"] for one in self.one.tool_schemas})
        one, other = await self.one.step(action), await self.other.step(action)
        assert one.failed is other.failed is None, (one.failed, other.failed)
        assert one.observation == other.observation, action
        assert one.info.database == other.info.database, action
        assert one.info.fingerprint == other.info.fingerprint, action
        assert one == other, action
        walker.take(one.observation)
        if isinstance(action, ToolCalls):
            for call, result in zip(action.calls, one.observation.results, strict=False):
                key = f"{call.tool} {result.get('status')}"
                counts[key] = counts.get(key, 0) + 1
        return one.done


@asynccontextmanager
async def opened(*templates: Template) -> AsyncIterator[Pair]:
    async with CellPool(cell_spec(WORLD), size=2) as cells, AsyncExitStack() as stack:
        made = [ToolEnvironment(WORLD, template=one, cells=cells, faults=profile("realistic")) for one in templates]
        yield Pair(*[await stack.enter_async_context(env) for env in made])


@pytest.fixture(scope="module")
def walk(server: Server) -> Iterator[Callable[[int], dict[str, int]]]:
    """Walks on both engines, in an event loop of their own."""
    postgres = PostgresTemplate.build(WORLD.template, server, spares=1)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(opened(SqliteTemplate.build(WORLD.template), postgres)) as pair,
    ):
        yield lambda seed: portal.call(pair.walk, seed, ACTIONS)
    postgres.close()
    if WALKS * ACTIONS >= 10_000:
        assert {tool.name for tool in WORLD.tools} == {key.split()[0] for key in COUNTS if key.endswith(" ok")}
        print(sum(COUNTS.values()), dict(sorted(COUNTS.items())))


@settings(
    max_examples=WALKS,
    deadline=None,
    derandomize=WALKS > 2,
    phases=(Phase.generate,),  # a seed has nothing in it to be made smaller, and each try is a walk
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.integers(0, 2**31))
def test_engines_agree_after_every_action(walk: Callable[[int], dict[str, int]], seed: int) -> None:
    counts = walk(seed)
    COUNTS.update(counts)
    assert sum(counts.values()) >= ACTIONS * 0.8
