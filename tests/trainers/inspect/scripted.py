"""Models that play by a script, for Inspect's `mockllm`."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from inspect_ai.model import ChatMessage, GenerateConfig, Model, ModelOutput, ModelUsage, get_model
from inspect_ai.model import ChatMessageAssistant as Said
from inspect_ai.tool import ToolCall, ToolChoice, ToolInfo

Turn: TypeAlias = str | Sequence[tuple[str, dict[str, Any]]] | ModelOutput
"""A message, or calls."""
Script: TypeAlias = Callable[[list[ChatMessage], list[ToolInfo]], Turn]


def model(script: Script) -> Model:
    """Acts by what `script` makes of the messages and tools that a model would get."""

    def answer(messages: list[ChatMessage], tools: list[ToolInfo], choice: ToolChoice, config: GenerateConfig) -> ModelOutput:
        turn = script(messages, tools)
        output = turn if isinstance(turn, ModelOutput) else output_of(turn)
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # else it fetches a tokenizer
        return output

    return get_model("mockllm/model", custom_outputs=answer, memoize=False)


def output_of(turn: str | Sequence[tuple[str, dict[str, Any]]]) -> ModelOutput:
    if isinstance(turn, str):
        return ModelOutput.from_content("mockllm/model", turn)
    calls = [ToolCall(f"call{index}", name, arguments) for index, (name, arguments) in enumerate(turn)]
    return ModelOutput.from_message(Said(content="", tool_calls=calls), stop_reason="tool_calls")


def turns(messages: list[ChatMessage]) -> int:
    """How often the model acted."""
    return sum(message.role == "assistant" for message in messages)


def asked(messages: list[ChatMessage]) -> tuple[str, int]:
    """Word and number of a task of the world `worlds:faulty`."""
    words = next(message.text for message in messages if message.role == "user").split()
    return words[3].strip(","), int(words[4])


def solves(messages: list[ChatMessage], tools: list[ToolInfo]) -> Turn:
    """Solves a task of `worlds:faulty`, a call at a time."""
    word, times = asked(messages)
    return [("echo", {"text": word})] if turns(messages) < times else "Done."


def first(*before: Turn, then: Script = solves) -> Script:
    """Takes these turns, then follows another script, which does not see them."""

    def script(messages: list[ChatMessage], tools: list[ToolInfo]) -> Turn:
        done = turns(messages)
        if done < len(before):
            return before[done]
        task = next(message for message in messages if message.role == "user")
        own = [message for message in messages if message.role == "assistant"][len(before) :]
        return then([task, *own], tools)

    return script
