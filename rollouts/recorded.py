"""Puts recorded outcomes in the place of those that depend on the machine: a real timeout, out of memory, a cell that its agent killed.

The call is made all the same, for what it does to the chamber; then the recorded outcome is its answer. Calls that were exact are
not touched, and what never reached its handler is not either.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from wardian.envs.definition import WorldDefinition
from wardian.envs.ending import EndCause
from wardian.rollouts.errors import LogBroken
from wardian.rollouts.records import EventPart, Json, StepRecord
from wardian.sandbox.errors import CellDied, DatabaseProblem, DeathCause, FileProblem
from wardian.tools.contract import Arguments, Refusal, Status, Tool, ToolContext


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call gave when it was recorded."""

    event: EventPart
    visible: dict[str, Json]

    def apply(self, context: ToolContext) -> Json:
        """Answer with it.

        Raises:
            Refusal: the recorded answer was one.
        """
        context.inexact, context.extra_ms = self.event.inexact, self.event.extra_ms
        context.effects[:] = self.event.effects
        context.attachments.clear()
        context.attachments.update(self.event.attachments)
        if self.event.committed:
            return self.visible.get("result")
        raise Refusal(Status(self.event.status), str(self.visible.get("error", "")), self.visible.get("details"))


class Outcomes:
    """The recorded outcomes of one episode that do not follow from its actions, by the call's number in the episode."""

    def __init__(self, steps: Sequence[StepRecord]) -> None:
        """Find them.

        Raises:
            LogBroken: the observation of a step does not hold the results of its calls.
        """
        self._by_index: dict[int, Outcome] = {}
        self._fatal: set[int] = set()
        """Calls that ended the cell."""
        calls = 0
        for step in steps:
            if any(event.inexact for event in step.events):
                self._by_index.update((event.index, Outcome(event, seen)) for event, seen in _seen(step) if event.inexact)
            calls += sum(not event.landed for event in step.events)
            if step.end_cause == EndCause.CELL_DIED:
                self._fatal.add(calls)

    def world(self, world: WorldDefinition) -> WorldDefinition:
        """`world` with tools that answer as recorded; `world` itself where nothing is to be applied."""
        if not self._by_index and not self._fatal:
            return world
        return replace(world, tools=tuple(replace(tool, handler=self._handler(tool), errors=tuple(Status)) for tool in world.tools))

    def _handler(self, tool: Tool[Any]) -> Callable[[ToolContext, Arguments], Awaitable[Json]]:
        async def handler(context: ToolContext, arguments: Arguments) -> Json:
            if context.at_ms is not None:  # the late effect of an earlier call, which has no outcome of its own
                return await tool.handler(context, arguments)
            index = sum(context.world.memory.call_counts.values()) - 1
            recorded = self._by_index.get(index)
            if recorded is None and index not in self._fatal:
                return await tool.handler(context, arguments)
            with suppress(Refusal, DatabaseProblem, FileProblem):  # outcomes, and the recorded one is given in their stead
                await tool.handler(context, arguments)
            if recorded is None:
                raise CellDied(context.cell.id, DeathCause.POLICY, "recorded: the agent ended its cell by this call")
            return recorded.apply(context)

        return handler


def _seen(step: StepRecord) -> list[tuple[EventPart, dict[str, Json]]]:
    """Each event of a step with what the agent was shown of it."""
    try:
        shown = [json.loads(line) for line in step.observation.rendered.split("\n")]
        return list(zip((event for event in step.events if not event.landed), shown, strict=False))
    except ValueError as error:
        raise LogBroken(f"{step.episode_id} step {step.step}: observation.rendered does not hold the results of its calls") from error
