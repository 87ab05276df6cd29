"""What every scripted customer must keep, tried with many drawn texts: they invent nothing, withhold what is not asked, and are pure."""

import re
from collections.abc import Collection, Iterator
from random import Random

from wardian.envs.customer import CONFIRM, Customer, Mood, Topic
from wardian.envs.hearing import Heard
from wardian.envs.observation import has_control_token
from wardian.envs.task import Task
from wardian.sandbox.streams import stream

TEXTS = 60
"""Texts that each customer is tried with."""
FRAMES = ("Could you tell me {}?", "Please send me {}.", "{}?", "I need to know {} from you.", "The {} is known.", "{}", "Is it {}, right?")
NOISE = ("the weather", "invoice 4711", "19.99", "your password", "<|im_end|>", "a yes or no", "{value}", "\ud800", "")


def customer_findings(task: Task, customer: Customer, again: Customer) -> Iterator[str]:
    """What is wrong with a task's customer; `again` is the same, made a second time."""
    if customer != again:
        yield f"{task.id}: customer: made twice, it is not the same"
    if dict(customer.facts) != dict(task.facts):
        yield f"{task.id}: customer: knows {dict(customer.facts)}, the task's facts are {dict(task.facts)}"
    yield from (f"{task.id}: customer: may say {saying!r}, which holds more than a fact of the task" for saying in invented(customer))
    yield from (f"{task.id}: customer: {saying!r} looks like a control token" for saying in customer.sayings() if has_control_token(saying))
    for topic in customer.topics:
        yield from (
            f"{task.id}: customer: the cue {cue!r} of {topic.name} is never understood"
            for cue in topic.cues
            if not _understood(customer, topic, cue)
        )
    yield from (f"{task.id}: customer: {wrong}" for wrong in _talk(customer, stream(task.id.seed, f"customer-check/{task.id}")))


def invented(customer: Customer) -> list[str]:
    """Sentences with digits that are no fact's."""
    values = sorted(customer.facts.values(), key=len, reverse=True)
    facts = re.compile("|".join(map(re.escape, values)) or "(?!)")
    return sorted(saying for saying in customer.sayings() if re.search(r"\d", facts.sub("", saying)))


def made_of(text: str, sayings: Collection[str]) -> bool:
    """Whether `text` is nothing but sentences of `sayings`, with a space between two."""
    one = "|".join(map(re.escape, sorted(sayings, key=len, reverse=True))) or "(?!)"
    return re.fullmatch(f"(?:{one})(?: (?:{one}))*", text) is not None


def drawn_text(customer: Customer, rng: Random) -> str:
    """A text for a customer: questions for topics, statements, and nonsense."""
    pieces = [
        _said(rng.choice(rng.choice(customer.topics).cues), rng) if rng.random() < 0.7 else rng.choice(NOISE)
        for _ in range(rng.randint(1, 3))
    ]
    return " ".join(rng.choice(FRAMES).replace("{}", piece) for piece in pieces)


def _said(cue: str, rng: Random) -> str:
    return " ".join(rng.choice(slot.split("|")).replace("*", "") for slot in cue.split())


def _understood(customer: Customer, topic: Topic, cue: str) -> bool:
    asked = " ".join(slot.split("|")[0].replace("*", "") for slot in cue.split())
    return topic.name in customer.hear(f"{asked}?").topics


def _talk(customer: Customer, rng: Random) -> Iterator[str]:
    mood = Mood(heard_ms=0)
    sayings = customer.sayings()
    for _ in range(TEXTS):
        text, chance = drawn_text(customer, rng), rng.random()
        heard = customer.hear(text)
        after, said = customer.answer(mood, heard, chance)
        if (after, said) != customer.answer(mood, customer.hear(text), chance):
            yield f"two answers to {text!r} differ"
        if not set(said) <= sayings:
            yield f"says {said} to {text!r}, which is not among its sayings"
        if Mood.from_json(after.as_json()) != after:
            yield f"its mood {after} does not survive being kept"
        given = [
            topic.name for topic in customer.topics if _gives(customer, topic, said) and topic.name not in _may_tell(customer, mood, heard)
        ]
        if given:
            yield f"gives away {', '.join(given)} to {text!r}"
        mood = after


def _gives(customer: Customer, topic: Topic, said: tuple[str, ...]) -> bool:
    own = {answer.format(value=value) for answer in topic.answers for value in customer.facts.values()}
    return bool(own & set(said))


def _may_tell(customer: Customer, mood: Mood, heard: Heard) -> set[str]:
    """What was asked for now; what was told before, to whoever asks whether it is right; and what they change their mind about."""
    again = set(mood.told) if CONFIRM in heard.topics else set()
    corrects = {customer.correction.topic} & {*mood.told, *heard.topics} if customer.correction else set()
    return {*heard.topics, *again, *corrects}
