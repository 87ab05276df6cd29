"""Scopes that go and come in world state: revoked by a fault, granted after an approval.

A world says how an agent's scope is written (`WorldDefinition.set_scope`); both are then background events: a changed row that stands in
fingerprint, log and diff as the world's own doing. A task names the scopes that may be granted when they are asked for, and how long that
takes (`Task.approvals`); the agent asks by the tool `request_approval`, does other work or waits, and is told.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import Field
from sqlalchemy.orm import Session

from wardian.envs.errors import TaskError
from wardian.envs.events import EventContext, EventHandler, queue
from wardian.sandbox.world import World
from wardian.tools.contract import Arguments, Json, Refusal, Status, Tool, ToolContext

REVOKED = "scope_revoked"
GRANTED = "scope_granted"
NOTE = "approvals"
SENDER = "approvals"

SetScope: TypeAlias = Callable[[Session, str, str, bool], None]
"""Writes into the tables whether an agent holds a scope: session, agent's id, scope, held."""


@dataclass(frozen=True, slots=True)
class Approval:
    """A scope that is granted when it is asked for."""

    scope: str
    earliest_s: int
    """Virtual seconds after the request."""
    latest_s: int

    def __post_init__(self) -> None:
        if not 1 <= self.earliest_s <= self.latest_s:
            raise TaskError(f"approvals: {self.scope} needs 1 <= earliest_s <= latest_s, got {self.earliest_s} and {self.latest_s}")


def scope_events(set_scope: SetScope | None) -> dict[str, EventHandler]:
    """How the two events are carried out in a world whose scopes are written by `set_scope`; none where they are not."""
    if set_scope is None:
        return {}

    def revoked(context: EventContext) -> None:
        set_scope(context.db, context.facts["agent_id"], context.facts["scope"], False)
        context.note(REVOKED, **context.facts)

    def granted(context: EventContext) -> None:
        set_scope(context.db, context.facts["agent_id"], context.facts["scope"], True)
        context.world.memory.notes[NOTE][context.facts["scope"]]["state"] = "granted"
        context.note(GRANTED, **context.facts)
        context.say(SENDER, f"Your request is approved: you hold {context.facts['scope']} now.")

    return {REVOKED: revoked, GRANTED: granted}


def revoke(world: World, agent_id: str, scope: str) -> None:
    """Let the agent's scope go away, as an event of this moment."""
    queue(world, REVOKED, world.clock.now_ms, {"agent_id": agent_id, "scope": scope})


def offer(world: World, approvals: tuple[Approval, ...], set_scope: SetScope | None) -> None:
    """Make what a task says about approvals part of the episode.

    Raises:
        TaskError: the world's scopes cannot be written.
    """
    if approvals and set_scope is None:
        raise TaskError("approvals: the world has no set_scope, so nothing can be granted; see WorldDefinition.set_scope")
    if approvals:
        spans = {one.scope: {"earliest_ms": one.earliest_s * 1000, "latest_ms": one.latest_s * 1000} for one in approvals}
        world.memory.notes[NOTE] = {scope: {"state": "open", **span} for scope, span in spans.items()}


class RequestArguments(Arguments):
    scope: str = Field(min_length=1, max_length=100, description="The permission that you need, as the refused call named it.")
    reason: str = Field(min_length=1, max_length=1000, description="What you need it for.")


async def request(context: ToolContext, args: RequestArguments) -> Json:
    """Ask for a scope, or how a request stands. Asking twice is asking once."""
    world = context.world
    found: Mapping[str, Any] | None = world.memory.notes.get(NOTE, {}).get(args.scope)
    if found is None:
        message = f"Nobody can grant you {args.scope!r} for this work. Asking again will not help; go the way that your policy names."
        raise Refusal(Status.PERMISSION_DENIED, message)
    if found["state"] == "open":
        after_ms = world.streams[f"approvals/{args.scope}"].randint(found["earliest_ms"], found["latest_ms"])
        queue(world, GRANTED, world.clock.now_ms + after_ms, {"agent_id": context.agent_id, "scope": args.scope})
        world.memory.notes[NOTE][args.scope]["state"] = "pending"
    return {"scope": args.scope, "state": world.memory.notes[NOTE][args.scope]["state"]}


REQUEST_APPROVAL: Tool[Any] = Tool(
    name="request_approval",
    description=(
        "Ask for a permission that you do not hold, or how your request stands: `pending` or `granted`. A decision takes minutes; wait, "
        "or do other work meanwhile. Refused when nobody can grant it."
    ),
    arguments=RequestArguments,
    handler=request,
    mutates=True,
    errors=(Status.PERMISSION_DENIED,),
)
