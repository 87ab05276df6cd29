"""Worlds as Gymnasium environments: its own checker passes, in vectors too, and text means what it says."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from wardian.envs.action import ToolCalls
from wardian.envs.worlds.routing.exact import always, value_of
from wardian.envs.worlds.routing.model import Move, Parameters
from wardian.rollouts.inference.reading import read_text
from wardian.tools.completions import CallFormat
from wardian.tools.contract import ToolCall
from wardian.trainers.gymnasium import ROUTING, TEXT, AnyText
from wardian.trainers.gymnasium.world import written


@pytest.fixture
def routing() -> Iterator[gymnasium.Env[Any, Any]]:
    env = gymnasium.make(TEXT, world="routing")
    yield env
    env.close()


@pytest.mark.parametrize(("name", "options"), [(ROUTING, {}), *((TEXT, {"world": world}) for world in ("routing", "toy", "billing"))])
def test_gymnasiums_own_check_passes(name: str, options: dict[str, Any]) -> None:
    """Its warnings are errors here."""
    env = gymnasium.make(name, **options)
    try:
        check_env(env.unwrapped)
    finally:
        env.close()


VECTORS = """
import gymnasium
envs = gymnasium.make_vec("wardian.trainers.gymnasium:wardian/Routing-v0", num_envs=2, vectorization_mode="{mode}")
print(envs.reset(seed=3)[0].tolist())
seen, rewards, terminated, truncated, _ = envs.step(envs.action_space.sample())
print(seen.shape, rewards.shape, terminated.dtype, truncated.any())
envs.close()
"""


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_routing_runs_in_vectors(mode: str) -> None:
    """In a process of its own: workers of `async` are forks."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", VECTORS.format(mode=mode)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[[0, 0], [0, 0]]\n(2, 2) (2,) bool False\n", "")


def test_text_runs_in_vectors() -> None:
    envs = gymnasium.make_vec(TEXT, num_envs=2, vectorization_mode="sync", world="routing")
    try:
        first, info = envs.reset(seed=3)
        assert all(text.startswith("# Task") for text in first)
        assert len(set(info["task_id"])) == 2
        _, rewards, terminated, _, _ = envs.step(('{"name": "escalate", "arguments": {}}',) * 2)
        assert (rewards.tolist(), terminated.tolist()) == ([-0.5, -0.5], [True, True])
    finally:
        envs.close()


def test_routing_is_worth_what_is_computed() -> None:
    env = gymnasium.make(ROUTING)
    env.reset(seed=11)
    total, episodes = 0.0, 4000
    for _ in range(episodes):
        env.reset()
        done = False
        while not done:
            _, reward, terminated, truncated, info = env.step(Move.CHEAP)
            total += float(reward)
            done = terminated or truncated
            assert terminated == info["accepted"]
    assert total / episodes == pytest.approx(value_of(Parameters(), always(Move.CHEAP)), abs=0.03)


def test_routing_takes_its_numbers_and_refuses_others() -> None:
    env = gymnasium.make(ROUTING, cheap_success=1.0, hard_share=0.0, cheap_cost=0.25)
    env.reset(seed=1)
    assert env.step(0)[1] == 0.75
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.unwrapped.step(0)
    with pytest.raises(TypeError, match="price"):
        gymnasium.make(ROUTING, price=1)


def test_a_named_task_is_played_and_an_answer_says_how_it_ended(routing: gymnasium.Env[Any, Any]) -> None:
    _, info = routing.reset(options={"task_id": "model-routing/hard/seed-5", "seed": 4})
    assert (info["task_id"], info["seed"]) == ("model-routing/hard/seed-5", 4)
    assert [tool["function"]["name"] for tool in info["tools"]] == ["ask_model", "escalate"]
    text, reward, terminated, truncated, info = routing.step("I cannot help.")
    assert (reward, terminated, truncated) == (0, True, False)
    assert (info["end_cause"], info["succeeded"]) == ("message", False)
    assert "delivered" in text


def test_output_that_is_no_call_is_answered(routing: gymnasium.Env[Any, Any]) -> None:
    routing.reset(seed=1)
    text, _, terminated, _, _ = routing.step('{"name": "ask_model", "arguments": ')
    assert '"status": "malformed_call"' in text
    assert not terminated


def test_an_environment_opens_again_after_close(routing: gymnasium.Env[Any, Any]) -> None:
    one, _ = routing.reset(seed=7)
    routing.close()
    routing.close()
    assert routing.reset(seed=7)[0] == one


@pytest.mark.parametrize("form", list(CallFormat))
def test_what_is_written_is_read_as_the_same_call(form: CallFormat) -> None:
    read = read_text(written(ToolCalls((ToolCall("ask_model", {"model": "cheap"}),)), form), form)
    assert isinstance(read, ToolCalls)
    (one,) = read.calls
    assert (one.tool, json.loads(one.args) if isinstance(one.args, str) else one.args) == ("ask_model", {"model": "cheap"})


def test_any_text_is_in_the_space_up_to_its_length() -> None:
    space = AnyText(3, lambda rng: "abc"[: int(rng.integers(4))], seed=1)
    assert "\u00e9\n" in space
    assert "long" not in space
    assert 3 not in space
    assert space.sample() in space
    assert space == AnyText(3, str)
