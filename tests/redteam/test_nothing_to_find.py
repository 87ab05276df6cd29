"""An agent finds nothing of its verifier: no file in its cell, no tool, and no word of a verdict in what it sees."""

import pytest

from tests.redteam.conftest import Opened
from wardian.envs.action import Message, call
from wardian.envs.registry import known_worlds, load_world

pytestmark = pytest.mark.anyio
TASK = "billing-dispute/easy/seed-1"
NAMES = ("*verif*", "*solution*", "*reward*", "*attacks*", "reference.*", "conftest.py", "test_outputs.py", "test.sh", "oracle")
OURS = ("verif", "scor", "judg", "reward", "grade")


def test_no_tool_asks_for_a_verdict() -> None:
    names = [tool.name for name in known_worlds() for tool in load_world(name).tools]
    assert [name for name in names if any(word in name for word in OURS)] == []


async def test_the_cell_holds_nothing_of_the_verifier(opened: Opened) -> None:
    found = " -o ".join(f"-name '{name}'" for name in NAMES)
    async with opened(load_world("billing")) as (env, _):
        await env.reset(TASK)
        looked = await env.step(call("shell", command=f"find / -xdev \\( {found} \\) -not -path '/usr/*' -not -path '/proc/*' 2>/dev/null"))
        there = await env.step(call("shell", command="ls -d /tests /solution /logs /oracle 2>/dev/null; true"))
        assert [step.observation.results[0]["result"]["stdout"] for step in (looked, there)] == ["", ""]


async def test_the_last_observation_says_nothing_of_the_verdict(opened: Opened) -> None:
    world = load_world("toy")
    async with opened(world) as (env, _):
        await env.reset("lending-desk/easy/seed-1")
        last = await env.step(Message("All requests are done."))
        assert last.info.verdict is not None
        assert not [check.name for check in last.info.verdict.checks if check.detail and check.detail in last.observation.rendered]
        assert not [word for word in OURS if word in last.observation.rendered]
