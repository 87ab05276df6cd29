"""What a customer understands: questions in many words, courtesy, lists, and statements that ask nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardian.envs.hearing import Heard, hear

CUES = (
    ("invoice", ("which|what invoice*|bill*|charge*|payment*|one", "invoice*|bill number|id|no", "number|id of invoice*|bill*")),
    ("order", ("order number|id|no", "number|id of|for order", "which|what order")),
    ("cancelled", ("when|date|day cancel*",)),
)

ASKING = [
    ("Which invoice do you mean?", ["invoice"]),
    ("which invoice is this about, do you know", ["invoice"]),
    ("Which of the two charges are you disputing?", ["invoice"]),
    ("WHAT INVOICE?", ["invoice"]),
    ("Could you please tell me the invoice number?", ["invoice"]),
    ("Could you tell me the number of the invoice", ["invoice"]),
    ("Please send us your invoice ID.", ["invoice"]),
    ("Please kindly provide the invoice number.", ["invoice"]),
    ("Hello Ada, thank you for your patience. I need your invoice number to go on.", ["invoice"]),
    ("Hi! To help you, I need to know which invoice this is about.", ["invoice"]),
    ("Let me know which bill you mean.", ["invoice"]),
    ("I see two charges on your account. Which one?", ["invoice"]),
    ("I found charges 100 and 200. Could you clarify which payment you dispute?", ["invoice"]),
    ("So, tell me: which charge is it?", ["invoice"]),
    ("I\u2019d like to know what invoice you\u2019re asking about.", ["invoice"]),
    ("I'm wondering which charge you mean.", ["invoice"]),
    ("What\u2019s the invoice number\uff1f", ["invoice"]),
    ("\u00bfWhich invoice?", ["invoice"]),
    ("And the order number?", ["order"]),
    ("What is the ID of your order?", ["order"]),
    ("Confirm your order number, please.", ["order"]),
    ("Would you share the order no. with me", ["order"]),
    ("We are missing your order number.", ["order"]),
    ("When did you cancel?", ["cancelled"]),
    ("On which day was the cancellation?", ["cancelled"]),
    ("May I ask for the date of your cancellation", ["cancelled"]),
    ("Do you remember the date on which you cancelled", ["cancelled"]),
    ("I have two questions: which invoice is it? And when did you cancel?", ["invoice", "cancelled"]),
    ("When did you cancel, and what is your order number?", ["order", "cancelled"]),
    ("Please tell me:\n- the invoice number\n- the date of cancellation", ["invoice", "cancelled"]),
    ("Please tell me\n1. the order number\n2. the invoice number", ["invoice", "order"]),
    ("I do not need your order number. Which invoice is it?", ["invoice"]),
    ("Is that so?", []),
    ("Could you explain?", []),
    ("What is your shoe size?", []),
]

TELLING = [
    "",
    "Done.",
    "The ticket is done.",
    "All is done: refunded, replied, resolved.",
    "I have refunded 500 cents on invoice 100003.",
    "Your order number 77 was found and the invoice number is correct.",
    "Thank you, I will look into the invoice now.",
    "I have found the charge that you mean.",
    "Please let me know if you have any other questions about the invoice.",
    "Is there anything else I can help you with?",
    "Feel free to ask which invoice was refunded.",
    "Don't hesitate to contact us.",
    "There is no need to send the order number.",
    "You need not do anything; it is not necessary to give the order number.",
    "We need three days to transfer the money.",
    "When you cancelled, the month was paid already.",
    "What we did: the refund was made.",
    "Name: Ada",
    "Please note that invoice number 5 was refunded.",
    "Please wait a moment.",
    "I can confirm that the refund was sent.",
    "State: resolved",
    "{}",
    '{"tool": "get_invoice"}',
]


@pytest.mark.parametrize(("text", "topics"), ASKING)
def test_a_question_is_understood_in_many_words(text: str, topics: list[str]) -> None:
    assert hear(text, CUES) == Heard(True, tuple(topics))


@pytest.mark.parametrize("text", TELLING)
def test_what_asks_nothing_is_no_question(text: str) -> None:
    assert hear(text, CUES) == Heard(False)


@given(st.text() | st.lists(st.sampled_from(["please", "need", "your", "which", "\n-", "?", " ", "invoice", "."])).map(" ".join))
def test_any_text_is_heard_and_nothing_but_known_topics_come_out(text: str) -> None:
    found = hear(text, CUES)
    assert set(found.topics) <= {topic for topic, _ in CUES}
    assert found.asks or not found.topics


@pytest.mark.parametrize("piece", ["need ", "please ", "- ", "a?", "and ", ". ", "which ", "\u0130"])
def test_a_long_text_is_cut_and_does_not_take_long(piece: str) -> None:
    assert hear(piece * 200_000 + " which invoice?", CUES).topics in ((), ("invoice",))
