"""Tokens are counted by a named object; the default says that it estimates."""

from collections.abc import Callable
from typing import TypeAlias

import pytest

from wardian.envs.action import call
from wardian.envs.environment import ToolEnvironment
from wardian.envs.errors import TaskError
from wardian.envs.observation import schema_tokens
from wardian.envs.tokens import ESTIMATE, Tokenizer, load_tokenizer

pytestmark = pytest.mark.anyio
MakeEnv: TypeAlias = Callable[..., ToolEnvironment]
TASK = "lending-desk/easy/seed-1"


def words() -> Tokenizer:
    return Tokenizer("words", "3", lambda text: len(text.split()))


def wordy(seen: str) -> Tokenizer:
    return words()


def nothing() -> None:
    return None


def test_the_default_estimates_a_quarter_of_the_bytes_and_says_so() -> None:
    assert [ESTIMATE.count(text) for text in ("", "abcd", "abcde", "ëëë", "\ud800")] == [0, 1, 2, 2, 1]
    assert (ESTIMATE.label, ESTIMATE.estimates, load_tokenizer("estimate")) == ("estimate@1", True, ESTIMATE)


def test_one_of_your_own_is_named_and_knows_how_to_be_made_again() -> None:
    found = load_tokenizer(f"{__name__}:words")
    assert (found.label, found.count("a b c"), found.estimates) == ("words@3", 3, False)
    assert load_tokenizer(found.source) == found or load_tokenizer(found.source).label == found.label


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("gpt", "there is estimate"),
        ("no_such_module:words", "cannot be loaded"),
        (f"{__name__}:no_such", "cannot be loaded"),
        (f"{__name__}:TASK", "without arguments"),
        (f"{__name__}:wordy", "without arguments"),
        (f"{__name__}:nothing", "gave NoneType"),
    ],
)
def test_a_tokenizer_that_there_is_not_says_what_is_needed(name: str, why: str) -> None:
    with pytest.raises(TaskError, match=f"^tokenizer: .*{why}"):
        load_tokenizer(name)


@pytest.mark.parametrize("count", [-1, 1.5, True, None])
def test_what_is_no_count_is_refused(count: object) -> None:
    broken = Tokenizer("broken", "1", lambda text: count)  # type: ignore[arg-type,return-value]
    with pytest.raises(TaskError, match="broken@1 gave"):
        broken.count("text")


async def test_prompt_schemas_and_observations_are_counted_by_it(make_env: MakeEnv) -> None:
    async with make_env(tokenizer=words()) as env:
        first = await env.reset(TASK)
        step = await env.step(call("show_item", item_id=101))
        schemas = schema_tokens(env.tool_schemas, words())
        assert schemas == env.reset_info.schema_tokens > 0
        assert (first.tokens, step.observation.tokens) == (len(first.rendered.split()), len(step.observation.rendered.split()))
        assert (await env.snapshot()).spent.tokens == schemas + first.tokens + step.observation.tokens


async def test_a_tokenizer_that_breaks_fails_the_episode_and_is_no_reward(make_env: MakeEnv) -> None:
    counts = iter([5, 5, -1])
    async with make_env(tokenizer=Tokenizer("odd", "1", lambda text: next(counts))) as env:
        await env.reset(TASK)
        step = await env.step(call("show_item", item_id=101))
        assert (step.reward, step.info.end_cause) == (None, "environment")
