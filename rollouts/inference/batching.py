"""Policies in this process that answer for many episodes with one call, as a model on an accelerator wants it.

Players put their requests into one queue. Whenever the policy is free, up to `max_batch` of them are taken, in the order in which they
came; the first of them waits for others at most `max_wait_s`. While one call runs, the next batch gathers.

A call that is not done at `deadline_s` fails its batch. Where several in a row are not, or where the call is one in a thread, which nothing
can end and which may still use the model, the policy is gone and the run ends.
"""

import contextvars
import inspect
import threading
from collections.abc import Awaitable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

import anyio
import anyio.from_thread
import anyio.lowlevel
from anyio.abc import TaskGroup

from wardian.envs.action import Observation
from wardian.rollouts.chat import Chat, ChatMessage
from wardian.rollouts.errors import PolicyGone
from wardian.rollouts.policies.base import TaskView
from wardian.rollouts.policies.sampled import Acted, Sampled, as_sampled

MAX_BATCH = 64
MAX_WAIT_S = 0.005
DEADLINE_S = 600.0
LATE_IN_A_ROW = 3
"""Calls that were not done at the deadline, after which the policy is taken to be gone."""


@dataclass(frozen=True, slots=True)
class ActRequest:
    """What one episode asks."""

    episode: int
    """Number of the episode in the life of the policy, so that it may keep something for it, such as a cache."""
    turn: int
    """From 1."""
    view: TaskView
    observation: Observation
    messages: tuple[ChatMessage, ...]
    """The episode so far as a chat; see `wardian.rollouts.chat`."""


@runtime_checkable
class BatchPolicy(Protocol):
    """A policy that acts for many episodes at once.

    It may set `max_batch`, `max_wait_s` and `deadline_s`, and be an asynchronous context.
    """

    @property
    def name(self) -> str:
        """As in `Policy`."""
        ...

    @property
    def checkpoint(self) -> str:
        """As in `Policy`."""
        ...

    def act_batch(self, requests: Sequence[ActRequest]) -> Sequence[Acted] | Awaitable[Sequence[Acted]]:
        """Answer each request, in their order, within `deadline_s`. One that is no `async def` is run in a thread, one call at a time.

        What it raises ends the episodes of these requests, and no others.
        """
        ...


class BatchFailed(Exception):
    """The call for a batch raised, was not done in time, did not give one action for each request, or something else for this one."""


class BatchLate(Exception):
    """A call was not done at its deadline."""

    def __init__(self, deadline_s: float, *, runs_on: bool) -> None:
        super().__init__(f"act_batch gave no answer within {deadline_s:g} s")
        self.runs_on = runs_on


@dataclass(slots=True, eq=False)
class _Waiting:
    request: ActRequest
    done: anyio.Event = field(default_factory=anyio.Event)
    sampled: Sampled | None = None
    failure: Exception | None = None

    def take(self, acted: Acted, checkpoint: str) -> None:
        """Keep the answer; what is none fails this episode only."""
        try:
            sampled = as_sampled(acted)
        except TypeError as error:
            self.failure = error
        else:
            self.sampled = replace(sampled, checkpoint=sampled.checkpoint or checkpoint)


