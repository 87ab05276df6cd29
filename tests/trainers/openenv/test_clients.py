"""The real clients of openenv play episodes, and the server counts what they did."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import MCPToolClient

from wardian.tools.schemas import openai_schema

from ..worlds import TOOLS
from .conftest import SESSIONS, STEP_S, TOKEN, Ask

TASK = "echoes/easy/seed-0"
Counted = Callable[[], dict[str, Any]]
pytestmark = pytest.mark.anyio


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "call_tool", "tool_name": tool, "arguments": arguments}


SAY = {"type": "message", "text": "Done."}


def word_in(observation: dict[str, Any]) -> str:
    return str(observation["text"].split("Echo the word ")[1].split(",")[0])


async def test_an_episode_from_task_to_verdict(url: str, counted: Counted) -> None:
    async with GenericEnvClient(base_url=url) as env:
        first = await env.reset(task_id=TASK, seed=5, episode_id="mine")
        begun = await env.state()
        refused = await env.step(call("fail"))
        echoed = await env.step({"type": "tool_calls", "calls": [{"tool": "echo", "arguments": {"text": word_in(first.observation)}}]})
        last = await env.step(SAY)
        ended = await env.state()
    assert (first.reward, first.done, first.metadata["task_id"]) == (None, False, TASK)
    assert {one["function"]["name"] for one in first.observation["tool_schemas"]} == {"echo", "fail", "slow", "breaks_us"}
    assert (begun["episode_id"], begun["step_count"], begun["seed"]) == ("mine", 0, 5)
    assert refused.observation["results"] == [{"status": "conflict", "error": "refused on request: conflict"}]
    assert (echoed.reward, echoed.done) == (-0.01, False)
    assert (last.reward, last.done, last.metadata["succeeded"], last.metadata["terminated"]) == (0.99, True, True, True)
    assert (ended["step_count"], ended["done"]) == (3, True)
    found = counted()
    assert (found["resets"], found["steps"], found["calls"]) == (1, 3, {"echo ok": 1, "fail conflict": 1})


def test_the_same_without_await(url: str, counted: Counted) -> None:
    with GenericEnvClient(base_url=url).sync() as env:
        first = env.reset(task_id=TASK)
        env.step(call("echo", text=word_in(first.observation)))
        last = env.step(SAY)
    assert (last.reward, last.done) == (0.99, True)
    assert counted()["calls"] == {"echo ok": 1}


async def test_what_we_break_has_no_reward(url: str, counted: Counted) -> None:
    async with GenericEnvClient(base_url=url) as env:
        await env.reset(task_id=TASK)
        broken = await env.step(call("breaks_us"))
        with pytest.raises(RuntimeError, match="reset"):
            await env.step(SAY)
        assert (await env.reset(task_id=TASK)).done is False
    assert (broken.reward, broken.done, broken.metadata["failure_kind"], broken.metadata["mask"]) == (None, True, "infrastructure", 0)
    assert counted()["failed"] == {"infrastructure": 1}


async def test_a_budget_truncates(url: str, counted: Counted) -> None:
    async with GenericEnvClient(base_url=url) as env:
        await env.reset(task_id=TASK)
        for _ in range(6):
            last = await env.step(call("fail"))
    assert (last.done, last.metadata["truncated"], last.metadata["end_cause"], last.metadata["failure_kind"]) == (True, True, "steps", None)
    assert counted()["calls"] == {"fail conflict": 6}


async def test_a_slow_step_is_answered_in_time_and_replies_stay_in_step(url: str, counted: Counted) -> None:
    async with GenericEnvClient(base_url=url, message_timeout_s=STEP_S + 30) as env:
        await env.reset(task_id=TASK)
        with pytest.raises(RuntimeError, match=r"longer than 1 s.*EXECUTION_ERROR"):
            await env.step(call("slow", seconds=500))
        with pytest.raises(RuntimeError, match="reset"):
            await env.step(call("echo", text="too late"))
        await env.reset(task_id=TASK)
        assert (await env.step(call("slow", seconds=0.2))).observation["result"]["data"]["result"] == {"slept_s": 0.2}
        assert (await env.step(call("echo", text="mine"))).observation["result"]["data"]["result"] == {"texts": ["mine"]}
    assert counted()["failed"] == {"timeout": 1}


async def test_a_client_that_gives_up_first_begins_anew_and_leaves_nothing(url: str, counted: Counted) -> None:
    async with GenericEnvClient(base_url=url, message_timeout_s=0.2) as env:
        await env.reset(task_id=TASK)
        with pytest.raises(asyncio.TimeoutError):
            await env.step(call("slow", seconds=0.8))
        with pytest.raises(RuntimeError, match="reset"):
            await env.step(call("echo", text="whose?"))
        await env.reset(task_id=TASK)
        assert (await env.step(call("echo", text="mine"))).observation["results"][0]["result"] == {"texts": ["mine"]}
    assert counted()["sessions_opened"] == 2


async def test_capacity_is_an_answer(url: str, counted: Counted) -> None:
    clients = [GenericEnvClient(base_url=url) for _ in range(SESSIONS)]
    try:
        for client in clients:
            await client.connect()
            await client.reset(task_id=TASK)
        late = GenericEnvClient(base_url=url)
        with pytest.raises(RuntimeError, match="CAPACITY_REACHED"):
            await late.reset(task_id=TASK)
        await clients.pop().close()
        await late.disconnect()
        assert (await late.reset(task_id=TASK)).done is False
        clients.append(late)
    finally:
        for client in clients:
            await client.close()
    assert counted()["resets"] == SESSIONS + 1


async def test_wrong_messages_are_answered_and_the_socket_goes_on(url: str, counted: Counted) -> None:
    async with GenericEnvClient(base_url=url) as env:
        for wrong, code in (({"split": "heldout", "index": 0}, "VALIDATION_ERROR"), ({"task_id": "none"}, "VALIDATION_ERROR")):
            with pytest.raises(RuntimeError, match=code):
                await env.reset(**wrong)
        with pytest.raises(RuntimeError, match="EXECUTION_ERROR"):
            await env.step(SAY)
        await env.reset(task_id=TASK)
        with pytest.raises(RuntimeError, match=r"tool_name.*VALIDATION_ERROR"):
            await env.step({"type": "call_tool"})
        assert (await env.step(SAY)).done
    assert counted()["steps"] == 1


async def test_a_world_that_is_not_served_is_named_before_anything_is_played(url: str, counted: Counted) -> None:
    async with GenericEnvClient(base_url=f"{url}/nowhere") as env:
        with pytest.raises(RuntimeError, match=r"'nowhere'.*faulty"):
            await env.reset(task_id=TASK)
    assert counted()["sessions_opened"] == 0


async def test_tools_over_http_and_steps_over_the_socket_are_one_session(url: str, counted: Counted) -> None:
    async with MCPToolClient(base_url=url) as env:
        tools = {tool.name: tool.input_schema for tool in await env.list_tools()}
        first = await env.reset(task_id=TASK)
        said = await env.call_tool("echo", text=word_in({"text": first.observation.text}))
        refused = await env.call_tool("fail")
        stepped = await env.step(CallToolAction(tool_name="fail", arguments={"status": "not_found"}))
        state = await env.state()
        await env.disconnect()
        unknown = await env.call_tool("no_such_tool")
        await env.connect()
        again = await env.state()
        with pytest.raises(RuntimeError, match="broken on request"):
            await env.call_tool("breaks_us")
    functions = [openai_schema(tool)["function"] for tool in TOOLS]
    assert tools == {one["name"]: one["parameters"] for one in functions}
    assert (said["status"], refused["status"], unknown["status"]) == ("ok", "conflict", "unknown_tool")
    assert isinstance(stepped.observation, CallToolObservation)
    assert (stepped.observation.error, stepped.observation.result["data"]["status"]) == (None, "not_found")
    assert (state.step_count, again.step_count) == (3, 4)
    found = counted()
    assert (found["sessions_opened"], found["resets"], found["steps"], found["failed"]) == (1, 1, 5, {"infrastructure": 1})


async def test_a_lease_has_one_socket(url: str, counted: Counted, ask: Ask) -> None:
    async with MCPToolClient(base_url=url) as env:
        state = await env.reset(task_id=TASK)
        name = env._production_session_id
        assert name is not None
        assert state.done is False
        second = MCPToolClient(base_url=url)
        second._production_session_id = name
        with pytest.raises(RuntimeError, match="socket already"):
            await second.state()
        second._production_session_id = None
        await second.close()
        assert (await env.state()).step_count == 0
    assert counted()["sessions_opened"] == 1


async def test_a_state_can_be_injected(url: str, counted: Counted, ask: Ask) -> None:
    async with MCPToolClient(base_url=url) as env:
        first = await env.reset(task_id=TASK)
        await env.call_tool("echo", text=word_in({"text": first.observation.text}))
        status, kept = ask(f"{url}/sessions/{env._production_session_id}/snapshot", {})
        await env.call_tool("echo", text="one too many")
        assert status == 200
        await env.reset(injected_state={"snapshot": kept["snapshot"]})
        last = await env.step(GenericAction(SAY))
    assert (last.done, last.reward) == (True, 0.99)
    assert counted()["resets"] == 2


class GenericAction:
    """What a tool client sends as it is."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def model_dump(self) -> dict[str, Any]:
        return self._fields


async def test_equal_seeds_give_equal_episodes_and_others_do_not(guarded: str) -> None:
    async with GenericEnvClient(base_url=guarded, headers={"Authorization": f"Bearer {TOKEN}"}) as env:

        async def played(seed: int) -> list[Any]:
            await env.reset(task_id=TASK, seed=seed)
            return [(await env.step(call("echo", text="amber"))).observation["text"] for _ in range(5)]

        runs = {seed: await played(seed) for seed in range(8)}
        assert {seed: await played(seed) for seed in range(8)} == runs
        assert len({tuple(run) for run in runs.values()}) > 1


async def test_a_token_is_asked_for(guarded: str) -> None:
    async with GenericEnvClient(base_url=guarded) as env:
        with pytest.raises(RuntimeError, match="NOT_AUTHORIZED"):
            await env.reset(task_id=TASK)
    with pytest.raises(RuntimeError, match="token"):
        await MCPToolClient(base_url=guarded).connect()
    async with MCPToolClient(base_url=guarded, headers={"Authorization": f"Bearer {TOKEN}"}) as tools:
        assert len(await tools.list_tools()) == 4
