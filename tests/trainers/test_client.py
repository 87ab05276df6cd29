"""`wardian.connect` against a real server: what users of it rely on, with and without `await`."""

import asyncio
import importlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import anyio
import pytest

import wardian
from wardian.trainers.client import (
    BlockingClient,
    CapacityReached,
    Client,
    Refused,
    ResetFailed,
    ServerError,
    SessionBusy,
    SessionLost,
    Unreachable,
)
from wardian.trainers.client.link import Server

from .serving import FAULTY, served

TASK = "echoes/easy/seed-1"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(FAULTY, "--sessions", "40", "--step-s", "4", "--ttl-s", "60", "--drain-s", "1") as url:
        yield url


@pytest.fixture
def client(url: str) -> Iterator[BlockingClient]:
    with wardian.connect(url) as client:
        yield client
    with wardian.connect(url) as after:
        until = time.monotonic() + 5
        while after.counters()["sessions_open"] and time.monotonic() < until:
            time.sleep(0.02)
        assert after.counters()["sessions_open"] == 0


def play(session: Any, first: Any) -> Any:
    """The reference solution."""
    words = first.results[0]["result"]["instruction"].split()
    for _ in range(int(words[4])):
        session.call("echo", {"text": words[3].strip(",")})
    return session.say("Done.")


def test_an_episode_from_task_to_verdict(client: BlockingClient) -> None:
    assert client.info()["worlds"] == ["faulty"]
    assert client.splits() == ["train"]
    (listed,) = client.tasks(stop=1)
    with client.session() as session:
        first = session.reset(split="train", index=0)
        assert (first.task_id, first.seed, first.reward) == (listed["task_id"], listed["seed"], None)
        assert [tool["function"]["name"] for tool in first.tools] == ["echo", "fail", "slow", "breaks_us"]
        last = play(session, first)
    assert (last.done, last.terminated, last.succeeded, last.failure_kind) == (True, True, True, None)
    assert last.total_reward == pytest.approx(1.0 - 0.01 * last.step)
    assert sum(last.reward_components.values()) == last.reward


def test_the_same_without_blocking(url: str) -> None:
    async def episode() -> bool | None:
        async with wardian.connect(url) as client, client.session() as session:
            first = await session.reset(TASK)
            words = first.results[0]["result"]["instruction"].split()
            for _ in range(int(words[4])):
                await session.call("echo", {"text": words[3].strip(",")})
            return (await session.say("Done.")).succeeded

    assert anyio.run(episode) is True


def test_many_sessions_at_once_get_each_their_own_replies(client: BlockingClient) -> None:
    def one(number: int) -> list[str]:
        with client.session() as session:
            session.reset(TASK)
            return [session.call("echo", {"text": f"{number}-{turn}"}).results[0]["result"]["texts"][0] for turn in range(3)]

    before = client.counters()
    with ThreadPoolExecutor(16) as threads:
        found = list(threads.map(one, range(32)))
    assert found == [[f"{number}-{turn}" for turn in range(3)] for number in range(32)]
    after = client.counters()
    assert after["sessions_opened"] - before["sessions_opened"] == after["sessions_closed"] - before["sessions_closed"] == 32
    assert after["calls"]["echo ok"] - before["calls"].get("echo ok", 0) == 96


def test_a_tool_that_refuses_is_the_agents_to_read(client: BlockingClient) -> None:
    with client.session() as session:
        session.reset(TASK)
        turn = session.call("fail", {"status": "not_found"})
        assert (turn.results[0]["status"], turn.done, turn.failure_kind) == ("not_found", False, None)
        turn = session.call("echo", '{"text": ')
        assert turn.results[0]["status"] == "malformed_call"
        assert session.complete('<tool_call>{"name": "echo", "arguments": {"text": "x"}}</tool_call>').results[0]["status"] == "ok"


def test_an_episode_that_we_break_has_no_reward_and_the_lease_goes_on(client: BlockingClient) -> None:
    with client.session() as session:
        session.reset(TASK)
        turn = session.call("breaks_us")
        assert (turn.done, turn.reward, turn.total_reward, turn.succeeded) == (True, None, None, None)
        assert turn.failure_kind == "infrastructure"
        assert not turn.terminated
        assert not turn.truncated
        with pytest.raises(ServerError, match="call reset first"):
            session.call("echo", {"text": "x"})
        assert not session.reset(TASK).done


def test_a_step_over_its_bound_is_answered_and_the_lease_stays_in_step(client: BlockingClient) -> None:
    with client.session() as session:
        session.reset(TASK)
        turn = session.call("slow", {"seconds": 30})
        assert (turn.done, turn.reward, turn.failure_kind) == (True, None, "timeout")
        first = session.reset(TASK)
        assert first.text.startswith("# Task")
        assert session.call("echo", {"text": "mine"}).results[0]["result"]["texts"] == ["mine"]


