"""An exported world under the real `vf-eval`: one run in which a model acts in every way there is, told by verifiers and by the server."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.trainers.endpoints import endpoint
from tests.trainers.serving import FAULTY, served
from tests.trainers.worlds import TOOLS
from wardian.rollouts.chat import opening
from wardian.tools.schemas import openai_schema

from .conftest import KEY, counted, episodes_in
from .player import RECOVERS, Player, way_of

SOLVES = ("reference", "all-at-once", *RECOVERS)
SCORED = (*SOLVES, "wrong", "idle", "injects", "fails", "slow", "dawdles", "unreadable")
WAYS = (*SCORED, "too-slow", "breaks-us")
SEATS = 4
"""Leases that the server gives at once: fewer than there are rollouts at once."""


class Evaluated(NamedTuple):
    traces: dict[str, dict[str, Any]]
    """By the way in which its model acted."""
    ok: dict[str, bool]
    """Of its episode."""
    counters: dict[str, Any]
    player: Player
    printed: str


@pytest.fixture(scope="module")
def evaluated(exported: Callable[[str], Path], tool: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evaluated]:
    package, out, player = exported(FAULTY), tmp_path_factory.mktemp("out"), Player(WAYS)
    with served(FAULTY, "--step-s", "2", "--sessions", str(SEATS)) as url, endpoint(player) as model:
        words = ["--model", "m", "--client.base-url", model, "--client.api-key-var", KEY, "--env.taskset.url", url]
        amount = ["--num-rollouts", "1", "--select.limit", str(len(WAYS)), "--max-concurrent", str(2 * SEATS)]
        printed = tool("vf-eval", "@", str(package / "eval.toml"), *words, *amount, "--no-rich", cwd=out)
        episodes = episodes_in(out)
        traces = {way_of(first_said(episode["traces"][0])): episode["traces"][0] for episode in episodes}
        ok = {way_of(first_said(episode["traces"][0])): episode["ok"] for episode in episodes}
        yield Evaluated(traces, ok, counted(url), player, printed)


def first_said(trace: dict[str, Any]) -> str:
    return str(next(node["message"]["content"] for node in trace["nodes"] if node.get("sampled")))


def rewards(trace: dict[str, Any]) -> float | None:
    found = trace["rewards"]["reward"]
    return None if found is None else found["score"]


def told(trace: dict[str, Any]) -> list[str]:
    """What the model read after its first turn."""
    return [node["message"]["content"] for node in trace["nodes"] if node["message"]["role"] in ("tool", "user")][1:]


def test_every_rollout_ended_and_every_lease_was_closed(evaluated: Evaluated) -> None:
    assert sorted(evaluated.traces) == sorted(WAYS)
    found = evaluated.counters
    assert (found["sessions_opened"], found["sessions_closed"], found["sessions_open"]) == (len(WAYS), len(WAYS), 0)
    assert (found["resets"], found["closed"], found["failed"]) == (len(WAYS), {"caller": len(WAYS)}, {"infrastructure": 1, "timeout": 1})


def test_every_call_came_to_the_world_once(evaluated: Evaluated) -> None:
    """Those too that the harness could not make."""
    found = dict(evaluated.counters["calls"])
    asked = [trace for way, trace in evaluated.traces.items() if way in SOLVES]
    wanted = [int(re.findall(r"(\d) times", trace["nodes"][1]["message"]["content"])[0]) for trace in asked]
    assert found.pop("echo ok") == sum(wanted) + 1 + 1 + 6  # and the wrong word, the injected one, and those of the one that dawdles
    assert found == {
        "(unknown) malformed_call": 2,
        "echo malformed_call": 8,
        "echo invalid_arguments": 1,
        "fail conflict": 1,
        "(unknown) unknown_tool": 1,
        "slow ok": 1,
    }


def test_the_model_sees_our_schemas_as_they_are(evaluated: Evaluated) -> None:
    assert [first["tools"] for first in evaluated.player.firsts] == [[openai_schema(one) for one in TOOLS]] * len(WAYS)


def test_the_chat_begins_as_every_chat_of_ours(evaluated: Evaluated) -> None:
    system, user = evaluated.player.firsts[0]["messages"]
    rendered = f"# Task\n\n{user['content']}\n\n{system['content']}\n"
    assert opening(rendered) == [system, user]


@pytest.mark.parametrize("way", SCORED)
def test_reward_and_success_are_the_worlds(evaluated: Evaluated, way: str) -> None:
    trace = evaluated.traces[way]
    steps, success = trace["metrics"]["steps"], float(way in SOLVES)
    assert (evaluated.ok[way], trace["metrics"]["success"]) == (True, success)
    cost = trace["metrics"]["component_step_cost"]
    assert rewards(trace) == pytest.approx(success + cost)
    assert (trace["metrics"]["component_task"], cost < 0, steps > 0, trace["metrics"]["tokens"] > 0) == (success, True, True, True)


@pytest.mark.parametrize(("way", "cause"), [("dawdles", "steps"), ("unreadable", "invalid_streak")])
def test_a_truncated_episode_is_scored_with_its_cause(evaluated: Evaluated, way: str, cause: str) -> None:
    trace = evaluated.traces[way]
    assert (trace["metrics"]["truncated"], trace["info"]["wardian"]["end_cause"], trace["stop_condition"]) == (1.0, cause, "episode_over")
    assert rewards(trace) == pytest.approx(-0.06)


@pytest.mark.parametrize(("way", "kind"), [("breaks-us", "infrastructure"), ("too-slow", "timeout")])
def test_an_unscored_episode_is_not_ok_and_has_no_reward(evaluated: Evaluated, way: str, kind: str) -> None:
    trace = evaluated.traces[way]
    assert (evaluated.ok[way], trace["ok"], rewards(trace), trace["info"]["wardian"]["failure_kind"]) == (False, False, None, kind)
    assert trace["errors"][-1]["type"] == "TaskError"
    assert f"Unscored: {kind}: " in trace["errors"][-1]["message"]
    assert "broken on request" not in "".join(told(trace))


@pytest.mark.parametrize(
    ("way", "status", "count"),
    [
        ("unknown-tool", "unknown_tool", 1),
        ("wrong-type", "invalid_arguments", 1),
        ("no-object", "malformed_call", 1),
        ("unreadable", "malformed_call", 6),
        ("cut-call", "malformed_call", 1),
        ("cut-off", "malformed_call", 1),
        ("thinks", "malformed_call", 1),
        ("fails", "conflict", 1),
    ],
)
def test_an_invalid_turn_is_answered_in_the_worlds_words_and_counted(evaluated: Evaluated, way: str, status: str, count: int) -> None:
    trace = evaluated.traces[way]
    assert told(trace)[0].startswith(f'{{"status": "{status}", "error": ')
    assert {name: value for name, value in trace["metrics"].items() if name.startswith("errors_")} == {f"errors_{status}": count}


def test_what_a_tool_says_is_text_and_ends_no_turn(evaluated: Evaluated) -> None:
    assert {type(text) for trace in evaluated.traces.values() for text in told(trace)} == {str}
    assert "You may stop." in told(evaluated.traces["injects"])[0]
    assert not [mark for mark in ("<|im_end|>", "<|im_start|>", "<tool_call>") if mark in told(evaluated.traces["injects"])[0]]
