"""A model behind an endpoint: a real client, a real socket, and a server that does what servers do."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest

from wardian.rollouts.inference.completion import Completion
from wardian.rollouts.inference.endpoint import Endpoint
from wardian.rollouts.inference.errors import EndpointFailed, EndpointRefused
from wardian.rollouts.inference.fake import Asked, Completes, Doing, Drops, FakeEndpoint, Sends, Stalls, calls_of
from wardian.rollouts.inference.options import EndpointOptions
from wardian.sandbox.streams import stream

pytestmark = pytest.mark.anyio
DONE = Completes("All requests are done.", usage={"prompt_tokens": 11, "completion_tokens": 5})


class Trial:
    """Asks a fake endpoint once; keeps how long it would have waited."""

    def __init__(self, *doings: Doing) -> None:
        self.doings: Sequence[Doing] = doings
        self.waits: list[float] = []
        self.fake = FakeEndpoint(self.script)

    def script(self, asked: Asked) -> Doing:
        return self.doings[min(asked.number, len(self.doings) - 1)]

    async def sleep(self, wait_s: float) -> None:
        self.waits.append(wait_s)

    async def ask(self, **options: Any) -> Completion:
        async with self.fake.serve():
            asked = EndpointOptions(self.fake.base_url, "m", **{"tries": 3, "silence_s": 5.0, **options})
            async with Endpoint(asked, self.sleep) as endpoint:
                self.counts = endpoint.counts
                return await endpoint.complete({"messages": [], "stream": asked.streaming}, stream(0, "test"))


@pytest.mark.parametrize("streaming", [False, True])
async def test_an_answer_in_pieces_is_the_answer_in_one(streaming: bool) -> None:
    calls = calls_of(("list_items", {"kind": "saw"}), ("show_item", {"item_id": 1}))
    logprobs = {"content": [{"token": "a", "logprob": -0.25}, {"token": "b", "logprob": -1}]}
    found = await Trial(replace(DONE, calls=calls, extra={"logprobs": logprobs, "token_ids": [4, 7]})).ask(streaming=streaming)
    assert (found.text, found.calls) == ("All requests are done.", calls)
    assert (found.prompt_tokens, found.completion_tokens, found.model, found.finish) == (11, 5, "fake-1", "stop")
    assert (found.token_ids, found.logprobs) == ((4, 7), (-0.25, -1.0))


PASSING: dict[str, Doing] = {
    "a server error": Sends(500, "oops"),
    "a proxy without its server": Sends(502),
    "too many requests": Sends(429, '{"error": {"message": "slow down"}}'),
    "an error under status 200": Sends(200, '{"error": {"message": "overloaded"}}', {"Content-Type": "application/json"}),
    "a page of HTML": Sends(200, "<html>", {"Content-Type": "text/html"}),
    "a closed connection": Drops(DONE),
    "a connection closed within the head": Drops(DONE, 20),
    "a connection closed midway": Drops(DONE, 150),
    "silence": Stalls(DONE),
    "silence midway": Stalls(DONE, 150),
}


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("name", PASSING)
async def test_what_may_pass_is_asked_again(name: str, streaming: bool) -> None:
    trial = Trial(PASSING[name], DONE)
    found = await trial.ask(streaming=streaming, silence_s=0.3 if isinstance(PASSING[name], Stalls) else 30, tries=9)
    assert (found.text, trial.counts.answered) == ("All requests are done.", 1)
    assert len(trial.fake.asked) - 1 == len(trial.waits) == trial.counts.failed >= 1


async def test_tries_are_bounded_and_the_last_failure_is_named() -> None:
    trial = Trial(Sends(503, '{"error": {"message": "the model is being loaded"}}'))
    with pytest.raises(EndpointFailed, match="HTTP 503: the model is being loaded"):
        await trial.ask()
    assert (len(trial.fake.asked), len(trial.waits)) == (3, 2)


async def test_a_request_is_cut_off_at_its_deadline() -> None:
    with pytest.raises(EndpointFailed, match=r"no whole answer within 0\.2 s"):
        await Trial(Stalls(DONE, 150)).ask(deadline_s=0.2, tries=1, streaming=True)


async def test_retry_after_is_waited_for() -> None:
    trial = Trial(Sends(429, "", {"Retry-After": "7"}), Sends(503, "", {"Retry-After": "9"}), DONE)
    await trial.ask()
    assert [7 <= trial.waits[0] <= 8, 9 <= trial.waits[1] <= 10] == [True, True]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_a_refusal_is_not_asked_again(status: int) -> None:
    trial = Trial(Sends(status, '{"error": {"message": "no such\\nmodel"}}'))
    with pytest.raises(EndpointRefused, match=f"HTTP {status}: no such model"):
        await trial.ask()
    assert (len(trial.fake.asked), trial.counts.refused) == (1, 1)


async def test_a_redirect_is_named_and_the_key_is_not_sent_there() -> None:
    with pytest.raises(EndpointRefused, match="it redirects to http://other/v1"):
        await Trial(Sends(307, "", {"Location": "http://other/v1"})).ask(api_key="k")


async def test_nothing_that_listens_is_a_failure_that_is_named() -> None:
    async with Endpoint(EndpointOptions("http://127.0.0.1:1/v1", "m", tries=1)) as endpoint:
        with pytest.raises(EndpointFailed, match="ConnectError"):
            await endpoint.complete({}, stream(0, "test"))


async def test_the_key_is_a_bearer_token_and_no_key_is_no_header() -> None:
    with_key, without = Trial(DONE), Trial(DONE)
    await with_key.ask(api_key="k")
    await without.ask()
    assert (with_key.fake.asked[0].headers["authorization"], "authorization" in without.fake.asked[0].headers) == ("Bearer k", False)


async def test_text_that_no_utf8_holds_is_sent_as_a_question_mark() -> None:
    trial = Trial(DONE)
    async with trial.fake.serve(), Endpoint(EndpointOptions(trial.fake.base_url, "m")) as endpoint:
        await endpoint.complete({"messages": ["\ud800é"]}, stream(0, "test"))
    assert trial.fake.asked[0].body == {"messages": ["?é"]}


@pytest.mark.parametrize(("concurrency", "expected"), [(200, 150), (4, 4)])
async def test_requests_run_at_once_up_to_the_limit(concurrency: int, expected: int) -> None:
    """All are held by the server until as many as expected are there, so fewer would never end."""
    full = anyio.Event()

    async def hold(asked: Asked) -> Doing:
        if fake.at_once >= expected:
            full.set()
        await full.wait()
        return DONE

    fake = FakeEndpoint(hold)
    async with fake.serve(), Endpoint(EndpointOptions(fake.base_url, "m", concurrency=concurrency)) as endpoint:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                for number in range(150):
                    group.start_soon(endpoint.complete, {}, stream(number, "test"))
    assert (fake.most_at_once, endpoint.counts.answered) == (expected, 150)
