"""A scripted customer: what they know, what they say, when they lose patience. Data and pure functions: no model, no clock.

A customer answers what they are asked and withholds the rest. All that they can ever say stands in `sayings`: fixed sentences, and in
some of them one fact of the task. So they never invent anything, repeat nothing that the agent says, and agree to nothing.

They may change their mind once: `Correction` says about what, and at which turn of theirs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from string import Formatter

from wardian.envs.errors import TaskError
from wardian.envs.hearing import Heard, hear
from wardian.tools.contract import Json

CONFIRM = "confirm"
"""The topic that every customer has: is it right, what they told?"""
CONFIRM_CUES = ("right", "correct", "sure", "confirm*", "certain", "double-check", "still")


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    """Also the name of the fact in `Task.facts`; without one the customer does not know."""
    cues: tuple[str, ...]
    """How it is asked for; see `wardian.envs.hearing`."""
    answers: tuple[str, ...]
    """Sentences with `{value}`; which one is said is drawn."""


@dataclass(frozen=True, slots=True)
class Correction:
    """A change of mind."""

    topic: str
    first: str
    """Name of the fact that is told before it; afterwards the topic's own is."""
    at_turn: int
    """At the first turn from this one on, from 1, at which the topic was told before or is told now. A reminder is a turn too."""
    says: tuple[str, ...] = ("Sorry, I have to correct myself.",)


@dataclass(frozen=True, slots=True)
class Patience:
    """Virtual time that a customer waits for a word of the agent's."""

    first_s: int = 1200
    """Until the first reminder."""
    every_s: int = 900
    """Between reminders, and from the last one until they are gone."""
    reminders: int = 2


@dataclass(frozen=True, slots=True)
class Phrases:
    """Sentences without facts. Of each kind one is drawn."""

    unclear: tuple[str, ...] = ("I am not sure what you want to know from me.", "I do not understand what you need from me.")
    unknown: tuple[str, ...] = ("I do not know that.", "That I cannot tell you.")
    repeats: tuple[str, ...] = ("I can only say it again.", "As I told you.")
    reminders: tuple[str, ...] = ("Is there any news?", "I am still waiting for an answer.")
    leaving: tuple[str, ...] = ("I have waited long enough, I am leaving.",)


@dataclass(frozen=True, slots=True)
class Mood:
    """The state of a customer in one episode."""

    heard_ms: int
    """When the agent last said something, or the start."""
    turns: int = 0
    """How often the customer spoke."""
    told: tuple[str, ...] = ()
    """Topics told, in the order of the first time."""
    corrected: bool = False
    reminders: int = 0
    """Since the agent last said something."""
    left: bool = False

    def as_json(self) -> dict[str, Json]:
        """For the episode's memory."""
        return {name: list(value) if isinstance(value := getattr(self, name), tuple) else value for name in self.__slots__}

    @classmethod
    def from_json(cls, kept: Mapping[str, Json]) -> "Mood":
        """Read it back."""
        return cls(**{**kept, "told": tuple(kept["told"])})


