"""One lease: one episode at a time, one call at a time, each answered within its bound.

A call that takes longer is answered at once and given up behind the caller's back; the next call waits for that to be done. So reply
and request never fall out of step.
"""

import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from wardian.envs.action import Observation
from wardian.envs.ending import Ending, EndKind, boundary
from wardian.envs.environment import ToolEnvironment
from wardian.envs.errors import NotReset, TaskError
from wardian.rollouts.play import CANCELLED
from wardian.sandbox.errors import SandboxError
from wardian.tools.contract import Json
from wardian.trainers.episode_log import EpisodeLog, Line
from wardian.trainers.server import replies
from wardian.trainers.server.counters import Counters
from wardian.trainers.server.log import ServerLog
from wardian.trainers.server.options import Limits
from wardian.trainers.server.problems import Code, Problem, no_session, problem_of
from wardian.trainers.server.replies import Course
from wardian.trainers.server.shelf import Kept, Shelf
from wardian.trainers.server.wire import AnyAction, ListTools, Reset, sampled_of
from wardian.trainers.server.worlds import ServedWorld

_log = logging.getLogger(__name__)
CLOSE_S = 10.0
"""How long the end of a lease waits for a call that is being given up."""
SLOW_S = 0.02
TIMEOUT = "timeout"
"""Failure kind: a call took longer than it may."""
Work = Callable[[], Awaitable[dict[str, Json]]]


@dataclass(slots=True)
class Shared:
    """What all leases of a server use."""

    limits: Limits
    counters: Counters
    shelf: Shelf
    tasks: TaskGroup
    """For what goes on after an answer was given."""
    turnstile: anyio.Lock = field(default_factory=anyio.Lock)
    """After a slow step the next ones begin one by one, and others are heard in between: an agent's query blocks the event loop."""
    slow: bool = False
    """Whether the latest step was."""


