"""One sample's episode, from the borrowed place to the score."""

from collections import Counter
from collections.abc import Sequence

import anyio

from wardian.envs.action import Action, Message, Step, ToolCalls
from wardian.envs.environment import ToolEnvironment
from wardian.envs.observation import parted
from wardian.tools.contract import Json, ToolCall

OVER = "The episode is over; this call was not run."


class EpisodeFailed(RuntimeError):
    """The environment failed, not the agent: the sample is an error, and has no score."""


class Playing:
    """Takes one turn at a time, whoever asks for several at once. `close` it."""

    def __init__(self, env: ToolEnvironment, task_id: str, seed: int, step_s: float, counts: Counter[str]) -> None:
        self._env, self._task_id, self._seed = env, task_id, seed
        self._step_s, self._counts = step_s, counts
        self._lock = anyio.Lock()
        self._closed = False
        self.schemas: tuple[dict[str, Json], ...] = ()
        """Of the episode's tools, in the OpenAI format."""
        self.last: Step | None = None
        self.steps = 0
        self.reward = 0.0
        """Of all steps so far."""
        self.components: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        """Calls by what came of them."""
        self.failure = ""
        self.words_apart = False
        """Whether what reached the agent without a call is kept in `words`, and not told with the next result."""
        self.words: list[str] = []

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return bool(self.failure) or (self.last is not None and self.last.done)

    async def begin(self) -> str:
        """Reset; gives the first observation.

        Raises:
            TaskError, SandboxError: as `ToolEnvironment.reset`.
        """
        self._counts["opened"] += 1
        first = await self._env.reset(self._task_id, self._seed)
        self.schemas = self._env.tool_schemas
        return first.rendered

    async def call(self, name: str, args: dict[str, Json] | str) -> str:
        """Call a tool; gives what the agent reads. After the end of the episode nothing is run.

        Raises:
            EpisodeFailed: through us.
        """
        async with self._lock:
            if self.over:
                return OVER
            return self._told(await self._take(ToolCalls((ToolCall(name, args),))))

    async def take(self, action: Action) -> str:
        """Take any other turn.

        Raises:
            EpisodeFailed: through us.
            NotReset: the episode is over.
        """
        async with self._lock:
            return (await self._take(action)).observation.rendered

    async def finish(self, answer: str) -> Step:
        """The last step of the episode. One that still runs hears `answer`, where there is one, and is cut off if it then goes on.

        Raises:
            EpisodeFailed: through us.
        """
        async with self._lock:
            if answer and not self.over:
                await self._take(Message(answer))
            if not self.over:
                self._note(await self._bounded(None))
            if self.failure or self.last is None:
                raise EpisodeFailed(self.failure or "the episode has no step")
            return self.last

    async def close(self) -> None:
        """Let go of the episode and its cell. Idempotent."""
        if not self._closed:
            self._closed = True
            await self._env.close()
            self._counts["closed"] += 1

    async def _take(self, action: Action) -> Step:
        step = await self._bounded(action)
        self._note(step)
        if step.failed is not None:
            self._counts["failed"] += 1
            self.failure = step.failed
            raise EpisodeFailed(step.failed)
        return step

    async def _bounded(self, action: Action | None) -> Step:
        """One step. A limit of Inspect's that passes meanwhile waits for its end, since a step that is broken off leaves no state to judge.

        Raises:
            EpisodeFailed: it took longer than a step may.
        """
        with anyio.move_on_after(self._step_s, shield=True):
            return await (self._env.truncate() if action is None else self._env.step(action))
        self._counts["failed"] += 1
        self.failure = f"timeout: a step took longer than {self._step_s:g} s"
        raise EpisodeFailed(self.failure)

    def _note(self, step: Step) -> None:
        self.last = step
        self.steps += 1
        self.reward += step.reward or 0.0
        self.components.update(step.reward_components)
        self.statuses.update(event.status.value for event in step.info.events)
        self._counts["calls"] += len(step.info.events)

    def _told(self, step: Step) -> str:
        results, incoming = parted(step.observation.rendered)
        if self.words_apart:
            self.words += incoming
            incoming = []
        return "\n".join([*results, *incoming])

    def take_words(self) -> Sequence[str]:
        """What reached the agent without a call of its own since the last look."""
        words, self.words = self.words, []
        return words
