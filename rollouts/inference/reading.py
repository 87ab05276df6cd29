"""From a model's answer to an action, by one rule for each case; the first that holds. Never an exception.

| the answer | the action |
| --- | --- |
| was cut off (`finish_reason` is `length`) | malformed, whatever stands in it: half of it may be missing |
| was withheld by a filter (`content_filter`) | malformed |
| has calls, one of them without the name of a function | malformed, raw text: the calls as JSON |
| has calls | the calls, in their order; text beside them is kept as what was said |
| holds, in its text, calls of the format that was named | the same |
| holds, in its text, a call of that format that cannot be read | malformed, raw text: all of it |
| refuses (`refusal`) | a message with the refusal |
| has no text, or only reasoning | malformed |
| has text | a message: what follows the last `</think>` |

Arguments are not read here: text stays the model's text, an object an object, `null` and what is missing the text `null`, any other
value its JSON text. The environment refuses what it cannot read, names the reason, and knows which tools there are.
"""

import json
from dataclasses import dataclass

from wardian.envs.action import Action, Malformed, Message, ToolCalls
from wardian.rollouts.actions import sound
from wardian.rollouts.inference.completion import Completion
from wardian.tools.completions import CallFormat, parse_completion
from wardian.tools.contract import Json, ToolCall
from wardian.tools.loading import Kind, Rejected

CUT_OFF = "The output was cut off at the limit of tokens before it was complete. Write less at once."
WITHHELD = "The output was withheld by a content filter."
NAMELESS = "A tool call has no name of a function. Name the tool that you call."
EMPTY = "The output is empty. Call a tool, or send a message."


@dataclass(frozen=True, slots=True)
class Answer:
    action: Action
    said: str = ""
    """All of the model's text."""
    ids: tuple[str | None, ...] = ()
    """Of its calls."""


def read(completion: Completion, form: CallFormat | None) -> Answer:
    """Read an answer; `form` is the format of calls in text, `None` when they come by the API."""
    text = completion.text
    if completion.finish == "length":
        return Answer(Malformed(_raw(completion), CUT_OFF), text)
    if completion.finish == "content_filter":
        return Answer(Malformed(_raw(completion), WITHHELD), text)
    if form is None and completion.calls:
        return _called(completion)
    return Answer(read_text(text, form) if form is not None and text else _told(text or completion.refusal), text)


def read_text(text: str, form: CallFormat) -> Action:
    """Read what a model wrote, with its calls in it: those, or a message."""
    found = parse_completion(text, form)
    if not isinstance(found, Rejected):
        return sound(ToolCalls(found))
    return _told(text) if found.kind is Kind.NO_TOOL_CALL else Malformed(text, found.message)


def _called(completion: Completion) -> Answer:
    calls = [_call(call) for call in completion.calls]
    if any(call is None for call in calls):
        return Answer(Malformed(_raw(completion), NAMELESS), completion.text)
    ids = tuple(call.get("id") if isinstance(call.get("id"), str) else None for call in completion.calls)
    return Answer(sound(ToolCalls(tuple(call for call in calls if call is not None))), completion.text, ids)


def _call(call: Json) -> ToolCall | None:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str) or not function["name"]:
        return None
    arguments = function.get("arguments")
    return ToolCall(function["name"], arguments if isinstance(arguments, dict | str) else json.dumps(arguments))


def _told(text: str) -> Action:
    told = text.rpartition("</think>")[2].strip()
    return Malformed(text, EMPTY) if not told or told.startswith("<think>") else Message(told)


def _raw(completion: Completion) -> str:
    """All that the model wrote, as text."""
    calls = json.dumps(list(completion.calls), ensure_ascii=False) if completion.calls else ""
    return "\n".join(part for part in (completion.text, calls) if part)
