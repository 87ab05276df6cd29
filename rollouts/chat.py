"""An episode as a chat: observations and actions to messages in the OpenAI format, and the same from a trajectory.

It is a pure function of what is rendered and of the actions, so that what is exported for training is what a model behind an
endpoint was asked.

| in the episode | as messages |
| --- | --- |
| the first observation | `system` with policy and world time, `user` with the task |
| calls | one `assistant` with `tool_calls`, then one `tool` for each result, in their order |
| what reached the agent beside the results of calls, such as a customer's words | one `user` after them |
| a message, or malformed output | `assistant` with the text as it was written, then `user` with the result |

Servers reject a whole conversation for one call in it whose arguments are no JSON object (vLLM up to 0.25, SGLang, and templates that
walk over the arguments). Such arguments stand as `{"unreadable_arguments": "..."}`; their result says what was wrong with them.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from wardian.envs.action import Action, Malformed, Message, ToolCalls
from wardian.envs.observation import parted
from wardian.tools.contract import Json, ToolCall

ChatMessage: TypeAlias = dict[str, Json]

UNREADABLE = "unreadable_arguments"
NOTHING = "(no output)"
"""Stands for output without any text, since some servers take no empty message."""

_POLICY, _TIME = "\n\n# Policy\n\n", "\n\n# World time\n\n"
_TASK = "# Task\n\n"


def opening(rendered: str) -> list[ChatMessage]:
    """The messages of a first observation; one of role `user` with all of it where it has other parts."""
    body, time, moment = rendered.rpartition(_TIME)
    task, policy, rules = body.partition(_POLICY)
    if not (time and policy and task.startswith(_TASK)):
        return [{"role": "user", "content": rendered}]
    system = f"{policy.lstrip()}{rules}{time}{moment}".strip()
    return [{"role": "system", "content": system}, {"role": "user", "content": task.removeprefix(_TASK)}]


@dataclass(slots=True)
class Chat:
    """The messages of one episode so far. After an `act` comes the `answer` to it."""

    messages: list[ChatMessage] = field(default_factory=list)
    _waiting: list[str] = field(default_factory=list)
    """Ids of the calls that have no result yet."""
    _used: set[str] = field(default_factory=set)

    @classmethod
    def begin(cls, rendered: str) -> "Chat":
        """The chat of an episode whose first observation is `rendered`."""
        return cls(opening(rendered))

    def act(self, action: Action, said: str = "", ids: Sequence[str | None] = ()) -> None:
        """Add what the model did. `said` is its text beside calls; `ids` are those that it gave to its calls.

        An id that is missing, or was there before, is made anew.
        """
        match action:
            case ToolCalls(calls) if calls:
                self._waiting = [self._fresh(ids[number] if number < len(ids) else None) for number in range(len(calls))]
                parts = [_call_part(key, call) for key, call in zip(self._waiting, calls, strict=True)]
                self.messages.append({"role": "assistant", "content": said, "tool_calls": parts})
            case ToolCalls():
                self.write(said)
            case Message(text) | Malformed(text):
                self.write(text)

    def write(self, text: str) -> None:
        """Add what the model wrote as plain text, with no calls by the API; its answer will be plain text too."""
        self._waiting = []
        self.messages.append({"role": "assistant", "content": text or NOTHING})

    def answer(self, rendered: str) -> None:
        """Add what the environment gave: one line of `rendered` for each call, in order, and the rest; all where there was no call."""
        self.messages += self._results(rendered) if self._waiting else [{"role": "user", "content": rendered}]
        self._waiting = []

    def _results(self, rendered: str) -> Iterator[ChatMessage]:
        results, incoming = parted(rendered)
        for key, line in zip(self._waiting, results, strict=False):  # calls after an ending have no result
            yield {"role": "tool", "tool_call_id": key, "content": line}
        if incoming:
            yield {"role": "user", "content": "\n".join(incoming)}

    def _fresh(self, given: str | None) -> str:
        key = given if given and given not in self._used else f"c{len(self._used):08d}"  # nine characters, as Mistral's servers want
        while key in self._used:
            key += "0"
        self._used.add(key)
        return key


def _call_part(key: str, call: ToolCall) -> ChatMessage:
    return {"id": key, "type": "function", "function": {"name": call.tool, "arguments": _arguments(call.args)}}


def _arguments(args: dict[str, Json] | str) -> str:
    if isinstance(args, str):
        try:
            if isinstance(json.loads(args), dict):
                return args
        except (ValueError, RecursionError):
            pass
        args = {UNREADABLE: args}
    return json.dumps(args, ensure_ascii=False)
