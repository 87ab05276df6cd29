"""A customer in an episode: what they hear and say is background events, and their mood is part of the episode's memory.

| event | happens | and |
| --- | --- | --- |
| `customer/hears` | when the agent sends a message, or makes a call that the customer reads | what asks is answered |
| `customer/speaks` | some virtual seconds later | the agent reads it in its next observation |
| `customer/waits` | when the agent said nothing for a while | a reminder, and in the end the customer is gone |

A world says by its `Channel` where it keeps what is said, and what it means that a customer is gone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sqlalchemy.orm import Session

from wardian.envs.customer import CONFIRM, Customer, Mood
from wardian.envs.events import EventContext, EventHandler, queue
from wardian.envs.hearing import LONGEST, Heard
from wardian.sandbox.world import World
from wardian.tools.contract import CallEvent, Json

SENDER = "customer"
HEARS, SPEAKS, WAITS = "customer/hears", "customer/speaks", "customer/waits"
ASKED, TOLD, REMINDED, LEFT = "customer_asked", "customer_told", "customer_reminded", "customer_left"
"""Kinds of effects. `customer_asked` has `topics`, `asks`, and the index of the `call` that asked (`None`: a message); `customer_told` has
`topics`, and whether the customer has `corrected` themselves by then."""
MOOD = "customer"
"""In the episode's notes."""
LONGEST_WORDS = 4000
"""Characters of a message that a world is given to keep."""

Keeps: TypeAlias = Callable[[EventContext, str, str], None]
"""Stores what an author (`customer`, or the agent's id) says; gets the event, the author and the text."""
Reads: TypeAlias = Callable[[CallEvent, Mapping[str, Json]], str | None]
"""The text that the customer reads of a committed call; `None` for calls that are not for them. Gets what the customer refers to."""


def _keep_nothing(context: EventContext, author: str, text: str) -> None:
    return None


def _read_nothing(event: CallEvent, refers_to: Mapping[str, Json]) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Channel:
    """A world's side of a conversation. The facts of each event hold what the customer refers to."""

    keep: Keeps = _keep_nothing
    read: Reads = _read_nothing
    waits: Callable[[Session, Mapping[str, Json]], bool] = lambda session, refers_to: True
    """Whether the customer still waits for something. One who does not never reminds, and a message to them ends the episode."""
    gone: Callable[[EventContext], None] = lambda context: None
    """What it means for the world that the customer gave up."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """The customer of one episode."""

    customer: Customer
    channel: Channel
    agent_id: str

    def begin(self, world: World) -> None:
        """Let the customer begin to wait."""
        self._set(world, Mood(heard_ms=world.clock.now_ms))
        queue(world, WAITS, world.clock.now_ms + self.customer.patience.first_s * 1000, self.customer.refers_to)

    def handlers(self) -> dict[str, EventHandler]:
        """The customer's events."""
        return {HEARS: self._hears, SPEAKS: self._speaks, WAITS: self._waits}

    def hear(self, text: str) -> Heard:
        """What the customer would understand."""
        return self.customer.hear(text)

    def message(self, world: World, text: str) -> None:
        """Let the customer hear a message of the agent's."""
        queue(world, HEARS, world.clock.now_ms, {**self.customer.refers_to, "text": text[:LONGEST], "call": None})

    def call(self, world: World, event: CallEvent) -> None:
        """Let the customer hear what a call of the agent's said to them, if it did, at the time at which the call was done."""
        text = self.channel.read(event, self.customer.refers_to) if event.committed else None
        if text is not None:
            queue(world, HEARS, event.at_ms + event.latency_ms, {**self.customer.refers_to, "text": text[:LONGEST], "call": event.index})

    def answer_in_ms(self, world: World) -> int:
        """Virtual time until all words of the customer that are on their way have come; 0 when there are none."""
        times = [entry["at_ms"] for entry in world.memory.pending if entry["kind"] == SPEAKS]
        return max(0, max(times) - world.clock.now_ms) if times else 0

    def waits(self, world: World) -> bool:
        """Whether the customer is there and waits for something."""
        if self._mood(world).left:
            return False
        if world.database is None:
            return True
        with world.database.transaction() as session:
            return self.channel.waits(session, self.customer.refers_to)

    def _hears(self, context: EventContext) -> None:
        text, mood = str(context.facts["text"]), self._mood(context.world)
        if context.facts["call"] is None:
            self.channel.keep(context, self.agent_id, text[:LONGEST_WORDS])
        heard = self.customer.hear(text)
        context.note(ASKED, asks=heard.asks, topics=list(heard.topics), call=context.facts["call"])
        if mood.left:
            return
        mood = self.customer.listened(mood, context.due.at_ms)
        if heard.asks:
            mood, said = self.customer.answer(mood, heard, context.random("customer/words").random())
            topics = [name for name in heard.topics if name != CONFIRM] or (list(mood.told) if CONFIRM in heard.topics else [])
            low, high = self.customer.answers_in_s
            after_ms = context.random("customer/delay").randint(low * 1000, high * 1000)
            context.queue(SPEAKS, max(1, after_ms), **self.customer.refers_to, said=list(said), topics=topics, corrected=mood.corrected)
        self._set(context.world, mood)

    def _speaks(self, context: EventContext) -> None:
        if self._mood(context.world).left:
            return
        self._say(context, tuple(context.facts["said"]))
        context.note(TOLD, topics=context.facts["topics"], corrected=context.facts["corrected"])

    def _waits(self, context: EventContext) -> None:
        mood, patience = self._mood(context.world), self.customer.patience
        if mood.left or not self.channel.waits(context.db, self.customer.refers_to):
            return
        limit_s = patience.first_s if not mood.reminders else patience.first_s + mood.reminders * patience.every_s
        left_ms = mood.heard_ms + limit_s * 1000 - context.due.at_ms
        if left_ms > 0:
            context.queue(WAITS, left_ms, **self.customer.refers_to)
            return
        chance = context.random("customer/words").random()
        if mood.reminders < patience.reminders:
            mood, said = self.customer.remind(mood, chance)
            context.note(REMINDED, times=mood.reminders)
            context.queue(WAITS, patience.every_s * 1000, **self.customer.refers_to)
        else:
            mood, said = self.customer.leave(mood, chance)
            self.channel.gone(context)
            context.note(LEFT)
        self._say(context, said)
        self._set(context.world, mood)

    def _say(self, context: EventContext, said: tuple[str, ...]) -> None:
        text = " ".join(said)
        self.channel.keep(context, SENDER, text)
        context.say(SENDER, text)

    def _mood(self, world: World) -> Mood:
        return Mood.from_json(world.memory.notes[MOOD])

    def _set(self, world: World, mood: Mood) -> None:
        world.memory.notes[MOOD] = mood.as_json()
