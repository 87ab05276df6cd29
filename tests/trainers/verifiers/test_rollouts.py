"""Single rollouts in this process: how they end when something other than the world ends them, and what a server with a token asks."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import verifiers.v1 as vf
from verifiers.v1.utils.loaders import resolve_env_config

import wardian
from tests.trainers.serving import FAULTY, served
from wardian.rollouts.inference.fake import Asked, Completes, FakeEndpoint, Sends
from wardian.trainers.client import CapacityReached, NotAuthorized, Refused
from wardian.trainers.verifiers.env import _action
from wardian.trainers.verifiers.state import Course, Unscored, WardianState
from wardian.trainers.verifiers.taskset import WardianData, WardianTask, WardianTaskset
from wardian.trainers.verifiers.toolset import WardianToolset, WardianToolsetConfig

from .conftest import KEY, counted
from .player import Player

pytestmark = pytest.mark.anyio
TOKEN = "a-token-of-the-tests"
TURNS = 2
"""More turns of the model verifiers does not allow."""
TTL_S = 1.0
"""Of the lease that is kept."""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    with (
        pytest.MonkeyPatch.context() as patch,
        served(FAULTY, "--token-file", str(file), "--sessions", "3") as address,
    ):
        patch.setenv("WARDIAN_API_KEY", TOKEN)
        patch.setenv(KEY, "none")
        yield address


@pytest.fixture
def opened(url: str) -> Iterator[Callable[[], int]]:
    """How many leases the test opened so far; at its end all of them are closed."""
    before = counted(url, TOKEN)
    yield lambda: int(counted(url, TOKEN)["sessions_opened"] - before["sessions_opened"])
    assert counted(url, TOKEN)["sessions_open"] == 0


def settings(url: str, **taskset: Any) -> Any:
    """As they stand in a file."""
    retries = {"rules": [{"type": "TaskError", "message": "Unscored: infrastructure", "max_retries": 1}]}
    found = {"taskset": {"id": "wardian-faulty", "url": url, **taskset}, "agent": {"max_turns": TURNS}, "retries": retries}
    return resolve_env_config(found)


@pytest.fixture(scope="module")
async def env(exported: Callable[[str], Path], url: str) -> AsyncIterator[Any]:
    exported(FAULTY)
    env = vf.load_environment(settings(url))
    async with env.serving():
        yield env


@pytest.fixture
def tasks(exported: Callable[[str], Path], url: str) -> list[WardianTask]:
    exported(FAULTY)
    return list(vf.load_environment(settings(url)).taskset.take(3))


@asynccontextmanager
async def model(script: Any) -> AsyncIterator[Any]:
    async with FakeEndpoint(script).serve() as fake:
        yield vf.ModelContext(model="m", client=vf.EvalClientConfig(base_url=fake.base_url, api_key_var=KEY), sampling=vf.SamplingConfig())


async def played(env: Any, task: WardianTask, script: Any) -> Any:
    async with model(script) as context:
        return await env.run_slot(env.slots(task)[0], context)


def trace_of(task: WardianTask, name: str = "a") -> Any:
    """As verifiers makes one for a rollout."""
    agent = vf.AgentInfo(config=vf.AgentConfig(model="m", runtime={"type": "subprocess"}))
    return vf.Trace(id=name, task=vf.TraceTask(type="WardianTask", data=task.data), state=WardianState(), agent=agent)


async def test_a_rollout_that_verifiers_cuts_short_is_judged_as_far_as_it_came(
    env: Any, tasks: list[WardianTask], opened: Callable[[], int]
) -> None:
    episode = await played(env, tasks[0], Player(["dawdles"]))
    trace = episode.traces[0]
    assert episode.ok, trace.errors
    assert (trace.stop_condition, trace.info["wardian"]["end_cause"]) == ("max_turns", "max_turns")
    assert (trace.rewards["reward"].score, trace.metrics["success"], opened()) == (pytest.approx(-0.01 * (TURNS + 1)), 0.0, 1)


async def test_a_rollout_without_an_answer_of_the_model_has_no_reward_and_nothing_to_train_on(
    env: Any, tasks: list[WardianTask], opened: Callable[[], int]
) -> None:
    episode = await played(env, tasks[0], lambda _: Sends(400, '{"error": {"message": "no such model"}}'))
    trace = episode.traces[0]
    assert (episode.ok, trace.errors[-1].type, trace.rewards, trace.num_output_tokens) == (False, "ProviderError", {}, 0)
    assert (trace.assistant_messages, opened()) == ([], 1)


async def test_a_failure_of_ours_is_tried_again_by_verifiers_own_rules(
    env: Any, tasks: list[WardianTask], opened: Callable[[], int]
) -> None:
    episode = await played(env, tasks[0], Player(["breaks-us", "idle"]))
    assert episode.ok, episode.errors
    assert (opened(), len(episode.errors) + len(episode.traces[0].errors)) == (2, 1)


async def test_a_rollout_that_is_cancelled_leaves_no_lease(env: Any, tasks: list[WardianTask], opened: Callable[[], int]) -> None:
    asked = asyncio.Event()

    async def never(_: Asked) -> Completes:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    playing = asyncio.create_task(played(env, tasks[0], never))
    await asked.wait()
    playing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await playing
    assert opened() == 1


async def test_a_server_that_is_full_is_waited_for_and_no_longer_than_asked(
    env: Any, tasks: list[WardianTask], url: str, opened: Callable[[], int]
) -> None:
    traces = [trace_of(tasks[0], f"full-{number}") for number in range(4)]
    for trace in traces[:3]:
        await tasks[0].setup(trace)
    hurried = WardianTask(tasks[0].data, tasks[0].config.model_copy(update={"wait_s": 0.5}))
    with pytest.raises(CapacityReached, match="3 of 3 leases are open"):
        await hurried.setup(traces[3])
    waiting = asyncio.create_task(tasks[0].setup(traces[3]))
    await tasks[0].close(traces[0])
    await waiting
    for trace in traces[1:]:
        await tasks[0].close(trace)
    assert opened() == 4


async def test_a_lease_is_made_once_for_a_rollout_and_closing_twice_is_harmless(
    tasks: list[WardianTask], opened: Callable[[], int]
) -> None:
    trace = trace_of(tasks[0])
    await tasks[0].setup(trace)
    await tasks[0].setup(trace)
    assert opened() == 1
    again = trace.model_copy(deep=True)
    await tasks[0].close(trace)
    await tasks[0].close(again)


async def test_an_episode_that_cannot_begin_leaves_no_lease(tasks: list[WardianTask], opened: Callable[[], int]) -> None:
    missing = WardianTask(tasks[0].data.model_copy(update={"id": "echoes/easy/seed-none"}), tasks[0].config)
    with pytest.raises(Refused):
        await missing.setup(trace_of(missing))
    assert opened() == 1


async def test_a_lease_is_kept_while_a_model_thinks(tasks: list[WardianTask], url: str, opened: Callable[[], int]) -> None:
    trace = trace_of(tasks[0])
    async with wardian.connect(url, TOKEN) as client:
        await client.server.ask("POST", "/sessions", {"session_id": trace.id, "ttl_s": TTL_S})
        await tasks[0].setup(trace)
        keeping = asyncio.create_task(tasks[0].keep(trace))
        while (await client.server.ask("GET", f"/sessions/{trace.id}"))["age_s"] < 2.5 * TTL_S:  # noqa: ASYNC110 - by the server's clock
            await asyncio.sleep(0.1)
    keeping.cancel()
    await tasks[0].close(trace)
    assert opened() == 1


async def test_an_untouched_task_is_finalized_and_scored(tasks: list[WardianTask], opened: Callable[[], int]) -> None:
    """As `vf-validate` does."""
    trace = trace_of(tasks[0])
    await tasks[0].setup(trace)
    await tasks[0].finalize(trace)
    await tasks[0].score(trace)
    assert (trace.reward, trace.metrics["success"], trace.info["wardian"]["end_cause"]) == (pytest.approx(-0.01), 0.0, "unfinished")


async def test_calls_at_once_are_made_one_after_another(tasks: list[WardianTask], url: str, opened: Callable[[], int]) -> None:
    """Some harnesses make them so; a lease takes one call at a time."""
    trace = trace_of(tasks[0])
    await tasks[0].setup(trace)

    class Channel(WardianToolset):
        """With verifiers' channel between its processes cut short."""

        async def _pull_state(self) -> WardianState:
            return trace.state.model_copy(deep=True)  # type: ignore[no-any-return]

        async def _push_state(self, before: bytes) -> None:
            trace.state = self.state

    toolset = Channel(WardianToolsetConfig(server=url))
    async with toolset._exit_stack:
        calls: list[tuple[str, dict[str, Any]]] = [("slow", {"seconds": 0.1}), ("echo", {"text": "x"})] * 2
        made = await asyncio.gather(*(toolset.call_tool(name, args) for name, args in calls))
    texts = [one.model_dump()["content"][0]["text"] for one in made]
    assert [(one.is_error, json.loads(text)["status"]) for one, text in zip(made, texts, strict=True)] == [(False, "ok")] * 4
    assert (trace.state.course.steps, trace.state.course.components["step_cost"]) == (4, pytest.approx(-0.04))
    await tasks[0].close(trace)


