"""The exchange between a model and a world: calls go through the tool server, a message ends a turn, and its answer begins the next."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import verifiers.v1 as vf

from wardian.envs.action import Malformed, Message
from wardian.rollouts.chat import opening
from wardian.rollouts.inference.completion import Completion
from wardian.rollouts.inference.reading import read
from wardian.trainers.verifiers.taskset import WardianTask

NO_REPLY = "no_reply"
"""Stop condition: the harness ended without a message of the model, as where its context is full."""


class WardianEnvConfig(vf.EnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})
    """The model that plays. By default it has the world's tools and no others, and needs neither a container nor an account."""


class WardianEnv(vf.Env[WardianEnvConfig]):
    async def run(self, task: WardianTask, agents: vf.Agents) -> None:
        """Play one episode. Its lease is closed, whatever happens."""
        trace: vf.Trace | None = None
        try:
            async with agents.agent.interaction(task) as exchange:
                trace = exchange.trace
                async with _kept(task, trace):
                    await _converse(task, exchange, chat=agents.agent.harness.SUPPORTS_RESUME)
        finally:
            if trace is not None:
                await task.close(trace)


async def _converse(task: WardianTask, exchange: vf.Interaction, *, chat: bool) -> None:
    """Take turns until the episode or the rollout is over. With `chat` the harness takes a system message."""
    trace = exchange.trace
    said: Any = opening(trace.state.opening) if chat else trace.state.opening
    while not trace.state.course.over:
        segment = await exchange.turn(said)
        if segment.terminated or trace.stop_condition is not None:
            return
        if not _is_message(segment):
            trace.stop(NO_REPLY)
            return
        said = (await task.act(trace, _action(trace, segment.last_reply))).text


def _is_message(segment: vf.Segment) -> bool:
    last = segment.messages[-1] if segment.messages else None
    return isinstance(last, vf.AssistantMessage) and not last.tool_calls


def _action(trace: vf.Trace, text: str) -> dict[str, Any]:
    """What a model's text is to the world, by the rules that hold for a model of `wardian run`."""
    finish = next((call.finish_reason for call in reversed(trace.calls) if call.error is None), None)
    match read(Completion(text, finish=finish or ""), None).action:
        case Malformed(raw, reason):
            return {"type": "malformed", "raw": raw, "reason": reason}
        case Message(said):
            return {"type": "message", "text": said}
    raise AssertionError("a text without calls of the API holds none")


@asynccontextmanager
async def _kept(task: WardianTask, trace: vf.Trace) -> AsyncIterator[None]:
    """Keep the lease from lapsing while a model thinks."""
    beating = asyncio.create_task(task.keep(trace))
    try:
        yield
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating
