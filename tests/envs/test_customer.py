"""The scripted customer, without an episode: pure, withholding, and unable to invent anything."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardian.envs.customer import Correction, Customer, Mood, Topic
from wardian.envs.customer_check import customer_findings, drawn_text, invented, made_of
from wardian.envs.errors import TaskError
from wardian.envs.task import Difficulty
from wardian.envs.worlds.toy.customer import TOPICS
from wardian.envs.worlds.toy.families.counter import AtTheCounter
from wardian.sandbox.streams import stream

FACTS = {"member": "7", "kind": "saw", "days": "5", "days_at_first": "9"}
CUSTOMER = Customer(FACTS, TOPICS)
FICKLE = replace(CUSTOMER, correction=Correction("days", "days_at_first", 2))
START = Mood(heard_ms=0)
ASK_ALL = "What is your member number? What would you like to borrow, and for how long?"


def talk(customer: Customer, *texts: str, chance: float = 0.0) -> list[str]:
    mood, said = START, []
    for text in texts:
        mood, lines = customer.answer(mood, customer.hear(text), chance)
        said.append(" ".join(lines))
    return said


def test_only_what_is_asked_is_told() -> None:
    assert talk(CUSTOMER, "What would you like to borrow?", "How many days?") == ["I would like a saw.", "I need it for 5 days."]


def test_several_questions_of_one_message_are_all_answered() -> None:
    assert talk(CUSTOMER, ASK_ALL) == ["My member number is 7. I would like a saw. I need it for 5 days."]


def test_the_wording_is_drawn_and_nothing_else_is() -> None:
    assert talk(CUSTOMER, "How many days?", chance=0.99) == ["For 5 days, please."]


def test_what_is_not_known_is_not_told() -> None:
    assert talk(replace(CUSTOMER, facts={"kind": "saw"}), "What is your member number?") == ["I do not know that."]


@pytest.mark.parametrize("text", ["What is your shoe size?", "Could you explain?", "Is that right?"])
def test_what_is_not_understood_or_not_told_yet_gives_nothing_away(text: str) -> None:
    assert talk(CUSTOMER, text) == ["I am not sure what you want to know from me."]


def test_a_customer_agrees_to_nothing_and_repeats_only_their_own_words() -> None:
    told = talk(CUSTOMER, "For how many days?", "So it is 21 days and a tent, correct?", "Member 8, right?")
    assert told == ["I need it for 5 days.", *["I can only say it again. I need it for 5 days."] * 2]


@pytest.mark.parametrize(
    ("at_turn", "said"),
    [
        (
            1,
            [
                "I need it for 9 days. Sorry, I have to correct myself. I need it for 5 days.",
                "I can only say it again. I need it for 5 days.",
            ],
        ),
        (
            2,
            [
                "I need it for 9 days.",
                "I can only say it again. I need it for 9 days. Sorry, I have to correct myself. I need it for 5 days.",
            ],
        ),
        (3, ["I need it for 9 days.", "I can only say it again. I need it for 9 days."]),
    ],
)
def test_a_change_of_mind_comes_at_its_turn(at_turn: int, said: list[str]) -> None:
    fickle = replace(CUSTOMER, correction=Correction("days", "days_at_first", at_turn))
    assert talk(fickle, "For how many days?", "Is that right?") == said


def test_a_change_of_mind_waits_until_its_matter_was_told() -> None:
    assert talk(FICKLE, "Your member number?", "What kind of item?", "How many days?")[1:] == [
        "I would like a saw.",
        "I need it for 9 days. Sorry, I have to correct myself. I need it for 5 days.",
    ]


@given(st.lists(st.text() | st.integers(0, 10**6), max_size=6), st.floats(0, 1, exclude_max=True), st.booleans())
def test_whatever_is_said_to_them_customers_say_nothing_but_their_sayings(texts: list[Any], chance: float, fickle: bool) -> None:
    customer = FICKLE if fickle else CUSTOMER
    drawn = [text if isinstance(text, str) else drawn_text(customer, stream(text, "t")) for text in texts]
    assert all(made_of(said, customer.sayings()) for said in talk(customer, *drawn, chance=chance))


@pytest.mark.parametrize("difficulty", Difficulty)
def test_the_sayings_of_drawn_customers_hold_facts_of_their_task_and_no_others(difficulty: Difficulty) -> None:
    for seed in range(40):
        task = AtTheCounter().generate(difficulty, seed)
        customer = AtTheCounter().customer(task)
        assert invented(customer) == []
        assert list(customer_findings(task, customer, AtTheCounter().customer(task))) == []


WORDY = Topic("days", ("how|what days",), ("Only {value} days of the 21 that are allowed.",))
MUTE = Topic("days", ("How",), ("{value}.",))


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({"topics": (WORDY,)}, "holds more than a fact of the task"),
        ({"topics": (MUTE,)}, "the cue 'How' of days is never understood"),
        ({"facts": {"days": "4"}}, "the task's facts are"),
    ],
)
def test_the_checker_finds_what_is_wrong_with_a_customer(changes: dict[str, Any], finding: str) -> None:
    task = replace(AtTheCounter().generate(Difficulty.EASY, 1), facts=FACTS)
    wrong = replace(CUSTOMER, **changes)
    assert [line for line in customer_findings(task, wrong, wrong) if finding in line]


class Blabber(Customer):
    def answer(self, mood: Mood, heard: Any, chance: float) -> tuple[Mood, tuple[str, ...]]:
        return replace(mood, turns=mood.turns + 1), ("My member number is 7.", f"It is turn {mood.turns}.")


def test_the_checker_finds_customers_who_give_away_or_invent() -> None:
    task = replace(AtTheCounter().generate(Difficulty.EASY, 1), facts=FACTS)
    found = "\n".join(customer_findings(task, Blabber(FACTS, TOPICS), Blabber(FACTS, TOPICS)))
    assert "gives away member" in found
    assert "'It is turn 3.'" in found


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"topics": (Topic("a", ("b",), ("No slot.",)),)}, "must hold {value} once"),
        ({"topics": (Topic("a", ("b",), ("{value} {value}",)),)}, "must hold {value} once"),
        ({"topics": (Topic("confirm", ("b",), ("{value}",)),)}, "needs another name"),
        ({"topics": (TOPICS[0], TOPICS[0])}, "two topics have one name"),
        ({"correction": Correction("days", "nothing", 1)}, "needs a topic, both facts"),
        ({"correction": Correction("days", "days_at_first", 0)}, "a turn from 1"),
    ],
)
def test_a_customer_that_makes_no_sense_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(TaskError, match=why):
        replace(CUSTOMER, **changes)
