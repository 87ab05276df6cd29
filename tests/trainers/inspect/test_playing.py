"""What an agent reads of a turn, and in which place."""

from collections import Counter
from typing import Any

import pytest

from wardian.envs.action import Action, Step, StepInfo, ToolCalls
from wardian.envs.events import Word
from wardian.envs.observation import observation
from wardian.trainers.inspect.playing import Playing

pytestmark = pytest.mark.anyio
RESULT = '{"status": "ok", "result": 1}'
WORDS = '{"from": "customer", "at": "1970-01-01T00:00:00+00:00", "text": "Hurry!"}'


class Interrupted:
    """An environment in which a customer speaks while a call runs."""

    async def step(self, action: Action) -> Step:
        assert isinstance(action, ToolCalls)
        seen = observation([{"status": "ok", "result": 1}], [Word("customer", "Hurry!", 0)])
        return Step(seen, 0.0, {}, False, False, StepInfo(1, 0))

    async def close(self) -> None:
        """There is nothing to close."""


def playing() -> Playing:
    environment: Any = Interrupted()
    return Playing(environment, "t", 0, 1.0, Counter())


async def test_what_was_said_meanwhile_stands_below_the_result_of_a_call() -> None:
    assert await playing().call("look", {}) == f"{RESULT}\n{WORDS}"


async def test_our_own_agent_gets_it_apart_as_a_turn_of_the_user() -> None:
    episode = playing()
    episode.words_apart = True
    assert await episode.call("look", {}) == RESULT
    assert (list(episode.take_words()), list(episode.take_words())) == ([WORDS], [])