def test_a_budget_truncates_and_what_was_done_is_judged(client: BlockingClient) -> None:
    with client.session() as session:
        session.reset(TASK)
        turns = [session.call("fail") for _ in range(6)]
    assert [turn.done for turn in turns] == [False] * 5 + [True]
    assert (turns[-1].truncated, turns[-1].succeeded, turns[-1].end_cause) == (True, False, "steps")
    assert turns[-1].reward is not None


def test_a_seed_is_honoured(client: BlockingClient) -> None:
    with client.session() as one, client.session() as other:
        assert one.reset(TASK, seed=5).seed == other.reset(TASK, seed=5).seed == 5


def test_snapshots_are_kept_by_the_server_and_forks_are_leases_of_their_own(client: BlockingClient) -> None:
    with client.session() as session, client.session() as other:
        first = session.reset(TASK)
        session.call("echo", {"text": "before"})
        key = session.snapshot()
        session.call("echo", {"text": "after"})
        again = session.restore(key)
        assert again.step == 1
        assert again.total_reward == pytest.approx(-0.01)
        assert other.reset(snapshot=key).step == 1
        forks = session.fork(3)
        assert [fork.call("echo", {"text": "x"}).step for fork in forks] == [2, 2, 2]
        for fork in forks:
            fork.close()
        with pytest.raises(Refused, match="no 'nonsense' is kept"):
            session.restore("nonsense")
        assert first.step == 0


def test_a_group_begins_alike(client: BlockingClient) -> None:
    group = client.group(8, index=2)
    assert len({turn.text for _, turn in group}) == 1
    assert {turn.task_id for _, turn in group} == {client.tasks(start=2, stop=3)[0]["task_id"]}
    assert [play(session, first).succeeded for session, first in group] == [True] * 8
    for session, _ in group:
        session.close()
    with pytest.raises(Refused, match="size"):
        client.group(1000, index=2)


def test_wrong_requests_name_the_field(client: BlockingClient) -> None:
    with client.session() as session:
        for asked, said in (
            ({"task_id": "nobody/easy/seed-1"}, "family"),
            ({"index": 10**9}, "index"),
            ({"split": "heldout", "index": 0}, "heldout"),
            ({"split": "nowhere"}, "split"),
        ):
            with pytest.raises(Refused, match=said):
                session.reset(**asked)
        session.reset(TASK)
        with pytest.raises(Refused, match="type"):
            session.step({"type": "fly"})
        with pytest.raises(Refused, match="metadat"):
            session.step({"type": "message", "text": "x", "metadat": {}})
        with pytest.raises(Refused, match="sample"):
            session.say("x", sample={"token_ids": [1, 2], "logprobs": [-0.5]})


def test_a_refused_reset_leaves_the_episode_as_it_is(client: BlockingClient) -> None:
    with client.session() as session:
        session.reset(TASK)
        session.call("echo", {"text": "x"})
        with pytest.raises(Refused):
            session.reset("nobody/easy/seed-1")
        assert session.call("echo", {"text": "y"}).step == 2


def test_held_out_tasks_are_no_trainers(client: BlockingClient) -> None:
    from wardian.envs.task import Difficulty

    from .worlds import Echoes

    seed = next(seed for seed in range(500) if Echoes().split_at(Difficulty.EASY, seed) == "heldout")
    with client.session() as session, pytest.raises(Refused, match="heldout"):
        session.reset(f"echoes/easy/seed-{seed}")


def test_a_group_that_no_server_of_this_size_can_hold_is_no_matter_of_waiting(client: BlockingClient) -> None:
    with pytest.raises(Refused, match="--sessions 41"):
        client.group(41, TASK)


def test_a_full_server_says_so_and_when_to_ask_again(client: BlockingClient) -> None:
    group = client.group(40, TASK)
    with client.session() as session, pytest.raises(CapacityReached, match="40 of 40 leases are open") as caught:
        session.reset(TASK, wait_s=0)
    assert caught.value.retry_after_s > 0
    for member, _ in group:
        member.close()


def test_a_lease_takes_one_call_at_a_time(url: str) -> None:
    async def both() -> None:
        async with wardian.connect(url) as client, client.session("mine") as session:
            await session.reset(TASK)
            async with anyio.create_task_group() as group:
                group.start_soon(session.call, "slow", {"seconds": 0.5})
                await anyio.sleep(0.2)
                with pytest.raises(SessionBusy, match="one call at a time"):
                    await client.server.ask("POST", "/sessions/mine/step", {"action": {"type": "message", "text": "x"}})

    anyio.run(both)


def test_a_lease_is_taken_up_by_its_name_and_the_older_socket_lets_go(client: BlockingClient) -> None:
    with client.session("shared-name") as session:
        session.reset(TASK)
        session.call("echo", {"text": "x"})
        second = client.session("shared-name", attach=True)
        assert second.state()["step_count"] == 1
        with pytest.raises(SessionLost, match="took over"):
            session.call("echo", {"text": "y"})
        second.close()
        second.close()
    with pytest.raises(SessionLost, match="no lease"):
        client.session("shared-name", attach=True).state()


