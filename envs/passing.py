"""Time passes: events that are due happen, at the boundary after a call, each logged with the rows that it changed."""

from collections.abc import Mapping

from wardian.envs.changes import Ledger
from wardian.envs.errors import EventBroken
from wardian.envs.events import Due, EventContext, EventHandler, WorldEvent, next_due
from wardian.sandbox.database.base import WorldDatabase
from wardian.sandbox.errors import DatabaseProblem, SandboxError
from wardian.sandbox.world import World
from wardian.tools.toolbox import Toolbox

MOST_AT_ONCE = 1000
"""Events at one boundary; more are a world that wakes itself without end."""


def happen(
    world: World, handlers: Mapping[str, EventHandler], toolbox: Toolbox, ledger: Ledger, step: int, until_ms: int | None = None
) -> list[WorldEvent]:
    """Let everything happen whose time has passed (by the clock, or by `until_ms`), in order; gives what happened.

    Raises:
        EventBroken: a handler is at fault; its transaction was rolled back.
        SandboxError: the infrastructure failed.
    """
    happened: list[WorldEvent] = []
    while (due := next_due(world, until_ms)) is not None:
        if len(happened) == MOST_AT_ONCE:
            raise EventBroken(due.kind, f"more than {MOST_AT_ONCE} events happened between two calls")
        handler = handlers.get(due.kind)
        if handler is None:
            raise EventBroken(due.kind, f"it was queued, and the world has no such event; it has {', '.join(handlers) or 'none'}")
        happened.append(_happen(world, due, handler, toolbox, ledger, step))
    return happened


def _happen(world: World, due: Due, handler: EventHandler, toolbox: Toolbox, ledger: Ledger, step: int) -> WorldEvent:
    database = world.database
    if database is None:
        context = EventContext(due, None, world)
        _handle(handler, context)
    else:
        ledger.add(database.take_changes())
        with toolbox.holding(world, step):
            context = _in_transaction(world, due, handler, database)
    rows = database.take_changes() if database else ()
    ledger.add(rows, by_world=True)
    return WorldEvent(
        kind=due.kind,
        sequence=due.sequence,
        at_ms=due.at_ms,
        step=step,
        after_calls=sum(world.memory.call_counts.values()),
        facts=due.facts,
        effects=tuple(context.effects),
        rows=rows,
        words=tuple(context.words),
    )


def _in_transaction(world: World, due: Due, handler: EventHandler, database: WorldDatabase) -> EventContext:
    try:
        with database.transaction() as session:
            context = EventContext(due, session, world)
            _handle(handler, context)
    except DatabaseProblem as problem:
        raise EventBroken(due.kind, f"the database refuses what it writes: {problem}") from problem
    return context


def _handle(handler: EventHandler, context: EventContext) -> None:
    try:
        handler(context)
    except (SandboxError, EventBroken):
        raise
    except Exception as error:  # whatever else escapes from a world's code is its author's fault, and is named as such
        raise EventBroken(context.due.kind, f"{type(error).__name__}: {error}") from error
