"""An episode as a chat: what a model would have been asked and have answered, with what it earned.

The last message is the model's; the observation after it was seen by nobody.
"""

import json
from collections.abc import Iterator
from enum import StrEnum

from wardian.rollouts.actions import from_part
from wardian.rollouts.chat import Chat, ChatMessage
from wardian.rollouts.export.schemas import ToolSchemas
from wardian.rollouts.export.selection import Episode
from wardian.rollouts.records import Json


class Arguments(StrEnum):
    """How the arguments of a call stand in a message."""

    TEXT = "text"
    """One string of JSON, as OpenAI's format has it."""
    OBJECT = "object"
    """An object, as chat templates want it."""


def messages_of(episode: Episode, arguments: Arguments = Arguments.TEXT) -> list[ChatMessage]:
    """The messages of an episode."""
    chat = Chat.begin(episode.start.observation.rendered)
    for number, step in enumerate(episode.steps):
        if number:
            chat.answer(episode.steps[number - 1].observation.rendered)
        chat.act(from_part(step.action), step.sample.text or "" if step.sample else "")
    if arguments is Arguments.OBJECT:
        for call in (call for message in chat.messages for call in message.get("tool_calls", ())):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return chat.messages


def chat_row(episode: Episode, schemas: ToolSchemas, arguments: Arguments = Arguments.TEXT) -> dict[str, Json]:
    """One conversation with its tools, and what is known of it."""
    return {
        "messages": messages_of(episode, arguments),
        "tools": schemas.of(episode.start),
        **facts_of(episode),
        "samples": [step.sample.model_dump() if step.sample else None for step in episode.steps],
    }


def facts_of(episode: Episode) -> dict[str, Json]:
    """What is known of an episode beside what happened in it."""
    end = episode.end
    return {
        "episode_id": end.episode_id,
        "task_id": end.task_id,
        "task_hash": end.task_hash,
        "split": end.split or episode.start.split,
        "canary": episode.start.canary,
        "env_version": end.env_version,
        "policy": end.policy,
        "policy_checkpoints": [step.policy_checkpoint for step in episode.steps],
        "reward": end.reward,
        "reward_components": dict(end.reward_components),
        "succeeded": end.succeeded,
        "verdict": end.verdict.model_dump() if end.verdict else None,
        "outcome": end.outcome,
        "end_cause": end.end_cause,
        "steps": end.steps,
        "mask": end.mask,
    }


def turns_of(row: dict[str, Json]) -> Iterator[dict[str, Json]]:
    """Cut a chat row into one for each turn of the model: `prompt` is all before it, `completion` the turn alone."""
    messages, rest = row["messages"], {name: value for name, value in row.items() if name not in ("messages", "samples")}
    turn = 0
    for place, message in enumerate(messages):
        if message["role"] == "assistant":
            turn += 1
            yield {"prompt": messages[:place], "completion": [message], **rest, "turn": turn}
