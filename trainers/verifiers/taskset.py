"""Tasks of a world that a server plays, and the hooks around an episode of one.

`setup` leases a session, called as the rollout; `finalize` ends what the rollout left unfinished, and closes the lease. A rollout that
does not come to that is closed by `WardianEnv`, and one whose process died by the server, when the lease lapses.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar

import verifiers.v1 as vf
from pydantic import Field, model_validator

import wardian
from wardian.trainers.client import ServerError, Turn
from wardian.trainers.verifiers.export import URL
from wardian.trainers.verifiers.lease import Lease
from wardian.trainers.verifiers.refusing import unmade_call
from wardian.trainers.verifiers.state import WardianState
from wardian.trainers.verifiers.toolset import WardianToolset, WardianToolsetConfig

TOKEN_ENV = "WARDIAN_API_KEY"
PAGE = 1_000
"""So many tasks are asked for at once."""


class WardianData(vf.TaskData):
    """Which task it is. Its text comes from the server when the episode begins."""

    world: str
    split: str
    seed: int
    """Of the episode's streams: events and faults."""


class WardianTaskConfig(vf.TaskConfig):
    """Filled from the taskset's; not to be set."""

    url: str = URL
    token_env: str = TOKEN_ENV
    wait_s: float = 600.0


class WardianConfig(vf.TasksetConfig):
    task: WardianTaskConfig = WardianTaskConfig()
    url: str = URL
    """Where `wardian serve` listens."""
    token_env: str = TOKEN_ENV
    """The environment variable that holds the server's token, where it wants one. verifiers keeps variables with API_KEY in their name
    from the programs that a model runs."""
    split: str = "train"
    """`train` or `eval`. A server for training serves no other split than `train`."""
    wait_s: float = Field(600.0, gt=0)
    """How long a rollout waits for room on the server, in seconds."""

    @model_validator(mode="after")
    def _one_server(self) -> "WardianConfig":
        self.task = self.task.model_copy(update={"url": self.url, "token_env": self.token_env, "wait_s": self.wait_s})
        return self


