"""The policy `openai`: each episode is a chat with a model behind an endpoint.

When the model cannot be asked, that says nothing about what it would have done: its episode ends as failed and masked. Where the
endpoint never answered anything, the run ends at the first refusal that is about the key, the model or the address, and at the third
episode that fails in any other way. Where it answered before, the run ends when so many episodes in a row could not ask that it is
taken to be gone: else each later episode would be masked, one by one.
"""

from dataclasses import dataclass
from types import TracebackType
from typing import Self

from wardian.envs.action import Observation
from wardian.rollouts.chat import Chat
from wardian.rollouts.errors import PolicyGone, PolicyHopeless, PolicyRefused, PolicyUnavailable
from wardian.rollouts.inference.completion import Completion
from wardian.rollouts.inference.endpoint import Endpoint
from wardian.rollouts.inference.errors import EndpointError, EndpointRefused
from wardian.rollouts.inference.options import EndpointOptions
from wardian.rollouts.inference.prompt import tools_section
from wardian.rollouts.inference.reading import read
from wardian.rollouts.policies.base import TaskView
from wardian.rollouts.policies.sampled import Sampled, held_text
from wardian.sandbox.streams import Stream, stream
from wardian.tools.contract import Json

NAME = "openai"
WRONG = frozenset({401, 403, 404})
"""Key, rights, model or address: as the first answer of all, one is enough."""
ENOUGH = 3
"""So many episodes that could not ask, before any answer, are enough too."""


@dataclass(slots=True)
class EndpointPolicy:
    """Open it as a context around the run; see `wardian.rollouts.policies.lifetime`."""

    endpoint: Endpoint
    name: str = NAME
    lost: int = 0
    """Episodes that could not ask."""
    in_a_row: int = 0
    """Of them the last ones, between which the endpoint answered nothing and refused no single request."""
    answered: int = 0
    """What the endpoint had answered when the last of them was lost."""

    @classmethod
    def of(cls, options: EndpointOptions) -> Self:
        """A policy that asks the endpoint of `options`."""
        return cls(Endpoint(options))

    @property
    def checkpoint(self) -> str:
        """The model, as it is asked for."""
        return self.endpoint.options.model

    def begin(self, first: Observation, view: TaskView) -> "EndpointPlayer":
        """A player with a chat of its own."""
        return EndpointPlayer(self, view, stream(view.seed, "endpoint/backoff"))

    def cannot(self, error: EndpointError) -> PolicyUnavailable:
        """What the player of an episode raises that could not ask, by what became of all the others."""
        self.lost += 1
        options, told = self.endpoint.options, str(error)
        if options.api_key:  # a server may repeat it, and this is logged
            told = told.replace(options.api_key, "(key)")
        wrong, found = False, PolicyUnavailable(f"the endpoint gave no answer in {options.tries} tries, the last: {told}")
        if isinstance(error, EndpointRefused):
            wrong, found = error.status in WRONG, PolicyRefused(f"the endpoint refuses the request: {told}")
        if self.endpoint.counts.answered:
            return self._gone(found) if wrong or not isinstance(error, EndpointRefused) else self._there(found)
        if not (wrong or self.lost >= ENOUGH):
            return found
        return PolicyHopeless(f"{found} (it has answered nothing yet: check --base-url, --model and --api-key-env)", found.cause)

    def _gone(self, found: PolicyUnavailable) -> PolicyUnavailable:
        """The same as the end of the run, where it was the last of too many in a row."""
        answered = self.endpoint.counts.answered
        self.in_a_row = self.in_a_row + 1 if answered == self.answered else 1
        self.answered = answered
        if self.in_a_row < self.endpoint.options.gone_after:
            return found
        return PolicyGone(f"the endpoint is gone: {self.in_a_row} episodes in a row could not ask it; {found}")

    def _there(self, found: PolicyUnavailable) -> PolicyUnavailable:
        """A refusal of one request, by an endpoint that is there."""
        self.in_a_row = 0
        return found

    async def __aenter__(self) -> Self:
        await self.endpoint.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.endpoint.__aexit__(kind, error, trace)


@dataclass(slots=True)
class EndpointPlayer:
    policy: EndpointPolicy
    view: TaskView
    rng: Stream
    """For the jitter of waits."""
    chat: Chat | None = None

    @property
    def options(self) -> EndpointOptions:
        """Those of the endpoint."""
        return self.policy.endpoint.options

    async def act(self, observation: Observation) -> Sampled:
        """Ask the model.

        Raises:
            PolicyUnavailable: all tries are used up.
            PolicyRefused: the endpoint refused the request, such as a chat that is longer than the model takes.
            PolicyHopeless: no episode could ask so far.
            PolicyGone: too many episodes in a row could not ask.
        """
        if self.chat is None:
            self.chat = self._begin(observation)
        else:
            self.chat.answer(observation.rendered)
        completion = await self._ask(self.chat)
        answer = read(completion, self.options.text_format)
        by_api = self.options.text_format is None
        if by_api:
            self.chat.act(answer.action, answer.said, answer.ids)
        else:
            self.chat.write(answer.said)
        said = None if answer.said in ("", held_text(answer.action)) else answer.said
        return Sampled(
            answer.action,
            checkpoint=completion.model or None,
            text=said if by_api else None,
            raw=None if by_api else said,
            prompt_token_ids=completion.prompt_token_ids,
            token_ids=completion.token_ids,
            logprobs=completion.logprobs,
            prompt_tokens=completion.prompt_tokens,
            completion_tokens=completion.completion_tokens,
        )

    def _begin(self, first: Observation) -> Chat:
        chat = Chat.begin(first.rendered)
        form = self.options.text_format
        if form is not None:
            section = tools_section(self.view.tool_schemas, form)
            if chat.messages[0]["role"] == "system":
                chat.messages[0]["content"] += f"\n\n{section}"
            else:
                chat.messages.insert(0, {"role": "system", "content": section})
        return chat

    async def _ask(self, chat: Chat) -> Completion:
        try:
            return await self.policy.endpoint.complete(self._body(chat), self.rng)
        except EndpointError as error:
            raise self.policy.cannot(error) from error

    def _body(self, chat: Chat) -> dict[str, Json]:
        options = self.options
        body: dict[str, Json] = {**options.extra, "model": options.model, "messages": chat.messages}
        if options.text_format is None and self.view.tool_schemas:
            body["tools"] = list(self.view.tool_schemas)
        if options.max_tokens is not None:
            body["max_tokens"] = options.max_tokens
        if options.temperature is not None:
            body["temperature"] = options.temperature
        if options.streaming:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body
