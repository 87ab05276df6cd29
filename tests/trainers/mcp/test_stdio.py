"""`wardian mcp` over stdin and stdout, with a real client: whole episodes, and what stands of them in the trajectory."""

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest

from wardian.envs.registry import load_world
from wardian.rollouts.records import EpisodeEnd, EpisodeStart, StepRecord
from wardian.rollouts.trajectory import TrajectoryLog
from wardian.tools.schemas import openai_schema

Connect = Callable[..., AbstractAsyncContextManager[Any]]
pytestmark = pytest.mark.anyio


def played(out: Path) -> tuple[list[str], EpisodeEnd]:
    """The tools and messages of the one episode, in order, and its end."""
    log = TrajectoryLog.open(out)
    (name,) = {*log.episodes, *log.ends}
    records = log.records(name)
    (end,) = [record for record in records if isinstance(record, EpisodeEnd)]
    return [record.action.tool or f"said {record.action.text}" for record in records if isinstance(record, StepRecord)], end


async def test_an_episode_is_played_to_success(connect: Connect, mode: str, command: Sequence[str], tmp_path: Path) -> None:
    async with connect(mode, command=command) as client:
        tools = await client.tools()
        task = (await client.call("read_task")).texts[0]
        word = task.split("Echo the word ")[1].split(",")[0]
        refused = await client.call("fail", status="not_found")
        unknown = await client.call("no_such_tool")
        said = await client.calls(("slow", {"seconds": 0.3}), ("echo", {"text": word}))
        unsaid = await client.call("send_message", words="Done.")
        last = await client.call("send_message", text="Done.")
        after = await client.call("echo", text=word)
    functions = [openai_schema(tool)["function"] for tool in load_world("worlds:faulty").tools]
    assert {name: tools[name]["schema"] for name in tools if name not in ("send_message", "read_task")} == {
        one["name"]: one["parameters"] for one in functions
    }
    assert (refused.is_error, refused.structured) == (True, {"status": "not_found", "error": "refused on request: not_found"})
    assert json.loads(refused.texts[0]) == refused.structured
    assert (unknown.is_error, unknown.structured["status"]) == (True, "unknown_tool")
    assert [one.structured["result"] for one in said] == [{"slept_s": 0.3}, {"texts": [word]}]
    assert (unsaid.is_error, unsaid.structured["status"], last.is_error) == (True, "malformed_call", False)
    assert (last.structured["episode_over"], last.texts[1]) == (True, "The episode is over (message). Stop.")
    assert (after.is_error, after.texts) == (True, ["The episode is over (message). This call did nothing. Stop."])
    actions, end = played(tmp_path / "out")
    assert actions == ["fail", "no_such_tool", "slow", "echo", "said None", "said Done."]
    assert (end.succeeded, end.policy, end.policy_checkpoint) == (True, "mcp", "agent-1")


async def test_an_episode_is_played_on_postgres(connect: Connect, newest: str, command: Sequence[str], tmp_path: Path) -> None:
    async with connect(newest, command=[*command, "--db", "postgres"]) as client:
        word = client.instructions.split("Echo the word ")[1].split(",")[0]
        assert (await client.call("echo", text=word)).structured["result"] == {"texts": [word]}
        await client.call("send_message", text="Done.")
    (name,) = (log := TrajectoryLog.open(tmp_path / "out")).episodes
    start = log.records(name)[0]
    assert isinstance(start, EpisodeStart)
    assert start.versions.database == "postgres"
    assert played(tmp_path / "out")[1].succeeded


async def test_the_task_is_there_for_every_kind_of_program(connect: Connect, newest: str, command: Sequence[str], tmp_path: Path) -> None:
    """Also: a program that does nothing and leaves is not judged."""
    async with connect(newest, command=command) as client:
        told = client.instructions
        seen = [await client.prompt("task"), await client.resource("wardian://episode/task"), *(await client.call("read_task")).texts]
    assert "Echo the word" in told
    assert "Do what you are asked" in told
    assert "`send_message`" in told
    assert seen == [told] * 3
    actions, end = played(tmp_path / "out")
    assert (actions, end.outcome, end.mask) == ([], "cancelled", 0)


async def test_a_budget_that_ends_it_is_said(connect: Connect, command: Sequence[str], tmp_path: Path) -> None:
    async with connect("legacy", command=command) as client:
        answers = [await client.call("echo", text=f"text {number}") for number in range(7)]
    assert [one.is_error for one in answers] == [False] * 6 + [True]
    assert answers[5].texts[1] == "The episode is over (steps). Stop."
    actions, end = played(tmp_path / "out")
    assert (len(actions), end.outcome, end.end_cause, end.mask) == (6, "truncated", "steps", 1)


async def test_what_we_break_is_an_error_of_the_protocol(connect: Connect, newest: str, command: Sequence[str], tmp_path: Path) -> None:
    async with connect(newest, command=command) as client:
        await client.call("echo", text="amber")
        problems = []
        for tool in ("breaks_us", "echo"):
            with pytest.raises(Exception, match="over and not scored") as caught:
                await client.call(tool)
            problems.append(caught.value.data)  # type: ignore[attr-defined]
    assert problems == [{"episode_over": True, "scored": False, "failure_kind": "infrastructure"}] * 2
    _, end = played(tmp_path / "out")
    assert (end.outcome, end.end_cause, end.reward, end.mask) == ("failed", "infrastructure", None, 0)


async def test_a_client_that_leaves_is_judged_by_what_it_did(connect: Connect, command: Sequence[str], tmp_path: Path) -> None:
    """And a call that it gave up waiting for was carried out."""
    async with connect("legacy", command=command) as client:
        word = client.instructions.split("Echo the word ")[1].split(",")[0]
        with anyio.move_on_after(0.2):
            await client.call("slow", seconds=0.4)
        await client.call("echo", text=word)
    actions, end = played(tmp_path / "out")
    assert (actions, end.succeeded) == (["slow", "echo", "said "], True)
