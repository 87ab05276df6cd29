"""An OpenAI-compatible endpoint as something that can be asked, again where that may help, by many episodes at once."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from types import TracebackType
from typing import Self

import anyio
import httpx2
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt

from wardian.rollouts.inference.backoff import retry_after_s, wait_s
from wardian.rollouts.inference.completion import Completion, Pieces, read_body
from wardian.rollouts.inference.errors import EndpointFailed, EndpointRefused
from wardian.rollouts.inference.options import EndpointOptions
from wardian.tools.contract import Json

CONNECT_S = 15.0
SHOWN_BYTES = 2000
PASSING = frozenset({408, 409, 425, 429})
"""Statuses below 500 that a later request may not get."""

Sleep = Callable[[float], Awaitable[None]]


@dataclass(slots=True)
class Counts:
    """Requests since the endpoint was opened."""

    sent: int = 0
    answered: int = 0
    failed: int = 0
    refused: int = 0


@dataclass(slots=True)
class Endpoint:
    """Open it as a context, inside the event loop that will ask."""

    options: EndpointOptions
    sleep: Sleep = anyio.sleep
    counts: Counts = field(default_factory=Counts)
    _client: httpx2.AsyncClient | None = None
    _places: anyio.CapacityLimiter | None = None

    async def __aenter__(self) -> Self:
        key = self.options.api_key
        self._places = anyio.CapacityLimiter(self.options.concurrency)
        self._client = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            # Not the client's own limit of 100 connections: `concurrency` is the limit.
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=self.options.concurrency),
            timeout=httpx2.Timeout(self.options.silence_s, connect=min(CONNECT_S, self.options.silence_s)),
        )
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._client is not None
        await self._client.aclose()

    async def complete(self, body: Mapping[str, Json], rng: Random) -> Completion:
        """Ask until there is an answer. `rng` draws the jitter of the waits.

        Raises:
            EndpointFailed: all tries are used up; the last failure.
            EndpointRefused: the request was refused; it was not made again.
            RuntimeError: the endpoint is not open.
        """
        # As written, but for lone surrogates, which no UTF-8 holds.
        content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")

        def wait(state: RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome else None
            return wait_s(state.attempt_number, error.retry_after_s if isinstance(error, EndpointFailed) else None, rng)

        retrying = AsyncRetrying(
            sleep=self.sleep,
            stop=stop_after_attempt(self.options.tries),
            wait=wait,
            retry=retry_if_exception_type(EndpointFailed),
            reraise=True,
        )
        return await retrying(self._ask, content)

    async def _ask(self, content: bytes) -> Completion:
        if self._places is None:
            raise RuntimeError("the endpoint is not open: use it, or its policy, as an asynchronous context first")
        async with self._places:
            self.counts.sent += 1
            try:
                found = await self._once(content)
            except EndpointFailed:
                self.counts.failed += 1
                raise
            except EndpointRefused:
                self.counts.refused += 1
                raise
            self.counts.answered += 1
            return found

    async def _once(self, content: bytes) -> Completion:
        assert self._client is not None
        url = f"{self.options.base_url.rstrip('/')}/chat/completions"
        try:
            with anyio.fail_after(self.options.deadline_s):
                async with self._client.stream("POST", url, content=content, headers={"Content-Type": "application/json"}) as response:
                    return await _read(response)
        except TimeoutError as error:
            raise EndpointFailed(f"no whole answer within {self.options.deadline_s:g} s") from error
        except httpx2.TimeoutException as error:
            raise EndpointFailed(f"{type(error).__name__}: silent for {self.options.silence_s:g} s") from error
        except httpx2.RequestError as error:
            raise EndpointFailed(f"{type(error).__name__}: {error}") from error


async def _read(response: httpx2.Response) -> Completion:
    if response.status_code != 200:
        raise await _failure(response)
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        return await _read_stream(response)
    raw = await response.aread()
    try:
        return read_body(json.loads(raw))
    except (ValueError, RecursionError) as error:
        raise EndpointFailed(f"the answer is no JSON: {raw[:SHOWN_BYTES].decode('utf-8', 'replace')!r}") from error


async def _read_stream(response: httpx2.Response) -> Completion:
    pieces = Pieces()
    async for event in httpx2.EventSource(response, max_event_size=None):
        if event.data.strip() == "[DONE]":
            break
        try:
            pieces.add(json.loads(event.data))
        except (ValueError, RecursionError) as error:
            raise EndpointFailed(f"a piece of the stream is no JSON: {event.data[:SHOWN_BYTES]!r}") from error
    return pieces.whole()


async def _failure(response: httpx2.Response) -> EndpointFailed | EndpointRefused:
    status = response.status_code
    text = await _beginning(response)
    if status >= 500 or status in PASSING:
        return EndpointFailed(f"HTTP {status}: {text}", retry_after_s(response.headers.get("retry-after")))
    if response.has_redirect_location:
        text = f"it redirects to {response.headers['location']}; give that as --base-url"
    return EndpointRefused(status, text)


async def _beginning(response: httpx2.Response) -> str:
    """What the server says went wrong, in one line."""
    found = b""
    async for part in response.aiter_bytes():
        found += part
        if len(found) >= SHOWN_BYTES:
            break
    text = found[:SHOWN_BYTES].decode("utf-8", "replace")
    try:
        error = json.loads(text)["error"]
        text = str(error["message"] if isinstance(error, dict) else error)
    except (ValueError, LookupError, TypeError, RecursionError):
        pass
    return " ".join(text.split()) or response.reason_phrase
