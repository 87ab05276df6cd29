"""A scripted endpoint on this machine, for tests and for trying options without a model. It speaks HTTP over a real socket.

A script is a function from a request to what the server does. `async with FakeEndpoint(script).serve() as fake` serves at
`fake.base_url` and keeps what it was asked in `fake.asked`.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from wardian.sandbox.beside import beside
from wardian.tools.contract import Json

MAX_HEAD_BYTES = 64 * 1024
PIECE_CHARS = 7
"""Text is streamed in pieces of this size, so that nothing is whole in one of them."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request."""

    number: int
    """From 0."""
    body: Mapping[str, Json]
    headers: Mapping[str, str]
    """Names in lower case."""


@dataclass(frozen=True, slots=True)
class Completes:
    """A chat completion, in one body or as a stream, as the request wants it."""

    text: str | None = None
    calls: Sequence[Mapping[str, Json]] = ()
    """As they stand in `tool_calls`."""
    finish: str = "stop"
    model: str = "fake-1"
    usage: Mapping[str, Json] | None = None
    extra: Mapping[str, Json] = field(default_factory=dict)
    """Further fields of the choice, such as `logprobs`."""


@dataclass(frozen=True, slots=True)
class Sends:
    """Any answer at all."""

    status: int = 200
    content: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stalls:
    """Sends the first `sent_bytes` of another answer, and then nothing, for ever."""

    answer: Completes
    sent_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Drops:
    """Sends the first `sent_bytes` of another answer, and closes the connection."""

    answer: Completes
    sent_bytes: int = 0


Doing: TypeAlias = Completes | Sends | Stalls | Drops
Script: TypeAlias = Callable[[Asked], Doing | Awaitable[Doing]]


def calls_of(*calls: tuple[str, Mapping[str, Json]], first: int = 0) -> tuple[dict[str, Json], ...]:
    """Well-formed `tool_calls`; ids count from `first`."""
    return tuple(
        {"id": f"call_{first + number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for number, (name, arguments) in enumerate(calls)
    )


@dataclass(slots=True)
class FakeEndpoint:
    script: Script
    asked: list[Asked] = field(default_factory=list)
    base_url: str = ""
    at_once: int = 0
    """Requests that are being answered now."""
    most_at_once: int = 0

    @asynccontextmanager
    async def serve(self) -> AsyncIterator["FakeEndpoint"]:
        """Serve until the block ends; what is still served then is cut off."""
        async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, beside() as group:
            self.base_url = f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/v1"
            group.start_soon(listener.serve, self._serve)
            yield self

    async def _serve(self, connection: SocketStream) -> None:
        """Answer the requests of one connection, until one of the two ends it."""
        received = BufferedByteReceiveStream(connection)
        async with connection:
            try:
                while True:
                    asked = await self._next(received)
                    self.asked.append(asked)
                    self.at_once += 1
                    self.most_at_once = max(self.most_at_once, self.at_once)
                    try:
                        doing = self.script(asked)
                        going_on = await _do(connection, asked, await doing if isinstance(doing, Awaitable) else doing)
                    finally:
                        self.at_once -= 1
                    if not going_on:
                        return
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
                return

    async def _next(self, received: BufferedByteReceiveStream) -> Asked:
        head = (await received.receive_until(b"\r\n\r\n", MAX_HEAD_BYTES)).decode("latin-1").split("\r\n")
        pairs = [line.partition(":") for line in head[1:]]
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        content = await received.receive_exactly(int(headers.get("content-length", "0")))
        return Asked(len(self.asked), json.loads(content) if content else {}, headers)


async def _do(connection: SocketStream, asked: Asked, doing: Doing) -> bool:
    """Carry it out; gives whether the connection may be used again."""
    match doing:
        case Completes():
            await connection.send(_completion(asked, doing))
        case Sends(status, content, headers):
            await connection.send(_response(status, content.encode(), headers))
        case Stalls(answer, sent_bytes):
            await connection.send(_completion(asked, answer)[:sent_bytes])
            await anyio.sleep_forever()
        case Drops(answer, sent_bytes):
            await connection.send(_completion(asked, answer)[:sent_bytes])
            return False
    return True


def _response(status: int, content: bytes, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Status", f"Content-Length: {len(content)}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def _completion(asked: Asked, answer: Completes) -> bytes:
    if asked.body.get("stream"):
        chunks = [f"data: {json.dumps(piece)}\n\n".encode() for piece in _pieces(answer)] + [b"data: [DONE]\n\n"]
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        return head + b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in [*chunks, b""])
    message = {"role": "assistant", "content": answer.text, **({"tool_calls": list(answer.calls)} if answer.calls else {})}
    choice = {"index": 0, "message": message, "finish_reason": answer.finish, **answer.extra}
    body = {"object": "chat.completion", "model": answer.model, "choices": [choice], "usage": answer.usage}
    return _response(200, json.dumps(body).encode(), {"Content-Type": "application/json"})


def _pieces(answer: Completes) -> list[dict[str, Json]]:
    deltas: list[dict[str, Json]] = [{"role": "assistant"}]
    deltas += [{"content": part} for part in _cut(answer.text or "")]
    for index, call in enumerate(answer.calls):
        function = call["function"]
        deltas.append({"tool_calls": [{**call, "index": index, "function": {**function, "arguments": ""}}]})
        deltas += [{"tool_calls": [{"index": index, "function": {"arguments": part}}]} for part in _cut(function["arguments"])]
    choices: list[list[dict[str, Json]]] = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
    choices.append([{"index": 0, "delta": {}, "finish_reason": answer.finish, **answer.extra}])
    found: list[dict[str, Json]] = [{"object": "chat.completion.chunk", "model": answer.model, "choices": one} for one in choices]
    return [*found, {"object": "chat.completion.chunk", "model": answer.model, "choices": [], "usage": answer.usage}]


def _cut(text: str) -> list[str]:
    return [text[start : start + PIECE_CHARS] for start in range(0, len(text), PIECE_CHARS)]
