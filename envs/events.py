"""Background events: what a world does by itself while an agent works. A payment settles, a customer writes, a window lapses.

A task plans events, each within a span of virtual time; when exactly is drawn from the episode's own streams. They wait in
`EpisodeMemory.pending`, which is part of every snapshot and fingerprint. At each boundary between calls those whose time has passed happen,
in the order of time, then of sequence, each in a transaction of its own through the world's code. They stand in the trusted log beside the
calls, never as calls.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TypeAlias

from sqlalchemy.orm import Session

from wardian.envs.errors import EventBroken, TaskError
from wardian.sandbox.database.base import RowChange
from wardian.sandbox.world import World
from wardian.tools.contract import Json
from wardian.tools.encoding import encode

QUEUED = "events_queued"
"""In the episode's notes: how many events were queued so far, which gives the next one its sequence."""


@dataclass(frozen=True, slots=True)
class PlannedEvent:
    """An event of a task."""

    kind: str
    """Name of a handler in `WorldDefinition.events`."""
    earliest_s: int
    """Virtual seconds after the start of the episode, from 0."""
    latest_s: int
    facts: Mapping[str, Json] = field(default_factory=dict)
    """What the handler needs to know, such as the id of a payment. Part of the log, never shown to an agent."""

    def __post_init__(self) -> None:
        if not 0 <= self.earliest_s <= self.latest_s:
            raise TaskError(f"events: {self.kind} needs 0 <= earliest_s <= latest_s, got {self.earliest_s} and {self.latest_s}")


@dataclass(frozen=True, slots=True)
class Due:
    """An event that waits for its time."""

    at_ms: int
    """World time, milliseconds since the Unix epoch."""
    sequence: int
    """Counts queued events from 1; of two of one time the lower one comes first."""
    kind: str
    facts: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Word:
    """Something that reaches the agent without a call of its own."""

    sender: str
    text: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class WorldEvent:
    """An event that happened: a line of the trusted log. An agent sees of it what it said, and what its tools show."""

    kind: str
    sequence: int
    at_ms: int
    step: int
    """In which it happened."""
    after_calls: int
    """Calls of the episode before it, so that calls and events have one order."""
    facts: Mapping[str, Json]
    effects: tuple[dict[str, Json], ...] = ()
    """What the handler noted; an event that found nothing left to do has none."""
    rows: tuple[RowChange, ...] = ()
    """Rows that it changed."""
    words: tuple[Word, ...] = ()


@dataclass(slots=True)
class EventContext:
    """What the handler of an event may use. Its world is that of the moment in which the event happens."""

    due: Due
    session: Session | None
    """The event's transaction; `None` in a world without a database."""
    world: World
    effects: list[dict[str, Json]] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)

    @property
    def facts(self) -> Mapping[str, Json]:
        """What the event was queued with."""
        return self.due.facts

    @property
    def now(self) -> datetime:
        """The time of the event, which may be before the clock's: a call may have taken longer."""
        return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=self.due.at_ms)

    @property
    def db(self) -> Session:
        """The session, for worlds with a database."""
        assert self.session is not None, "this world has no database"
        return self.session

    def new_id(self, table: str) -> int:
        """The next id of `table`."""
        assert self.world.database is not None, "this world has no database"
        return self.world.database.allocate_id(self.db, table)

    def random(self, name: str) -> Random:
        """The stream `events/name` of the episode."""
        return self.world.streams[f"events/{name}"]

    def note(self, kind: str, **facts: Json) -> None:
        """Write a fact into the trusted log; a kind in the family's `ends_on_effects` ends the episode.

        Raises:
            ValueError: a fact has no place in JSON.
        """
        self.effects.append(encode({"kind": kind, **facts}, "note"))

    def say(self, sender: str, text: str) -> None:
        """Let the agent read `text` in its next observation."""
        self.words.append(Word(sender, text, self.due.at_ms))

    def queue(self, kind: str, after_ms: int, **facts: Json) -> None:
        """Queue another event, at least one millisecond after this one.

        Raises:
            EventBroken: `after_ms` is less.
        """
        if after_ms < 1:
            raise EventBroken(self.due.kind, f"queues {kind!r} after {after_ms} ms; events go on in time, so at least 1 is needed")
        queue(self.world, kind, self.due.at_ms + after_ms, facts)


EventHandler: TypeAlias = Callable[[EventContext], None]
"""Carries an event out. Whatever it raises is the fault of the world, and rolls its transaction back. An event whose occasion is gone, such
as one of a ticket that was closed meanwhile, returns without doing anything."""


def queue(world: World, kind: str, at_ms: int, facts: Mapping[str, Json]) -> Due:
    """Add an event to those that wait.

    Raises:
        ValueError: a fact has no place in JSON.
    """
    notes, pending = world.memory.notes, world.memory.pending
    notes[QUEUED] = notes.get(QUEUED, 0) + 1
    due = Due(at_ms, notes[QUEUED], kind, encode(dict(facts), "facts"))
    pending.append({"at_ms": due.at_ms, "sequence": due.sequence, "kind": due.kind, "facts": due.facts})
    pending.sort(key=lambda entry: (entry["at_ms"], entry["sequence"]))
    return due


def queue_planned(world: World, planned: tuple[PlannedEvent, ...], known: Mapping[str, EventHandler]) -> None:
    """Queue a task's events at drawn times. Each draws from a stream of its own, so that one more never shifts another.

    Raises:
        TaskError: the world has no handler for a kind.
    """
    for number, event in enumerate(planned):
        if event.kind not in known:
            raise TaskError(f"events: the task plans {event.kind!r}; the world has {', '.join(known) or 'none'}")
        after_ms = world.streams[f"events/planned/{number}"].randint(event.earliest_s * 1000, event.latest_s * 1000)
        queue(world, event.kind, world.clock.now_ms + after_ms, event.facts)


def next_due(world: World, until_ms: int | None = None) -> Due | None:
    """Take the first event whose time has passed (by the clock, or by `until_ms`), if there is one."""
    pending = world.memory.pending
    if not pending or pending[0]["at_ms"] > (world.clock.now_ms if until_ms is None else until_ms):
        return None
    return Due(**pending.pop(0))