async def test_a_call_for_a_lease_that_is_gone_is_answered_and_leaves_the_episode_unscored(
    tasks: list[WardianTask], url: str, opened: Callable[[], int]
) -> None:
    trace = trace_of(tasks[0])
    await tasks[0].setup(trace)
    gone = trace.model_copy(deep=True)
    await tasks[0].close(trace)

    class Channel(WardianToolset):
        async def _pull_state(self) -> WardianState:
            return gone.state  # type: ignore[no-any-return]

        async def _push_state(self, before: bytes) -> None:
            pass

    toolset = Channel(WardianToolsetConfig(server=url))
    async with toolset._exit_stack:
        made = await toolset.call_tool("echo", {"text": "x"})
    assert (made.is_error, gone.state.course.failure_kind) == (True, "lost")
    with pytest.raises(Unscored, match="lost: "):
        await tasks[0].reward(gone)


async def test_the_token_stands_in_no_record(env: Any, tasks: list[WardianTask], opened: Callable[[], int]) -> None:
    episode = await played(env, tasks[0], Player(["idle"]))
    assert episode.ok
    assert TOKEN not in json.dumps(episode.to_record()) + env.config.model_dump_json() + repr(episode.traces[0].state)


def test_without_the_token_nothing_is_listed(exported: Callable[[str], Path], url: str) -> None:
    exported(FAULTY)
    with pytest.raises(NotAuthorized):
        list(vf.load_environment(settings(url, token_env="NOT_SET")).taskset)