def test_a_lost_connection_costs_nothing_and_repeats_nothing(url: str) -> None:
    async def broken() -> tuple[list[int], Any]:
        async with wardian.connect(url) as client, client.session() as session:
            await session.reset(TASK)
            steps = []
            for number in range(3):
                async with anyio.create_task_group() as group:

                    async def step(number: int = number) -> None:
                        steps.append((await session.call("slow", {"seconds": 0.3})).step)

                    group.start_soon(step)
                    await anyio.sleep(0.1)
                    assert session.link._socket is not None
                    session.link._socket.transport.abort()
            return steps, await session.state()

    steps, state = anyio.run(broken)
    assert steps == [1, 2, 3]
    assert state["step_count"] == 3


def test_a_call_that_is_given_up_does_not_answer_the_next_one(url: str) -> None:
    async def given_up() -> list[str]:
        async with wardian.connect(url) as client, client.session() as session:
            await session.reset(TASK)
            with anyio.move_on_after(0.1):
                await session.call("slow", {"seconds": 0.4})
            await anyio.sleep(0.5)
            found: list[str] = (await session.call("echo", {"text": "mine"})).results[0]["result"]["texts"]
            return found

    assert anyio.run(given_up) == ["mine"]


def test_a_server_that_is_not_there_is_named() -> None:
    with wardian.connect("http://127.0.0.1:9") as client:
        with pytest.raises(Unreachable, match="wardian serve"):
            client.info()
        with client.session() as session, pytest.raises(Unreachable):
            session.reset(TASK)
    for url in ("somewhere", "http://127.0.0.1:89O0", "http://127.0.0.1:99999"):
        with pytest.raises(ValueError, match="http://HOST:PORT"):
            wardian.connect(url)


@pytest.mark.parametrize("name", ["trl", "inspect"])
def test_an_adapter_whose_trainer_is_missing_names_its_extra(name: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=rf"wardian\[{name}\]"):
        importlib.import_module(f"wardian.trainers.{name}")


def test_a_client_that_is_closed_leaves_nobody_waiting(client: BlockingClient) -> None:
    session = client.session()
    session.reset(TASK)
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            session.call("slow", {"seconds": 0.9})
        except BaseException as error:  # noqa: BLE001 - which one depends on where the close meets it
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.1)
    client.close()
    thread.join(10)
    assert not thread.is_alive()
    assert raised


def test_a_reset_that_fails_is_no_wrong_request() -> None:
    from wardian.trainers.client.errors import error_of

    found = error_of({"code": "EXECUTION_ERROR", "message": "x", "failure_kind": "infrastructure", "reward": None, "done": True})
    assert isinstance(found, ResetFailed)
    assert found.failure_kind == "infrastructure"


def test_nothing_secret_is_shown() -> None:
    assert "secret" not in repr(wardian.connect("http://127.0.0.1:1", token="secret"))
    assert "secret" not in repr(Client(Server("http://127.0.0.1:1", "secret")))


def test_what_was_begun_and_given_up_leaves_no_lease(url: str) -> None:
    """By cancelling the first call, by closing while it connects, and by a close whose connection is lost already."""

    async def begin() -> int:
        async with wardian.connect(url) as client:
            async with client.session() as session:
                await session.link.open()
                call = asyncio.create_task(session.reset(TASK))
                await asyncio.sleep(0)
                call.cancel()
                await asyncio.wait([call])
            session = client.session()
            call = asyncio.create_task(session.reset(TASK))
            await asyncio.sleep(0)
            await session.close()
            with suppress(SessionLost):  # or its reply was faster
                await call
            async with client.session() as session:
                await session.reset(TASK)
                assert session.link._socket is not None
                session.link._socket.transport.abort()
            return int((await client.counters())["sessions_open"])

    assert asyncio.run(begin()) == 0


def test_a_first_call_whose_connection_is_lost_is_made_again(client: BlockingClient, url: str) -> None:
    async def begin() -> str:
        async with wardian.connect(url) as other, other.session("lost-at-first") as session:
            await session.link.open()
            gone, session.link._socket = session.link._socket, None  # and the server does not learn of it
            assert gone is not None
            task_id = (await session.reset(TASK)).task_id
            await gone.close()
            return task_id

    assert asyncio.run(begin()) == TASK


def test_a_client_of_another_process_or_closed_says_so(url: str) -> None:
    client = wardian.connect(url).open()
    child = os.fork()
    if not child:
        signal.alarm(10)
        try:
            client.counters()
        except RuntimeError as error:
            os._exit(0 if "forked" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.counters()


def test_a_client_ends_the_leases_of_all_its_threads_and_of_their_forks(url: str) -> None:
    """Also those that no thread closed."""
    with wardian.connect(url) as client:
        with ThreadPoolExecutor(8) as threads:
            made = list(threads.map(lambda _: client.session(), range(1000), chunksize=1))
        assert len(client.held.value._made) == 1000
        made[0].reset(TASK)
        made[0].fork(2)
        (group, _), *_ = client.group(2, TASK)
        group.close()
        assert client.counters()["sessions_open"] == 4
        assert len(client.held.value._made) == 1003
    with wardian.connect(url) as after:
        assert after.counters()["sessions_open"] == 0
