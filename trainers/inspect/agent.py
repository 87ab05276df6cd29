"""A plain agent: the model acts until the episode is over, by the same rules as under `wardian run`.

Calls go through Inspect's own `execute_tools`, so approval, review, limits and the transcript are as in any evaluation; but whether a
call is one is for the environment to say, which counts invalid ones.
"""

import json
from dataclasses import replace
from functools import partial

from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageUser, ModelOutput, execute_tools, get_model
from inspect_ai.solver import Generate, Solver, TaskState, solver

from wardian.envs.action import ToolCalls
from wardian.rollouts.chat import NOTHING
from wardian.rollouts.inference.completion import Completion
from wardian.rollouts.inference.reading import read
from wardian.tools.contract import Json
from wardian.trainers.inspect.grounds import playing
from wardian.trainers.inspect.playing import EpisodeFailed, Playing
from wardian.trainers.inspect.tools import as_tools, info_of, unchecked

FINISHES = {"max_tokens": "length", "model_length": "length", "content_filter": "content_filter"}


@solver
def wardian_agent() -> Solver:
    """Play the sample's episode to its end."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        episode = playing(state.uuid)
        if episode is None:
            raise EpisodeFailed("wardian_agent: this sample has no episode; use it in wardian_task")
        episode.words_apart = True
        tools = [info_of(schema) for schema in episode.schemas]
        while not episode.over:
            state.output = await get_model().generate(state.messages, tools)
            state.messages.append(state.output.message)
            await _act(episode, state)
        state.completed = True
        return state

    return solve


async def _act(episode: Playing, state: TaskState) -> None:
    """Do what the model said, and add what it is told. Called with the model's message as the last one."""
    message = state.messages[-1]
    assert isinstance(message, ChatMessageAssistant)
    action = read(completion_of(state.output, message), None).action
    if isinstance(action, ToolCalls):
        state.messages += await _called(episode, message)
        if words := episode.take_words():
            state.messages.append(ChatMessageUser(content="\n".join(words)))
        return
    if message.tool_calls:  # calls that are none have no results, and no endpoint takes a call without one
        state.messages[-1] = message.model_copy(update={"tool_calls": None, "content": message.text or NOTHING})
    state.messages.append(ChatMessageUser(content=await episode.take(action)))


async def _called(episode: Playing, message: ChatMessageAssistant) -> list[ChatMessage]:
    """Run the calls of a message one after another; gives their results as messages."""
    found: list[ChatMessage] = []
    for one in message.tool_calls or ():
        run = episode.call if one.parse_error is None else partial(_unread, episode, one.parse_error)
        shown = replace(one, parse_error=None)
        tool = unchecked(one.function, run)
        done = await execute_tools([message.model_copy(update={"tool_calls": [shown]})], as_tools([tool]))
        found += done.messages
    return found


async def _unread(episode: Playing, arguments: str, name: str, _: dict[str, Json]) -> str:
    """A call whose arguments Inspect could not read: the environment gets what it says of them."""
    return await episode.call(name, arguments)


def completion_of(output: ModelOutput, message: ChatMessageAssistant) -> Completion:
    """What Inspect's model gave, as one of ours."""
    calls = tuple(
        {"id": one.id, "function": {"name": one.function, "arguments": one.parse_error or json.dumps(one.arguments)}}
        for one in message.tool_calls or ()
    )
    return Completion(message.text, calls, FINISHES.get(output.stop_reason, output.stop_reason))