@pytest.mark.parametrize("split", ["heldout", "eval"])
def test_a_server_for_training_refuses_other_splits(exported: Callable[[str], Path], url: str, split: str) -> None:
    exported(FAULTY)
    with pytest.raises(Refused, match=split):
        list(vf.load_environment(settings(url, split=split)).taskset)


def test_a_server_for_evaluation_lists_its_split(exported: Callable[[str], Path]) -> None:
    exported(FAULTY)
    with served(FAULTY, "--split", "eval", "--tasks", "3") as address:
        tasks = list(vf.load_environment(settings(address, split="eval")).taskset)
    assert [task.data.split for task in tasks] == ["eval"] * 3


@pytest.mark.parametrize(
    ("world", "version", "told"), [("faulty", "0", "serves version 1 of the world faulty"), ("toy", "1", "not the world toy")]
)
def test_a_server_of_another_world_or_version_is_refused(url: str, world: str, version: str, told: str) -> None:
    class Other(WardianTaskset):
        WORLD, VERSION = world, version

    with pytest.raises(ValueError, match=told):
        list(Other(settings(url).taskset))


def test_an_episode_that_did_not_end_is_not_scored() -> None:
    with pytest.raises(Unscored, match="unfinished: "):
        Course(steps=3, reward=0.5).score()


def test_what_a_model_thinks_aloud_is_not_said_to_the_world() -> None:
    assert _action(SimpleNamespace(calls=[]), "<think>Nearly.</think>Done.") == {"type": "message", "text": "Done."}


def test_keys_of_tasks_are_their_names_and_seeds(tasks: list[WardianTask]) -> None:
    assert [task.key for task in tasks] == [f"faulty/{task.data.id}@{task.data.seed}" for task in tasks]
    assert len({task.key for task in tasks}) == 3
    assert {task.data.split for task in tasks} == {"train"}


def test_a_task_is_rebuilt_from_what_is_sent_of_it(env: Any, tasks: list[WardianTask], url: str) -> None:
    """As a trainer's environment server does."""
    again = env.taskset.task_type()(WardianData.model_validate(tasks[0].data.model_dump(mode="json")), env.config.taskset.task)
    assert (again.key, again.hash, again.config.url) == (tasks[0].key, tasks[0].hash, url)
    assert url not in tasks[0].data.model_dump_json()
