"""Episodes of a server's leases over streamable HTTP: an agent program acts with a real client, and the trainer sees what came of it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from wardian.tools.schemas import openai_schema

from ..serving import FAULTY, asked, served
from ..worlds import TOOLS

Connect = Callable[..., AbstractAsyncContextManager[Any]]
pytestmark = pytest.mark.anyio
TASK = "echoes/easy/seed-0"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(FAULTY, "--step-s", "1", "--drain-s", "1") as url:
        yield url


@dataclass
class Lease:
    """What a trainer has in hand."""

    url: str
    name: str
    token: str
    path: str

    @property
    def address(self) -> str:
        return f"{self.url}{self.path}"

    def ask(self, what: str, body: Any = None) -> dict[str, Any]:
        status, reply = asked(f"{self.url}/sessions/{self.name}{what}", body)
        assert status == 200, reply
        return reply  # type: ignore[no-any-return]


@pytest.fixture
def lease(url: str) -> Iterator[Lease]:
    """A lease whose episode has begun. Afterwards the server has as many closed as opened."""
    _, made = asked(f"{url}/sessions", {})
    lease = Lease(url, made["session_id"], made["policy_token"], made["mcp_path"])
    lease.ask("/reset", {"task_id": TASK})
    yield lease
    assert asked(f"{url}/sessions/{lease.name}", method="DELETE") == (200, {"session_id": lease.name, "closed": True})
    counters = asked(f"{url}/counters")[1]
    assert counters["sessions_opened"] == counters["sessions_closed"]


def calls(url: str) -> dict[str, int]:
    return dict(asked(f"{url}/counters")[1]["calls"])


async def test_an_agent_acts_and_the_trainer_sees_it(connect: Connect, mode: str, lease: Lease) -> None:
    """Over two connections, since the episode is that of the address and the token."""
    before = calls(lease.url)
    async with connect(mode, url=lease.address, token=lease.token) as client:
        tools = await client.tools()
        told = client.instructions
        assert [await client.prompt("task"), *(await client.call("read_task")).texts] == [told] * 2
        refused = await client.call("fail", status="not_found")
        both = await client.calls(("slow", {"seconds": 0.3}), ("fail", {}))
    async with connect(mode, url=lease.address, token=lease.token) as client:
        await client.call("echo", text=told.split("Echo the word ")[1].split(",")[0])
        last = await client.call("send_message", text="Done.")
        after = await client.call("echo", text="amber")
    functions = [openai_schema(tool)["function"] for tool in TOOLS]
    assert {name: one["schema"] for name, one in tools.items() if name not in ("send_message", "read_task")} == {
        one["name"]: one["parameters"] for one in functions
    }
    assert (refused.is_error, refused.structured["status"]) == (True, "not_found")
    assert [one.structured["status"] for one in both] == ["ok", "conflict"]
    assert last.structured == {"status": "ok", "result": "Your message was delivered.", "episode_over": True, "end_cause": "message"}
    assert (after.is_error, "over (message)" in after.texts[0]) == (True, True)
    state = lease.ask("")
    assert (state["step_count"], state["done"], state["succeeded"], state["failure_kind"]) == (5, True, True, None)
    assert state["total_reward"] == pytest.approx(0.95)
    found = {name: count - before.get(name, 0) for name, count in calls(lease.url).items()}
    assert {name: count for name, count in found.items() if count} == {
        "fail not_found": 1,
        "fail conflict": 1,
        "slow ok": 1,
        "echo ok": 1,
    }


async def test_a_budget_that_ends_it_is_said(connect: Connect, lease: Lease) -> None:
    async with connect("legacy", url=lease.address, token=lease.token) as client:
        answers = [await client.call("fail") for _ in range(7)]
    assert answers[5].structured["end_cause"] == "steps"
    assert answers[6].texts == ["The episode is over (steps). This call did nothing. Stop."]


@pytest.mark.parametrize(("tool", "arguments", "kind"), [("breaks_us", {}, "infrastructure"), ("slow", {"seconds": 500}, "timeout")])
async def test_what_we_break_is_an_error_of_the_protocol(
    connect: Connect, mode: str, lease: Lease, tool: str, arguments: dict[str, Any], kind: str
) -> None:
    async with connect(mode, url=lease.address, token=lease.token) as client:
        problems = []
        for name, given in ((tool, arguments), ("fail", {})):
            with pytest.raises(Exception, match="over and not scored") as caught:
                await client.call(name, **given)
            problems.append(caught.value.data)  # type: ignore[attr-defined]
        state = lease.ask("")
        assert (state["failure_kind"], state["succeeded"], state["total_reward"]) == (kind, None, None)
    token = lease.ask("/reset", {"task_id": TASK})["metadata"]["policy_token"]
    async with connect(mode, url=lease.address, token=token) as client:
        assert not (await client.call("echo", text="amber")).is_error
    assert problems == [{"episode_over": True, "scored": False, "failure_kind": kind}] * 2


async def test_a_call_that_nobody_waits_for_is_carried_out(connect: Connect, mode: str, lease: Lease) -> None:
    async with connect(mode, url=lease.address, token=lease.token) as client:
        with anyio.move_on_after(0.2):
            await client.call("slow", seconds=0.5)
        assert (await client.call("echo", text="amber")).structured["result"] == {"texts": ["amber"]}
    assert lease.ask("")["step_count"] == 2


async def test_a_program_is_asked_to_wait_where_the_trainer_acts(connect: Connect, lease: Lease) -> None:
    async with connect("legacy", url=lease.address, token=lease.token) as client, anyio.create_task_group() as group:
        action = {"type": "call_tool", "tool_name": "slow", "arguments": {"seconds": 0.6}}
        group.start_soon(anyio.to_thread.run_sync, lease.ask, "/step", {"action": action})
        await anyio.sleep(0.3)
        busy = await client.call("echo", text="amber")
    assert (busy.is_error, "Try again" in busy.texts[0]) == (True, True)


def test_a_token_ends_with_its_episode(lease: Lease) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    key = lease.ask("/snapshot", {})["snapshot"]
    tokens = [lease.token]
    for what, body in (("/reset", {"task_id": TASK}), ("/restore", {"snapshot": key})):
        tokens.append(lease.ask(what, body)["metadata"]["policy_token"])
        assert [asked(lease.address, request, token)[0] == 401 for token in tokens] == [True] * (len(tokens) - 1) + [False]
    assert asked(f"{lease.url}/sessions", {"session_id": lease.name})[1]["policy_token"] == tokens[-1]


def test_a_token_opens_its_own_episode_and_nothing_else(lease: Lease) -> None:
    other = asked(f"{lease.url}/sessions", {})[1]
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    wrong = [
        (lease.address, other["policy_token"]),
        (lease.address, ""),
        (f"{lease.url}/episodes/nobody/mcp", lease.token),
    ]
    assert [asked(address, request, token)[0] for address, token in wrong] == [401] * 3
    assert asked(f"{lease.url}{other['mcp_path']}", request, other["policy_token"])[0] == 409
    assert asked(lease.address, token=lease.token)[0] == 405
    assert asked(f"{lease.url}/sessions/{other['session_id']}", method="DELETE")[0] == 200
