"""What an endpoint answered, out of one body of JSON or out of the pieces of a stream, as far as it is of use here.

Endpoints differ in all that is optional. What is of the wrong type is taken as absent, except where nothing of use is left then.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wardian.rollouts.inference.errors import EndpointFailed
from wardian.tools.contract import Json

SHOWN_CHARS = 300


@dataclass(frozen=True, slots=True)
class Completion:
    text: str
    calls: tuple[Json, ...] = ()
    """As the endpoint gave them, whatever is in them."""
    finish: str = ""
    """`stop`, `length`, `tool_calls`, ...; empty when it was not said."""
    refusal: str = ""
    model: str = ""
    """As the endpoint names it, which may say more than it was asked by; or empty."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    """Of the answer. Both where the server gives them (vLLM from 0.10.2, when asked by `return_token_ids`)."""
    logprobs: tuple[float, ...] | None = None
    """One for each token of the answer, where they were asked for; `None` when there are not as many as ids."""


def read_body(body: Json) -> Completion:
    """Read a chat completion.

    Raises:
        EndpointFailed: it is none. Some proxies answer so, with status 200, for a failure of the server behind them.
    """
    choice = _first(_object(body).get("choices"))
    message = _object(choice.get("message"))
    if not message:
        raise EndpointFailed(f"the answer is no chat completion: {_shown(body)}")
    usage = _object(_object(body).get("usage"))
    ids, logprobs = _ids(choice.get("token_ids")), _logprobs(choice.get("logprobs"))
    return Completion(
        text=_text(message.get("content")),
        calls=tuple(message["tool_calls"]) if isinstance(message.get("tool_calls"), list) else (),
        finish=_text(choice.get("finish_reason")),
        refusal=_text(message.get("refusal")),
        model=_text(_object(body).get("model")),
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        prompt_token_ids=_ids(_object(body).get("prompt_token_ids")),
        token_ids=ids,
        logprobs=None if ids is not None and logprobs is not None and len(ids) != len(logprobs) else logprobs,
    )


@dataclass(slots=True)
class Pieces:
    """Puts the pieces of a stream together to the body that the same answer would have had in one."""

    text: list[str] = field(default_factory=list)
    refusal: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    body: dict[str, Any] = field(default_factory=dict)
    choice: dict[str, Any] = field(default_factory=dict)
    logprobs: list[Json] = field(default_factory=list)
    ids: list[Json] = field(default_factory=list)
    _at: dict[int, dict[str, Any]] = field(default_factory=dict)
    """The latest call of each index."""

    def add(self, piece: Json) -> None:
        """Take the next piece.

        Raises:
            EndpointFailed: it tells of an error of the server.
        """
        found = _object(piece)
        if found.get("error"):
            raise EndpointFailed(f"the stream broke off: {_shown(found['error'])}")
        self.body |= {name: found[name] for name in ("model", "usage", "prompt_token_ids") if found.get(name)}
        choice = _first(found.get("choices"))
        if choice.get("finish_reason"):
            self.choice["finish_reason"] = choice["finish_reason"]
        self.logprobs += _list(_object(choice.get("logprobs")).get("content"))
        self.ids += _list(choice.get("token_ids"))
        delta = _object(choice.get("delta"))
        self.text.append(_text(delta.get("content")))
        self.refusal.append(_text(delta.get("refusal")))
        for part in _list(delta.get("tool_calls")):
            self._add_call(_object(part))

    def whole(self) -> Completion:
        """The answer.

        Raises:
            EndpointFailed: the stream ended before the answer did.
        """
        if "finish_reason" not in self.choice:
            raise EndpointFailed("the stream ended before the answer did")
        message = {"content": "".join(self.text), "refusal": "".join(self.refusal), "tool_calls": self.calls}
        extra: dict[str, Any] = {"token_ids": self.ids} if self.ids else {}
        if self.logprobs:
            extra["logprobs"] = {"content": self.logprobs}
        return read_body({**self.body, "choices": [{**self.choice, "message": message, **extra}]})

    def _add_call(self, part: Mapping[str, Json]) -> None:
        call = self._call_of(part)
        function = _object(part.get("function"))
        call["id"] = call["id"] or part.get("id")
        call["function"]["name"] = call["function"]["name"] or function.get("name")
        call["function"]["arguments"] = _joined(call["function"]["arguments"], function.get("arguments"))

    def _call_of(self, part: Mapping[str, Json]) -> dict[str, Any]:
        """The call that a piece goes on with, or a new one. By index; some servers leave it out, or send one index with every id."""
        index, key = part.get("index"), part.get("id")
        if isinstance(index, int):
            found = self._at.get(index)
        elif key:
            found = next((call for call in self.calls if call["id"] == key), None)
        else:
            found = self.calls[-1] if self.calls else None
        if found is None or (key and found["id"] and key != found["id"]):
            found = {"id": None, "type": "function", "function": {"name": None, "arguments": None}}
            self.calls.append(found)
        if isinstance(index, int):
            self._at[index] = found
        return found


def _joined(so_far: Json, more: Json) -> Json:
    """Arguments come as pieces of text; from servers that send whole calls also as an object."""
    if isinstance(so_far, str) and isinstance(more, str):
        return so_far + more
    return so_far if more is None else more


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _first(value: Json) -> Mapping[str, Json]:
    return _object(value[0]) if isinstance(value, list) and value else {}


def _text(value: Json) -> str:
    """Text as it is, or the text of a list of parts."""
    if isinstance(value, list):
        return "".join(_text(_object(part).get("text")) for part in value)
    return value if isinstance(value, str) else ""


def _count(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _ids(value: Json) -> tuple[int, ...] | None:
    found = tuple(_list(value))
    return found if found and all(_count(one) is not None for one in found) else None


def _logprobs(value: Json) -> tuple[float, ...] | None:
    found = [_object(token).get("logprob") for token in _list(_object(value).get("content"))]
    numbers = tuple(float(one) for one in found if isinstance(one, int | float) and math.isfinite(one))
    return numbers if numbers and len(numbers) == len(found) else None


def _shown(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."
