"""Model routing: costs at the call, how episodes end, what is hidden, and what it is worth exactly."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from random import Random

import pytest

from wardian.envs.action import Malformed, Message, call
from wardian.envs.environment import ToolEnvironment
from wardian.envs.registry import load_world, open_environment
from wardian.envs.reward import RewardSpec
from wardian.envs.task import Difficulty
from wardian.envs.worlds.routing.exact import always, at_random, best_by_belief, best_by_observation, states, value_of
from wardian.envs.worlds.routing.model import Move, Parameters, Query

WORLD = load_world("routing")
CHEAP, STRONG, ESCALATE = call("ask_model", model="cheap"), call("ask_model", model="strong"), call("escalate")
TASK = "model-routing/easy/seed-1"


@pytest.fixture
async def env(anyio_backend: str) -> AsyncIterator[ToolEnvironment]:
    async with open_environment(WORLD) as opened:
        yield opened


def outcomes(*draws: float) -> Iterator[float]:
    """The first one makes the query hard below 0.4; each later one is an answer's luck."""
    return iter(draws)


def test_an_accepted_answer_terminates_and_its_call_is_charged() -> None:
    moved = Query(Parameters(), outcomes(0.9, 0.54).__next__).move(Move.CHEAP)
    assert moved.reward == pytest.approx(0.98)
    assert (moved.terminated, moved.truncated) == (True, False)


def test_a_hard_query_halves_both_chances() -> None:
    draws = 0.39, 0.28, 0.46, 0.44
    query = Query(Parameters(), outcomes(*draws).__next__)
    moved = [query.move(move) for move in (Move.CHEAP, Move.STRONG, Move.STRONG)]
    assert [one.accepted for one in moved] == [False, False, True]
    assert [one.reward for one in moved] == pytest.approx([-0.02, -0.20, 0.80])
    assert query.seen == (1, 1)


def test_the_last_rejected_attempt_truncates_and_an_escalation_terminates() -> None:
    query = Query(Parameters(), outcomes(0.9, 0.99, 0.99, 0.99).__next__)
    assert [(one.terminated, one.truncated) for one in (query.move(Move.CHEAP) for _ in range(3))] == [(False, False)] * 2 + [(False, True)]
    moved = Query(Parameters(), outcomes(0.9).__next__).move(Move.ESCALATE)
    assert (moved.reward, moved.accepted, moved.terminated) == (-0.5, False, True)


def test_the_figures_that_are_known() -> None:
    p = Parameters()
    assert best_by_belief(p) == pytest.approx(0.7746625)
    assert best_by_observation(p).value == pytest.approx(best_by_belief(p), abs=1e-12)
    assert value_of(p, always(Move.CHEAP)) == pytest.approx(0.75505875)
    assert value_of(p, always(Move.ESCALATE)) == -0.5


@pytest.mark.parametrize("number", range(20))
def test_three_ways_to_the_optimum_agree(number: int) -> None:
    rng = Random(number)
    shares = {name: rng.random() for name in ("cheap_success", "strong_success", "hard_factor", "hard_share")}
    p = Parameters(cheap_cost=rng.random() / 5, strong_cost=rng.random() / 2, attempts=rng.randint(1, 5), **shares)
    best = best_by_observation(p)
    assert best.value == pytest.approx(best_by_belief(p), abs=1e-9)
    assert best.value == pytest.approx(value_of(p, lambda seen: {best.move(seen): 1.0}), abs=1e-9)
    assert value_of(p, at_random) <= best.value + 1e-9
    assert len(states(p)) == p.attempts * (p.attempts + 1) // 2


def test_an_exact_value_is_the_mean_of_what_happens() -> None:
    p, rng, total = Parameters(), Random(5), 0.0
    for _ in range(20_000):
        query = Query(p, rng.random)
        while True:
            moved = query.move(Move.STRONG)
            total += moved.reward
            if moved.terminated or moved.truncated:
                break
    assert total / 20_000 == pytest.approx(value_of(p, always(Move.STRONG)), abs=0.015)


@pytest.mark.parametrize(("name", "value"), [("cheap_success", 1.1), ("hard_share", -0.1), ("attempts", 0)])
def test_numbers_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        replace(Parameters(), **{name: value})  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_tools_charge_at_the_call_and_end_as_the_numbers_say(env: ToolEnvironment) -> None:
    ends = set()
    for seed in range(40):
        await env.reset(TASK, seed)
        for number in range(3):
            step = await env.step(CHEAP)
            assert step.reward_components["cheap_call"] == -0.02
            accepted = step.observation.results[0]["result"]["accepted"]
            assert (step.terminated, step.truncated) == (accepted, number == 2 and not accepted)
            assert step.reward == pytest.approx(0.98 if accepted else -0.02)
            if step.done:
                ends.add((step.info.end_cause, bool(step.info.verdict and step.info.verdict.succeeded)))
                break
    assert ends == {("accepted", True), ("steps", False)}


@pytest.mark.anyio
async def test_an_escalation_terminates_and_is_no_success(env: ToolEnvironment) -> None:
    await env.reset(TASK)
    step = await env.step(ESCALATE)
    assert (step.terminated, step.truncated, step.reward, step.info.end_cause) == (True, False, -0.5, "escalated")
    assert step.info.verdict is not None
    assert not step.info.verdict.succeeded


@pytest.mark.anyio
async def test_what_is_no_call_is_a_turn_and_charges_nothing(env: ToolEnvironment) -> None:
    await env.reset(TASK)
    assert (await env.step(Malformed("?", "no call"))).reward == 0
    step = await env.step(Message("I give up."))
    assert (step.terminated, step.reward) == (True, 0)


@pytest.mark.anyio
async def test_nothing_that_an_agent_is_given_shows_whether_the_query_is_hard(env: ToolEnvironment) -> None:
    """Two episodes of one task look alike until an answer, of either kind: the task does not hold what the episode draws."""
    first = {(await env.reset(TASK, seed)).rendered for seed in range(8)}
    assert len(first) == 1
    answers = set()
    for seed in range(30):
        await env.reset(TASK, seed)
        step = await env.step(STRONG)
        answers.add(step.observation.rendered)
    assert answers == {f'{{"status": "ok", "result": {{"model": "strong", "accepted": {word}}}}}' for word in ("true", "false")}


@pytest.mark.anyio
async def test_difficulties_are_labels(env: ToolEnvironment) -> None:
    rates = {level: await _accepted(env, level) for level in Difficulty}
    assert all(rate == pytest.approx(0.72, abs=0.15) for rate in rates.values()), rates


async def _accepted(env: ToolEnvironment, level: Difficulty) -> float:
    accepted = 0
    for seed in range(80):
        await env.reset(f"model-routing/{level.value}/seed-{seed}")
        accepted += (await env.step(STRONG)).terminated
    return accepted / 80


def test_rewards_for_effects_are_named_apart() -> None:
    assert RewardSpec(effects={"call": -0.25}).costs(2, 0, ["call", "other", "call"])["call"] == -0.5
    with pytest.raises(ValueError, match="effects: 'task'"):
        RewardSpec(effects={"task": 1.0})
    with pytest.raises(ValueError, match="name of a check too"):
        RewardSpec(checks={"report": 1.0}, effects={"report": 1.0})
