"""An episode of an environment of this process, step by step, with its lines of a trajectory."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from wardian.envs.action import Action, Malformed, Message, Observation, ToolCalls
from wardian.envs.ending import EndCause, boundary
from wardian.envs.environment import ToolEnvironment
from wardian.rollouts.actions import sound
from wardian.rollouts.policies.sampled import Sampled
from wardian.rollouts.records import EpisodeEnd
from wardian.tools.contract import Json, ToolCall
from wardian.trainers.episode_log import EpisodeLog
from wardian.trainers.mcp.handle import Answer, EpisodeFailed, EpisodeOver

UNDER_WAY_S = 1.0
"""For a call that is under way when the agent leaves."""
VERDICT_S = 20.0
"""For the verdict then."""
UNWRITABLE = "trajectory"
"""Kind of the failure of an episode whose lines cannot be written."""


@dataclass(slots=True)
class _Asked:
    """An action that waits for its turn, and what came of it."""

    action: Action
    begun: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event = field(default_factory=anyio.Event)
    answer: Answer | None = None


class LocalEpisode:
    """One episode: `begin` it, let `run` work through what is asked, and `finish` it.

    Whoever asks does not carry the action out: `run` does, in a task of its own, so that a caller who gives up ends nothing.
    """

    def __init__(self, env: ToolEnvironment, log: EpisodeLog) -> None:
        self._env, self._log = env, log
        self._asking, self._asked = _queue()
        self._first = Observation("", 0)
        self._schemas: Sequence[Mapping[str, Json]] = ()
        self._steps = 0
        self.unwritable: OSError | None = None
        """Why a line could not be written; the episode is over then, and not scored."""

    @property
    def end(self) -> EpisodeEnd | None:
        """The last line; `None` while the episode runs."""
        return self._log.end

    @property
    def schemas(self) -> Sequence[Mapping[str, Json]]:
        """Its tools, in the OpenAI function format."""
        return self._schemas

    @property
    def instructions(self) -> str:
        """The first observation."""
        return self._first.rendered

    async def begin(self, task_id: str, seed: int) -> None:
        """Reset to the task.

        Raises:
            TaskError, SandboxError: as the reset of an environment; the latter stands in the trajectory as a failed episode.
        """
        try:
            self._first = await self._env.reset(task_id, seed)
        except Exception as error:
            ending = boundary(error)
            if ending.cause == EndCause.INFRASTRUCTURE:
                self._log.fail(ending)
            raise
        self._schemas = self._env.tool_schemas
        self._log.start(self._first, self._env.reset_info)

    async def run(self) -> None:
        """Carry out what is asked, one after another, until cancelled."""
        with self._asking, self._asked:
            async for asked in self._asked:
                asked.begun.set()
                try:
                    if self.end is None and self.unwritable is None:
                        asked.answer = await self._step(asked.action)
                except OSError as error:
                    self.unwritable = error
                    await self._env.close()
                asked.ended.set()

    async def call(self, name: str, arguments: Mapping[str, Json]) -> Answer:
        """As `EpisodeHandle.call`."""
        return await self._ask(ToolCalls((ToolCall(name, dict(arguments)),)))

    async def say(self, text: str) -> Answer:
        """As `EpisodeHandle.say`."""
        return await self._ask(Message(text))

    async def refuse(self, raw: str, reason: str) -> Answer:
        """As `EpisodeHandle.refuse`."""
        return await self._ask(Malformed(raw, reason))

    async def leave(self) -> None:
        """The agent has left: if it did anything, it has nothing more to say, and what it did is judged as it stands.

        A call that is under way is waited for a moment, not longer: a client that left ends this process soon.
        """
        if self.end is not None or self.unwritable is not None or not self._steps:
            return
        last = self._put(Message(""))
        with anyio.move_on_after(UNDER_WAY_S):
            await last.begun.wait()
        if last.begun.is_set():
            with anyio.move_on_after(VERDICT_S):
                await last.ended.wait()

    def give_up(self, why: str) -> None:
        """End what still runs, unscored. Idempotent."""
        if self.unwritable is None:
            self._log.cancel(why)

    def _put(self, action: Action) -> _Asked:
        asked = _Asked(sound(action))
        self._asking.send_nowait(asked)
        return asked

    async def _ask(self, action: Action) -> Answer:
        asked = self._put(action)
        await asked.ended.wait()
        if asked.answer is not None:
            return asked.answer
        if self.end is None or self.unwritable is not None:
            raise EpisodeFailed(UNWRITABLE)
        if self.end.outcome == "failed":
            raise EpisodeFailed(self.end.end_cause)
        raise EpisodeOver(self.end.end_cause)

    async def _step(self, action: Action) -> Answer | None:
        """Take the step; `None` when it broke the episode."""
        began = time.perf_counter()
        step = await self._env.step(action)
        self._steps += 1
        self._log.step(Sampled(action), step, (time.perf_counter() - began) * 1000)
        if step.failed is not None:
            return None
        seen = step.observation
        return Answer(seen.rendered, seen.results[0], seen.incoming, str(step.info.end_cause))


def _queue() -> "tuple[MemoryObjectSendStream[_Asked], MemoryObjectReceiveStream[_Asked]]":
    """Unbounded: a program has as many calls under way as it has."""
    return anyio.create_memory_object_stream[_Asked](inf)