class WardianTask(vf.Task[WardianData, WardianState, WardianTaskConfig]):
    @property
    def key(self) -> str:
        """The same in every run, wherever the task stands in a list."""
        return f"{self.data.world}/{self.data.id}@{self.data.seed}"

    async def setup(self, trace: vf.Trace) -> None:
        """Lease a session and begin the episode."""
        token, config = token_in(self.config.token_env), self.config
        async with wardian.connect(config.url, token) as client:
            lease = Lease(client, trace.id)
            ttl_s = await lease.make(self.data.world, trace.agent.config.model or "", config.wait_s)
            try:
                first = await lease.reset(self.data.id or "", self.data.seed, config.wait_s)
            except BaseException:
                await lease.close()
                raise
        trace.state = WardianState(session=trace.id, ttl_s=ttl_s, token=token, opening=first.text, tools=list(first.tools))

    @vf.intercept
    async def tell_of_unmade_calls(self, request: vf.Request, trace: vf.Trace) -> vf.Request | None:
        """Let the world count, and answer, a call that the harness could not make."""
        call = unmade_call(request)
        if call is None or trace.state.course.over:
            return None
        turn = await self.act(trace, {"type": "tool_calls", "calls": [{"tool": call.name, "arguments": call.arguments}]})
        answer = request.messages[-1].model_copy(update={"content": turn.text or request.messages[-1].content})
        return request.model_copy(update={"messages": [*request.messages[:-1], answer]})

    @vf.stop
    async def episode_over(self, request: vf.Request, trace: vf.Trace) -> bool:
        """No model is asked what to do in an episode that is over."""
        return bool(trace.state.course.over)

    async def act(self, trace: vf.Trace, action: dict[str, Any]) -> Turn:
        """Take a step outside the tool server.

        Raises:
            ServerError: the server could not be asked, or the lease is lost.
        """
        async with self._lease(trace) as lease:
            turn = await lease.step(action)
        trace.state.course.take(turn)
        return turn

    async def finalize(self, trace: vf.Trace) -> None:
        """End an episode that the rollout left unfinished, so that it is judged as far as it came; close the lease."""
        cause = ""
        if trace.state.session and not trace.state.course.over:
            cause = trace.stop_condition or "unfinished"
            await self.act(trace, {"type": "message", "text": ""})
        await self.close(trace)
        course = trace.state.course
        trace.info["wardian"] = {
            "task_id": self.data.id,
            "seed": self.data.seed,
            "end_cause": cause or course.end_cause,
            "failure_kind": course.failure_kind,
            "message": course.message,
        }

    async def close(self, trace: vf.Trace) -> None:
        """End the lease, if there is one. Idempotent. Where the server does not answer, it lapses there."""
        if trace.state.session:
            with suppress(ServerError):
                async with self._lease(trace) as lease:
                    await lease.close()
            trace.state.session = ""

    async def keep(self, trace: vf.Trace) -> None:
        """Say again and again that the lease is in use, until cancelled."""
        async with self._lease(trace) as lease:
            while True:
                await asyncio.sleep(trace.state.ttl_s / 3)
                with suppress(ServerError):
                    await lease.heartbeat()

    @vf.reward
    async def reward(self, trace: vf.Trace) -> float:
        """What the world's verifier and costs came to.

        Raises:
            Unscored: the episode failed, or did not end.
        """
        return float(trace.state.course.score())

    @vf.metric
    async def outcome(self, trace: vf.Trace) -> dict[str, float]:
        """Of the episode: success, steps, tokens of the model, calls that failed by status, and each component of the reward."""
        course = trace.state.course
        found = {"steps": float(course.steps), "tokens": float(trace.num_total_tokens), "truncated": float(course.truncated)}
        if course.succeeded is not None:
            found["success"] = float(course.succeeded)
        found |= {f"errors_{status}": float(count) for status, count in course.errors.items()}
        return {**found, **{f"component_{name}": value for name, value in course.components.items()}}

    @asynccontextmanager
    async def _lease(self, trace: vf.Trace) -> AsyncIterator[Lease]:
        async with wardian.connect(self.config.url, trace.state.token) as client:
            yield Lease(client, trace.state.session)


class WardianTaskset(vf.Taskset[WardianTask, WardianConfig]):
    """A package of `wardian export verifiers` says which world."""

    WORLD: ClassVar[str]
    VERSION: ClassVar[str]

    def load(self) -> Iterator[WardianTask]:
        """List the server's tasks of the split, a page at a time.

        Raises:
            ServerError: the server does not answer, or does not serve the world or the split.
            ValueError: it serves another version of the world.
        """
        config = self.config
        with wardian.connect(config.url, token_in(config.token_env)) as client:
            self._must_be_served(client.info())
            for start in range(0, client.num_tasks(config.split, self.WORLD), PAGE):
                for listed in client.tasks(config.split, start, start + PAGE, self.WORLD):
                    yield WardianTask(self._data(listed), config.task)

    def _must_be_served(self, info: dict[str, Any]) -> None:
        served = info["world_versions"]
        if self.WORLD not in served:
            raise ValueError(f"url: {self.config.url} serves {', '.join(served)}, and not the world {self.WORLD} of this package")
        if served[self.WORLD] != self.VERSION:
            raise ValueError(
                f"url: {self.config.url} serves version {served[self.WORLD]} of the world {self.WORLD}, and this package is of version "
                f"{self.VERSION}; export it again with `wardian export verifiers`"
            )

    def _data(self, listed: dict[str, Any]) -> WardianData:
        name = f"{listed['family']}/{listed['difficulty']}"
        return WardianData(id=listed["task_id"], name=name, world=self.WORLD, split=listed["split"], seed=listed["seed"])

    @classmethod
    def toolsets(cls, config: WardianConfig) -> list[vf.Toolset]:
        """One tool server for all rollouts of a process."""
        return [WardianToolset(WardianToolsetConfig(server=config.url))]


def token_in(variable: str) -> str | None:
    """The token; `None` where the variable is not set, or empty, as for a server on this machine."""
    return os.environ.get(variable) or None