@dataclass(slots=True)
class Batched:
    """A `BatchPolicy` as a policy. Open it as a context around the run; see `wardian.rollouts.policies.lifetime`."""

    policy: BatchPolicy
    max_batch: int = MAX_BATCH
    max_wait_s: float = MAX_WAIT_S
    deadline_s: float = DEADLINE_S
    """Longest time of one call, in real seconds."""
    _queue: list[_Waiting] = field(default_factory=list)
    _arrived: anyio.Event = field(default_factory=anyio.Event)
    _numbers: "count[int]" = field(default_factory=count)
    _group: TaskGroup | None = None
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _late: int = 0
    """Calls in a row that were not done in time."""
    _gone: str = ""
    """Why no further call is made; empty while they are."""

    def __post_init__(self) -> None:
        if self.max_batch < 1 or not 0 <= self.max_wait_s < float("inf"):
            raise ValueError(f"max_batch, max_wait_s: need at least 1 and 0, got {self.max_batch} and {self.max_wait_s}")
        if not 0 < self.deadline_s < float("inf"):
            raise ValueError(f"deadline_s: must be above 0 and finite, got {self.deadline_s}")

    @classmethod
    def of(cls, policy: BatchPolicy) -> Self:
        """A policy around `policy`, with the limits that it sets."""
        return cls(
            policy,
            max_batch=getattr(policy, "max_batch", MAX_BATCH),
            max_wait_s=getattr(policy, "max_wait_s", MAX_WAIT_S),
            deadline_s=getattr(policy, "deadline_s", DEADLINE_S),
        )

    @property
    def name(self) -> str:
        """That of the inner policy."""
        return self.policy.name

    @property
    def checkpoint(self) -> str:
        """That of the inner policy, as it is now."""
        return self.policy.checkpoint

    def begin(self, first: Observation, view: TaskView) -> "BatchedPlayer":
        """A player that asks through the queue."""
        return BatchedPlayer(self, view, next(self._numbers))

    async def ask(self, request: ActRequest) -> Sampled:
        """Wait for the answer. Cancelling it takes the request back, or lets its answer go, and leaves the others.

        Raises:
            BatchFailed: the call of its batch failed, or the answer is no action.
            PolicyGone: calls are not done in time any more.
            RuntimeError: the policy is not open.
        """
        if self._group is None:
            raise RuntimeError("the policy is not open: use it as an asynchronous context first")
        if self._gone:
            raise PolicyGone(self._gone)
        waiting = _Waiting(request)
        self._queue.append(waiting)
        self._arrived.set()
        try:
            await waiting.done.wait()
        finally:
            if waiting in self._queue:
                self._queue.remove(waiting)
        if self._gone and waiting.sampled is None:
            raise PolicyGone(self._gone) from waiting.failure
        if waiting.sampled is None:
            # One of its own for each episode: one exception that is raised in several tasks would gather their tracebacks.
            raise BatchFailed(f"{type(waiting.failure).__name__}: {waiting.failure}") from waiting.failure
        return waiting.sampled

    async def __aenter__(self) -> Self:
        if isinstance(self.policy, AbstractAsyncContextManager):
            await self._stack.enter_async_context(self.policy)
        self._group = await anyio.create_task_group().__aenter__()
        self._group.start_soon(self._serve)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Wait for the call that runs, and leave the inner policy. What ended the block goes on as it is."""
        group, self._group = self._group, None
        assert group is not None
        group.cancel_scope.cancel()
        try:
            await group.__aexit__(None, None, None)
        finally:
            await self._stack.aclose()

    async def _serve(self) -> None:
        while not self._gone:
            await self._gather()
            batch, self._queue = self._queue[: self.max_batch], self._queue[self.max_batch :]
            if batch:
                await self._call(batch)
        for waiting in self._queue:
            waiting.done.set()

    async def _gather(self) -> None:
        """Wait for a first request, and for others up to the limits."""
        while not self._queue:
            await self._arrival()
        with anyio.move_on_after(self.max_wait_s):
            while len(self._queue) < self.max_batch:
                await self._arrival()

    async def _arrival(self) -> None:
        self._arrived = anyio.Event()
        await self._arrived.wait()

    async def _call(self, batch: Sequence[_Waiting]) -> None:
        try:
            checkpoint = self.policy.checkpoint
            found = await self._answers([waiting.request for waiting in batch])
            if len(found) != len(batch):
                raise ValueError(f"act_batch gave {len(found)} actions for {len(batch)} requests")
        except Exception as error:  # noqa: BLE001 - the edge of the policy's own code: it ends the episodes of this batch
            self._count(error)
            for waiting in batch:
                waiting.failure = error
        else:
            self._late = 0
            for waiting, acted in zip(batch, found, strict=True):
                waiting.take(acted, checkpoint)
        for waiting in batch:
            waiting.done.set()

    def _count(self, error: Exception) -> None:
        """Count a call that failed; the policy is gone when too many are late, or one cannot be ended."""
        self._late = self._late + 1 if isinstance(error, BatchLate) else 0
        if isinstance(error, BatchLate) and (error.runs_on or self._late >= LATE_IN_A_ROW):
            calls = "a call that cannot be ended" if error.runs_on else f"{self._late} calls in a row"
            self._gone = f"the policy {self.name} is gone: {error}, in {calls} (deadline_s says how long one may take)"

    async def _answers(self, requests: Sequence[ActRequest]) -> Sequence[Acted]:
        if not inspect.iscoroutinefunction(self.policy.act_batch):
            answers = await self._in_thread(requests)
            if not inspect.isawaitable(answers):
                return answers
        else:
            answers = self.policy.act_batch(requests)
        with anyio.move_on_after(self.deadline_s):
            found: Sequence[Acted] = await answers
            return found
        raise BatchLate(self.deadline_s, runs_on=False)

    async def _in_thread(self, requests: Sequence[ActRequest]) -> Sequence[Acted] | Awaitable[Sequence[Acted]]:
        """Call in a thread, which is waited for when this is cancelled too: one that went on would use the model beside the next call.

        A daemon, since a call that never ends must not keep the process from ending.
        """
        done, token = anyio.Event(), anyio.lowlevel.current_token()
        found: list[Sequence[Acted] | Awaitable[Sequence[Acted]]] = []
        failed: list[BaseException] = []

        def run() -> None:
            try:
                found.append(self.policy.act_batch(requests))
            except BaseException as error:  # noqa: BLE001 - carried into the event loop, whatever it is
                failed.append(error)
            with suppress(anyio.RunFinishedError):
                anyio.from_thread.run_sync(done.set, token=token)

        threading.Thread(target=contextvars.copy_context().run, args=(run,), name="act_batch", daemon=True).start()
        with anyio.move_on_after(self.deadline_s, shield=True):
            await done.wait()
        if failed:
            raise failed[0]
        if not found:
            raise BatchLate(self.deadline_s, runs_on=True)
        return found[0]


@dataclass(slots=True)
class BatchedPlayer:
    policy: Batched
    view: TaskView
    episode: int
    turn: int = 0
    chat: Chat | None = None

    async def act(self, observation: Observation) -> Sampled:
        """Ask through the queue.

        Raises:
            BatchFailed: the call of its batch failed, or the answer is no action.
        """
        if self.chat is None:
            self.chat = Chat.begin(observation.rendered)
        else:
            self.chat.answer(observation.rendered)
        self.turn += 1
        request = ActRequest(self.episode, self.turn, self.view, observation, tuple(self.chat.messages))
        sampled = await self.policy.ask(request)
        self.chat.act(sampled.action, sampled.text or "")
        return sampled