@dataclass(eq=False, slots=True)
class Session:
    name: str
    world: ServedWorld
    log: ServerLog
    shared: Shared
    policy_version: str = ""
    ttl_s: float = 300.0
    env: ToolEnvironment = field(init=False)
    policy_token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    """Opens the tools of this lease's present episode, its first one where none has begun, and nothing else."""
    created: float = field(default_factory=time.monotonic)
    used: float = field(default_factory=time.monotonic)
    turns: anyio.Lock = field(default_factory=anyio.Lock)
    """For callers that wait for each other, as the calls of one agent program do; all others are refused while a call is under way."""
    sockets: int = 0
    """A socket that is open is a heartbeat."""
    had_socket: bool = False
    closed: str = ""
    """Why it ended; empty while it lives."""
    ended: anyio.Event = field(default_factory=anyio.Event)
    course: Course | None = None
    _episode_log: EpisodeLog | None = None
    _episodes: int = 0
    _busy: str = ""
    _idle: anyio.Event = field(default_factory=anyio.Event)
    _winding: anyio.Event | None = None
    _last: tuple[str, dict[str, Json] | Problem] | None = None
    """Id and reply of the latest call that had an id, for a caller who lost the connection before it came."""
    _pending: str = ""

    def __post_init__(self) -> None:
        self.env = self.world.environment()
        self._idle.set()

    # What a lease is

    @property
    def busy(self) -> str:
        """What is under way; empty where nothing is."""
        return self._busy

    def touch(self) -> None:
        """A sign of life."""
        self.used = time.monotonic()

    def forgive(self, seconds: float) -> None:
        """Leave time out of account in which the server heard nobody."""
        self.used += seconds

    def lapsed(self) -> str:
        """Why it is over by the clock, if it is."""
        now = time.monotonic()
        if now - self.created > self.shared.limits.lifetime_s:
            return "lifetime"
        idle_s = min(self.ttl_s, self.shared.limits.grace_s) if self.had_socket else self.ttl_s
        if not self.sockets and not self._busy and now - self.used > idle_s:
            return "ttl"
        return ""

    def described(self) -> dict[str, Json]:
        """OpenEnv's state, and the lease."""
        course = self.course
        return {
            "episode_id": course.episode_id if course else None,
            "step_count": course.steps if course else 0,
            "session_id": self.name,
            "world": self.world.name,
            "policy_version": self.policy_version,
            "done": course.done if course else True,
            "ttl_s": self.ttl_s,
            "age_s": round(time.monotonic() - self.created, 3),
            **({"task_id": course.named()["task_id"], "seed": course.info.seed, "split": course.info.task.split} if course else {}),
            **(course.outcome() if course else {}),
        }

    def schemas(self) -> list[dict[str, Json]]:
        """Tools of the episode, or of the world where none runs."""
        try:
            return list(self.env.tool_schemas)
        except NotReset:
            return self.world.schemas

    async def close(self, why: str) -> bool:
        """End the lease and its episode; whether it was still open. Idempotent."""
        if self.closed:
            return False
        self.closed = why
        self.ended.set()
        self.shared.counters.closed(self.world.name, why)
        with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE_S):
            await self._let_go()
        self._cancel_episode(f"the lease was closed: {why}")
        return True

    async def _let_go(self) -> None:
        """Give the episode up. A call that cannot be cancelled does not hold up whoever no longer waits for this."""
        ended = anyio.Event()

        async def end() -> None:
            await self.env.close()
            ended.set()

        self.shared.tasks.start_soon(end)
        await ended.wait()
        if self._winding is not None:
            await self._winding.wait()

    # Calls

    async def answer(self, what: str, call_id: str, work: Work) -> dict[str, Json]:
        """Do `work` as the only call of this lease, and give what it gives. With an id, the same call made again gives the same reply.

        Raises:
            Problem: another call is under way, the lease is closed, or `work` could not be done.
        """
        call_id = call_id and f"{what} {call_id}"
        if call_id and self._pending == call_id:
            await self._idle.wait()
        if call_id and self._last is not None and self._last[0] == call_id:
            return _given(self._last[1])
        found: dict[str, Json] | Problem
        try:
            found = await self._alone(what, call_id, work)
        except Problem as problem:
            if problem.retry_after_s is not None:  # to be asked again, which is another call
                raise
            found = problem
        if call_id:
            self._last = (call_id, found)
        return _given(found)

    async def _alone(self, what: str, call_id: str, work: Work) -> dict[str, Json]:
        with self._claimed(what, call_id):
            if self._winding is not None:
                with anyio.move_on_after(self.shared.limits.step_s):
                    await self._winding.wait()
                if self._winding is not None:
                    raise Problem(Code.SESSION_BUSY, "an earlier call that took too long is still being given up", retry_after_s=1.0)
            return await self._bounded(what, work)

    @contextmanager
    def _claimed(self, what: str, call_id: str) -> Iterator[None]:
        if self.closed:
            raise no_session(self.name)
        if self._busy:
            raise Problem(
                Code.SESSION_BUSY,
                f"{what}: the lease {self.name} has a {self._busy} under way; a lease takes one call at a time, wait for its reply",
                retry_after_s=0.1,
            )
        self._busy, self._pending, self._idle = what, call_id, anyio.Event()
        try:
            yield
        finally:
            self._busy = self._pending = ""
            self._idle.set()
            self.touch()

    async def _bounded(self, what: str, work: Work) -> dict[str, Json]:
        done, scope, box = anyio.Event(), anyio.CancelScope(), list[dict[str, Json] | Exception]()

        async def run() -> None:
            try:
                with scope:
                    box.append(await work())
            except Exception as error:  # noqa: BLE001 - raised again where it is waited for
                box.append(error)
            finally:
                done.set()
                if self._winding is done:
                    self._winding = None

        self.shared.tasks.start_soon(run)
        try:
            with anyio.move_on_after(self.shared.limits.step_s):
                await done.wait()
        except BaseException:  # whoever asked is gone
            self._give_up(done, scope)
            raise
        if not done.is_set():
            self._give_up(done, scope)
            message = (
                f"{what} took longer than {self.shared.limits.step_s:g} s and was given up; the episode is over and has no reward."
                " Reset to go on."
            )
            self.shared.counters.failed(self.world.name, TIMEOUT)
            self._fail_episode(Ending(EndKind.FAILED, TIMEOUT, message))
            raise Problem(Code.EXECUTION_ERROR, message, status=504, failure_kind=TIMEOUT, reward=None, done=True)
        if not box:
            raise no_session(self.name)  # it was closed meanwhile
        if isinstance(found := box[0], Exception):
            raise self._told(what, found)
        return found

    def _give_up(self, done: anyio.Event, scope: anyio.CancelScope) -> None:
        if not done.is_set():
            self._winding = done
            scope.cancel()

    def _told(self, what: str, error: Exception) -> Problem:
        problem = problem_of(error)
        if self.closed:
            return no_session(self.name)
        if problem.facts.get("failure_kind"):
            _log.error("%s of lease %s failed", what, self.name, exc_info=error)
            self.shared.counters.failed(self.world.name, str(problem.facts["failure_kind"]))
        return problem

    # What is done in an episode

    async def reset(self, ask: Reset) -> dict[str, Json]:
        """Begin an episode."""
        if ask.injected_state is not None:
            return await self.restore(ask.injected_state.snapshot, ask)
        task_id, seed = self.world.chosen(ask)
        began = time.perf_counter()
        try:
            first = await self.env.reset(task_id, seed)
        except TaskError:
            raise  # the episode that runs goes on
        except BaseException:
            self._cancel_episode("another reset")
            raise
        self._note(ask)
        self._cancel_episode("another reset")
        await self._must_be_wanted("reset")
        info = self.env.reset_info
        self._begin(Course(info, ask.episode_id or self._next_name()))
        self._write(lambda log: log.start(first, info))
        self.shared.counters.reset(self.world.name, time.perf_counter() - began)
        return self._begun(first)

    async def step(self, action: AnyAction) -> dict[str, Json]:
        """Take a step, or list the tools."""
        if isinstance(action, ListTools):
            return {"observation": {"tools": replies.tool_list(self.schemas())}, "reward": None, "done": False, "metadata": {}}
        course = self._running()
        sampled = sampled_of(action)
        if self.shared.slow:
            async with self.shared.turnstile:
                await anyio.lowlevel.checkpoint()
        began = time.perf_counter()
        step = await self.env.step(sampled.action)
        self.shared.slow = time.perf_counter() - began > SLOW_S
        await self._must_be_wanted("step")
        took = time.perf_counter() - began
        self._write(lambda log: log.step(sampled, step, took * 1000))
        course.add(step)
        self.shared.counters.stepped(self.world.name, step, took, self.world.tool_names)
        return replies.stepped(action, step, course)

    async def snapshot(self) -> dict[str, Json]:
        """Keep the whole state; gives its key as `snapshot`."""
        course = self._running()
        try:
            found = await self.env.snapshot()
        except SandboxError as error:
            self._lost_if_over(error)
            raise
        return {"snapshot": self.shared.shelf.keep(Kept(found, self.world.name, dict(course.components), self._lines()))}

    async def restore(self, key: str, ask: Reset | None = None) -> dict[str, Json]:
        """Go on from a snapshot that is kept."""
        kept = self.shared.shelf.find(key, self.world.name)
        self._note(ask or Reset())
        began = time.perf_counter()
        try:
            seen = await self.env.restore(kept.snapshot)
        except SandboxError as error:
            self._lost_if_over(error)
            raise
        self._cancel_episode("another start from a snapshot")
        await self._must_be_wanted("restore")
        self._go_on(kept.snapshot.step, kept.components, kept.lines, ask.episode_id if ask else None)
        self.shared.counters.reset(self.world.name, time.perf_counter() - began)
        return self._begun(seen)

    async def fork(self, count: int, into: Callable[[int], list["Session"]]) -> list["Session"]:
        """Make `count` leases whose episodes go on from here; `into` makes them, and the caller closes them where this raises."""
        course = self._running()
        envs = await self.env.fork(count, wait_s=self.shared.limits.wait_s)
        try:
            await self._must_be_wanted("fork")
            made = into(count)
        except BaseException:
            for env in envs:
                await env.close()
            raise
        for session, env in zip(made, envs, strict=True):
            session.env = env
        for session in made:
            session._go_on(course.steps, course.components, self._lines())
        return made

    def _go_on(self, steps: int, components: Mapping[str, float], lines: Sequence[Line], name: str | None = None) -> None:
        """Take up an episode that came so far, in this lease or another."""
        self._begin(Course(self.env.reset_info, name or self._next_name(), steps, components=dict(components)))
        self._write(lambda log: log.resume(lines))

    def _begin(self, course: Course) -> None:
        if self.course is not None:  # an agent program of the episode before must not act in this one
            self.policy_token = secrets.token_urlsafe(24)
        self.course, info = course, course.info
        self._episode_log = self.log.episode(course.episode_id, str(info.task.id), info.seed, self.policy_version)

    def _begun(self, seen: Observation) -> dict[str, Json]:
        assert self.course is not None
        return replies.begun(seen, self.course, self.env.tool_schemas, self.policy_token)

    def _lines(self) -> tuple[Line, ...]:
        """Of the trajectory so far."""
        return tuple(self._episode_log.lines) if self._episode_log else ()

    def _write(self, put: Callable[[EpisodeLog], None]) -> None:
        """Write lines of the running episode, which is over and not scored where they cannot be written."""
        if self._episode_log is None:
            return
        try:
            put(self._episode_log)
        except OSError as error:
            self._fail_episode(boundary(error))
            raise

    def _running(self) -> Course:
        if self.course is None or self.course.done:
            raise NotReset("call reset first (a new one is needed after an episode has ended)")
        return self.course

    async def _must_be_wanted(self, what: str) -> None:
        """Undo what came to its end although it was given up before: its caller was told that the episode is over."""
        if self.closed or self._winding is not None:
            await self.env.close()
            raise NotReset(f"{what}: it was given up before it ended")

    def _note(self, ask: Reset) -> None:
        if ask.policy_version is not None:
            self.policy_version = ask.policy_version

    def _next_name(self) -> str:
        self._episodes += 1
        return f"{self.name}#{self._episodes}"

    def _lost_if_over(self, error: Exception) -> None:
        try:
            _ = self.env.live
        except NotReset:
            self._fail_episode(boundary(error))

    def _fail_episode(self, ending: Ending) -> None:
        if self.course is not None:
            self.course.end(str(ending.cause), failed=True)
        self._write_last(lambda log: log.fail(ending))

    def _cancel_episode(self, why: str) -> None:
        if self.course is not None:
            self.course.end(CANCELLED)
        self._write_last(lambda log: log.cancel(why))

    def _write_last(self, put: Callable[[EpisodeLog], None]) -> None:
        """Write the end of an episode that is over; that it cannot be written is no reason not to go on."""
        if self._episode_log is None:
            return
        try:
            put(self._episode_log)
        except OSError:
            _log.exception("the end of an episode of lease %s cannot be written", self.name)


def _given(found: dict[str, Json] | Problem) -> dict[str, Json]:
    if isinstance(found, Problem):
        raise found
    return found
