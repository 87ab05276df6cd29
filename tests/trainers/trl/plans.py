"""What the model of the tests says: a plan for each conversation, turn by turn."""

import json
import re
from collections.abc import Sequence
from typing import Any

from tests.trainers.trl.tiny import Speak


def called(tool: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': tool, 'arguments': arguments})}\n</tool_call>"


def word_of(text: str) -> str:
    found = re.search(r"Echo the word (\w+)", text)
    assert found, text
    return found[1]


def speaking(*plans: Sequence[str]) -> Speak:
    """The conversations follow `plans` in turn; `WORD` stands for the word of the task. The first turns of two plans must differ."""

    def speak(number: int, text: str, turns: list[str]) -> str:
        word = word_of(text)
        written = [[turn.replace("WORD", word) for turn in plan] for plan in plans]
        plan = next(plan for plan in written if plan[0] == turns[0]) if turns else written[number % len(plans)]
        return plan[min(len(turns), len(plan) - 1)]

    return speak


GOOD = (called("echo", text="WORD"), "Done.")
WRONG = (called("echo", text="nothing"), "I am done.")
REFUSED = (called("fail"), called("echo", text="WORD"), "Done.")
SLOW = (called("slow", seconds=0.2), called("echo", text="WORD"), "Done.")
BREAKS = (called("breaks_us"), "Done.")
TOO_SLOW = (called("slow", seconds=30), "Done.")
ENDLESS = (called("echo", text="more"),)
GIBBERISH = ('<tool_call>\n{"name": "echo", \n</tool_call>',)
