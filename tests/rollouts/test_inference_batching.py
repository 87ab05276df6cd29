"""Policies that answer for many episodes at once: batches are batches, answers find their way, and failures stay where they are."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from wardian.envs.action import Action, Message, Observation, call
from wardian.envs.task import TaskId
from wardian.rollouts.errors import PolicyGone
from wardian.rollouts.inference.batching import LATE_IN_A_ROW, ActRequest, Batched, BatchFailed
from wardian.rollouts.policies.base import TaskView
from wardian.rollouts.policies.registry import load_policies
from wardian.rollouts.policies.sampled import Acted, Sampled
from wardian.rollouts.trajectory import TrajectoryLog

pytestmark = pytest.mark.anyio


def view(seed: int) -> TaskView:
    return TaskView(TaskId.parse(f"lending-desk/easy/seed-{seed}"), (), seed)


@dataclass
class Echo:
    """Says whom it answers. `deed` may do something with a batch first."""

    deed: Callable[[Sequence[ActRequest]], None] = lambda requests: None
    name: str = "echo"
    checkpoint: str = "weights-0"
    batches: list[list[int]] = field(default_factory=list)
    """Seeds of the views, by batch."""

    async def act_batch(self, requests: Sequence[ActRequest]) -> Sequence[Acted]:
        return self.answers(requests)

    def answers(self, requests: Sequence[ActRequest]) -> Sequence[Acted]:
        self.batches.append([request.view.seed for request in requests])
        self.deed(requests)
        return [Message(f"{request.view.seed} {request.turn} {request.observation.rendered}") for request in requests]


class EchoInThread(Echo):
    def act_batch(self, requests: Sequence[ActRequest]) -> Sequence[Acted]:  # type: ignore[override]
        assert threading.current_thread() is not threading.main_thread()
        return self.answers(requests)


async def answers_of(policy: Batched, seeds: Sequence[int], turns: int = 1) -> dict[int, list[str]]:
    """What each of these episodes was told, all at once; what failed is told as its text."""
    found: dict[int, list[str]] = {seed: [] for seed in seeds}

    async def play(seed: int) -> None:
        player = policy.begin(Observation("", 0), view(seed))
        for turn in range(turns):
            try:
                sampled = await player.act(Observation(f"{seed}/{turn}", 0))
            except BatchFailed as error:
                found[seed].append(str(error))
                return
            assert isinstance(sampled.action, Message)
            found[seed].append(sampled.action.text)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for seed in seeds:
                group.start_soon(play, seed)
    return found


@pytest.mark.parametrize("inner", [Echo(), EchoInThread()], ids=["async", "in a thread"])
async def test_batches_are_bigger_than_one_and_answers_never_cross(inner: Echo) -> None:
    async with Batched(inner, max_batch=32, max_wait_s=5) as policy:
        found = await answers_of(policy, range(96), turns=3)
    assert found == {seed: [f"{seed} {turn + 1} {seed}/{turn}" for turn in range(3)] for seed in range(96)}
    assert [len(batch) for batch in inner.batches] == [32] * 9


async def test_a_batch_that_is_not_full_waits_no_longer_than_it_may() -> None:
    inner = Echo()
    async with Batched(inner, max_batch=1000, max_wait_s=0.02) as policy:
        assert len(await answers_of(policy, range(5))) == 5
    assert sum(len(batch) for batch in inner.batches) == 5


async def test_a_batch_that_raises_ends_its_own_episodes_only() -> None:
    def raises(requests: Sequence[ActRequest]) -> None:
        if 3 in [request.view.seed for request in requests]:
            raise RuntimeError("out of memory")

    async with Batched(Echo(raises), max_batch=2, max_wait_s=5) as policy:
        found = await answers_of(policy, range(8))
    failed = {seed for seed, told in found.items() if told == ["RuntimeError: out of memory"]}
    assert failed == {2, 3}


async def test_too_few_answers_fail_the_batch_and_a_wrong_one_its_episode() -> None:
    class Wrong(Echo):
        async def act_batch(self, requests: Sequence[ActRequest]) -> Sequence[Acted]:
            return [Message("x")] if len(requests) == 2 else ["no action", *[Message("x")] * (len(requests) - 1)]  # type: ignore[list-item]

    async with Batched(Wrong(), max_batch=2, max_wait_s=5) as policy:
        told = await answers_of(policy, range(2))
    assert told[0] == told[1] == ["ValueError: act_batch gave 1 actions for 2 requests"]
    async with Batched(Wrong(), max_batch=3, max_wait_s=5) as policy:
        told = await answers_of(policy, range(3))
    assert (told[0][0].startswith("TypeError: the policy gave str"), told[1], told[2]) == (True, ["x"], ["x"])


async def test_an_episode_that_is_cancelled_leaves_the_others() -> None:
    inner, scopes = Echo(), [anyio.CancelScope() for _ in range(4)]
    told: list[Acted] = []

    async def play(seed: int) -> None:
        with scopes[seed]:
            told.append(await policy.begin(Observation("", 0), view(seed)).act(Observation("", 0)))

    async with Batched(inner, max_batch=4, max_wait_s=60) as policy, anyio.create_task_group() as group:
        for seed in range(3):
            group.start_soon(play, seed)
        await anyio.wait_all_tasks_blocked()
        scopes[1].cancel()
        await anyio.wait_all_tasks_blocked()
        group.start_soon(play, 3)
        policy.max_batch = 3
    assert ([sorted(batch) for batch in inner.batches], len(told)) == ([[0, 2, 3]], 3)


async def test_an_episode_that_is_cancelled_while_its_batch_runs_leaves_the_others() -> None:
    running, going_on = anyio.Event(), anyio.Event()

    class Slow(Echo):
        async def act_batch(self, requests: Sequence[ActRequest]) -> Sequence[Acted]:
            running.set()
            await going_on.wait()
            return self.answers(requests)

    found: dict[int, Acted] = {}

    async def play(seed: int, scope: anyio.CancelScope) -> None:
        with scope:
            found[seed] = (await policy.begin(Observation("", 0), view(seed)).act(Observation("", 0))).action

    async with Batched(Slow(), max_batch=3, max_wait_s=60) as policy, anyio.create_task_group() as group:
        scopes = [anyio.CancelScope() for _ in range(3)]
        for seed, scope in enumerate(scopes):
            group.start_soon(play, seed, scope)
        await running.wait()
        scopes[1].cancel()
        going_on.set()
    assert found == {0: Message("0 1 "), 2: Message("2 1 ")}


class Stuck(Echo):
    async def act_batch(self, requests: Sequence[ActRequest]) -> Sequence[Acted]:
        await anyio.sleep_forever()
        return []


async def test_calls_that_are_late_fail_their_batch_and_at_last_the_policy() -> None:
    inner = Stuck(name="stuck")
    async with Batched(inner, max_batch=1, deadline_s=0.01) as policy:
        for seed in range(LATE_IN_A_ROW - 1):
            assert await answers_of(policy, [seed]) == {seed: ["BatchLate: act_batch gave no answer within 0.01 s"]}
        for seed in (8, 9):
            with pytest.raises(PolicyGone, match=r"the policy stuck is gone: act_batch gave no answer within 0.01 s, in 3 calls in a row"):
                await policy.begin(Observation("", 0), view(seed)).act(Observation("", 0))


async def test_a_call_that_is_done_in_time_forgets_the_late_ones() -> None:
    class Slow(Echo):
        async def act_batch(self, requests: Sequence[ActRequest]) -> Sequence[Acted]:
            if requests[0].view.seed % LATE_IN_A_ROW:
                await anyio.sleep_forever()
            return self.answers(requests)

    async with Batched(Slow(), max_batch=1, deadline_s=0.01) as policy:
        told = [await answers_of(policy, [seed]) for seed in range(7)]
    assert [" gave no answer" in found[0] for one in told for found in one.values()] == [False, True, True] * 2 + [False]


async def test_a_thread_that_is_late_ends_the_policy_at_once() -> None:
    going_on = threading.Event()

    class Hung(Echo):
        def act_batch(self, requests: Sequence[ActRequest]) -> Sequence[Acted]:  # type: ignore[override]
            going_on.wait(60)
            return self.answers(requests)

    async with Batched(Hung(), max_batch=1, deadline_s=0.01) as policy:
        try:
            with pytest.raises(PolicyGone, match="in a call that cannot be ended"):
                await policy.begin(Observation("", 0), view(0)).act(Observation("", 0))
        finally:
            going_on.set()


def test_a_deadline_is_set_by_the_policy_and_checked() -> None:
    inner = Echo()
    inner.deadline_s = 3.0  # type: ignore[attr-defined]
    assert (Batched.of(inner).deadline_s, Batched.of(Echo()).deadline_s) == (3.0, 600.0)
    with pytest.raises(ValueError, match="deadline_s: must be above 0"):
        Batched(Echo(), deadline_s=0)


async def test_weights_that_change_are_those_that_were_there_when_the_batch_was_called() -> None:
    inner = Echo()
    async with Batched(inner, max_batch=2, max_wait_s=60) as policy:
        players = [policy.begin(Observation("", 0), view(seed)) for seed in (0, 1)]
        found: list[Sampled] = []

        async def act(number: int) -> None:
            found.append(await players[number].act(Observation("", 0)))

        async with anyio.create_task_group() as group:
            group.start_soon(act, 0)
            await anyio.wait_all_tasks_blocked()
            inner.checkpoint = "weights-1"
            group.start_soon(act, 1)
    assert [sampled.checkpoint for sampled in found] == ["weights-1", "weights-1"]


async def test_what_ends_the_block_comes_out_as_it_is() -> None:
    with pytest.raises(KeyError):
        async with Batched(Echo()):
            raise KeyError("x")
    with pytest.raises(RuntimeError, match="not open"):
        await Batched(Echo()).begin(Observation("", 0), view(0)).act(Observation("", 0))


class Clerks(Echo):
    """Writes down whom it answers, in the world; then says so."""

    def answer(self, request: ActRequest) -> Action:
        if request.turn < 4:
            return call("write_file", path=f"turn-{request.turn}", content=f"{request.view.task_id} {len(request.messages)}")
        return Message(str(request.view.task_id))

    async def act_batch(self, requests: Sequence[ActRequest]) -> Sequence[Acted]:
        self.batches.append([request.episode for request in requests])
        version = f"weights-{len(self.batches)}"
        return [Sampled(self.answer(r), version, token_ids=[r.episode, r.turn], logprobs=[-0.5, -1], loss_mask=[0, 1]) for r in requests]


async def test_whole_episodes_are_played_in_batches_and_each_step_records_its_weights_and_tokens(player: Any, tmp_path: Path) -> None:
    inner = Clerks()
    async with Batched(inner, max_batch=2, max_wait_s=60) as policy:
        tally = await player.play(tmp_path, policy, episodes=8)
    assert (tally.whole.judged, {len(batch) for batch in inner.batches}) == (8, {2})
    log = TrajectoryLog.open(tmp_path)
    for name in log.episodes:
        (attempt,) = log.attempts(name)
        assert attempt.end is not None
        *written, said = attempt.steps
        assert said.action.text == attempt.end.task_id
        assert [step.action.args["content"] for step in written] == [f"{attempt.end.task_id} {2 * turn}" for turn in (1, 2, 3)]  # type: ignore[index]
        assert [step.sample and step.sample.token_ids and step.sample.token_ids[1] for step in attempt.steps] == [1, 2, 3, 4]
        assert len({step.policy_checkpoint for step in attempt.steps}) == 4
        assert attempt.end.policy_checkpoint == said.policy_checkpoint


PAGE = Path(__file__).parents[2] / "docs" / "inference.md"


async def test_the_page_shows_a_policy_that_plays(player: Any, tmp_path: Path) -> None:
    (source,) = [block for block in PAGE.read_text().split("```python\n")[1:] if "def act_batch" in block]
    names: dict[str, Any] = {}
    exec(source.split("```")[0], names)  # noqa: S102 - the example of the page is what is tested
    async with Batched.of(names["reader"](player.ground.world)) as policy:
        tally = await player.play(tmp_path, policy, episodes=4)
    assert (tally.whole.judged, sum(tally.outcomes.values())) == (4, 4)
    steps = TrajectoryLog.open(tmp_path).attempts("test-00000")[0].steps
    assert [step.sample and step.sample.loss_mask for step in steps] == [[1, 1, 1], [1, 1, 1]]


def made_of(world: object) -> Echo:
    return Echo()


async def test_a_policy_with_act_batch_is_loaded_by_name(shell_world: Any) -> None:
    (policy,) = load_policies(f"{__name__}:made_of", shell_world, "toy")
    assert (type(policy), policy.name, policy.checkpoint) == (Batched, "echo", "weights-0")