@dataclass(frozen=True, slots=True)
class Customer:
    facts: Mapping[str, str]
    """`Task.facts`: all that they can tell."""
    topics: tuple[Topic, ...]
    correction: Correction | None = None
    patience: Patience = field(default_factory=Patience)
    phrases: Phrases = field(default_factory=Phrases)
    answers_in_s: tuple[int, int] = (30, 120)
    """Virtual time from a question to its answer, drawn between the two."""
    refers_to: Mapping[str, Json] = field(default_factory=dict)
    """Facts for the world's side of the conversation, such as the id of a ticket; never said."""

    def __post_init__(self) -> None:
        for topic in self.topics:
            for answer in topic.answers:
                if [name for _, name, _, _ in Formatter().parse(answer) if name is not None] != ["value"]:
                    raise TaskError(f"customer: an answer of {topic.name} must hold {{value}} once: {answer!r}")
            if topic.name == CONFIRM or not topic.answers or not topic.cues:
                raise TaskError(f"customer: the topic {topic.name!r} needs another name than {CONFIRM}, cues and answers")
        names = [topic.name for topic in self.topics]
        if len(set(names)) < len(names):
            raise TaskError(f"customer: two topics have one name: {', '.join(names)}")
        wrong = self.correction
        if wrong and not (wrong.topic in names and {wrong.topic, wrong.first} <= set(self.facts) and wrong.at_turn >= 1):
            raise TaskError(f"customer: the correction of {wrong.topic} needs a topic, both facts, and a turn from 1")

    def hear(self, text: str) -> Heard:
        """Understand what the agent says."""
        return hear(text, [*((topic.name, topic.cues) for topic in self.topics), (CONFIRM, CONFIRM_CUES)])

    def listened(self, mood: Mood, now_ms: int) -> Mood:
        """After the agent said something."""
        return replace(mood, heard_ms=now_ms, reminders=0)

    def answer(self, mood: Mood, heard: Heard, chance: float) -> tuple[Mood, tuple[str, ...]]:
        """Answer what was asked; gives the sentences. `chance` from 0 to below 1 draws the wording, and nothing but the wording."""
        asked = [topic for topic in self.topics if topic.name in heard.topics]
        if not asked and CONFIRM in heard.topics:
            again = [topic for topic in self.topics if topic.name in mood.told]
            lead = _one(self.phrases.repeats if again else self.phrases.unclear, chance)
            return self._speak(mood, (lead,), again, chance)
        return self._speak(mood, () if asked else (_one(self.phrases.unclear, chance),), asked, chance)

    def remind(self, mood: Mood, chance: float) -> tuple[Mood, tuple[str, ...]]:
        """Ask for news."""
        mood = replace(mood, reminders=mood.reminders + 1)
        return self._speak(mood, (_one(self.phrases.reminders, chance),), [], chance)

    def leave(self, mood: Mood, chance: float) -> tuple[Mood, tuple[str, ...]]:
        """Give up."""
        return replace(mood, left=True, turns=mood.turns + 1), (_one(self.phrases.leaving, chance),)

    def sayings(self) -> frozenset[str]:
        """Every sentence that this customer can ever say."""
        plain = (getattr(self.phrases, name) for name in self.phrases.__slots__)
        told = (self._sentences(topic, fact) for topic in self.topics for fact in self._facts_of(topic.name))
        corrections = self.correction.says if self.correction else ()
        return frozenset((*corrections, *(line for lines in (*plain, *told) for line in lines)))

    def _speak(self, mood: Mood, lead: tuple[str, ...], asked: list[Topic], chance: float) -> tuple[Mood, tuple[str, ...]]:
        """One turn: what leads, what was asked, and the correction where its turn has come."""
        told = (*mood.told, *(topic.name for topic in asked if topic.name in self.facts and topic.name not in mood.told))
        mood = replace(mood, turns=mood.turns + 1, told=told)
        lines = (*lead, *(self._told(topic, mood, chance) for topic in asked))
        change = self.correction
        if change is None or mood.corrected or mood.turns < change.at_turn or change.topic not in told:
            return mood, lines
        mood = replace(mood, corrected=True)
        corrected = next(topic for topic in self.topics if topic.name == change.topic)
        return mood, (*lines, _one(change.says, chance), self._told(corrected, mood, chance))

    def _told(self, topic: Topic, mood: Mood, chance: float) -> str:
        change = self.correction
        fact = change.first if change and change.topic == topic.name and not mood.corrected else topic.name
        if fact not in self.facts:
            return _one(self.phrases.unknown, chance)
        return _one(tuple(self._sentences(topic, fact)), chance)

    def _facts_of(self, topic: str) -> Iterator[str]:
        if topic in self.facts:
            yield topic
        if self.correction and self.correction.topic == topic:
            yield self.correction.first

    def _sentences(self, topic: Topic, fact: str) -> list[str]:
        return [answer.format(value=self.facts[fact]) for answer in topic.answers]


def _one(choices: tuple[str, ...], chance: float) -> str:
    return choices[int(chance * len(choices))]
