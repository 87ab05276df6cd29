"""Actions to and from their place in a trajectory, so that the action that is logged is exactly the one that was taken."""

import json

from wardian.envs.action import Action, Malformed, Message, ToolCalls
from wardian.rollouts.records import ActionPart, CallPart
from wardian.tools.contract import Json, ToolCall


def sound(action: Action) -> Action:
    """Give `action` as a log can hold it; take this one in its stead.

    Arguments that JSON holds come back as JSON has them (a tuple as a list, keys as text). Those that it does not hold, such as NaN,
    become the model's raw text, which the environment refuses like any other text that is no JSON.
    """
    match action:
        case ToolCalls(calls):
            return ToolCalls(tuple(_sound_call(call) for call in calls))
        case Message(text):
            return Message(str(text))
        case Malformed(raw, reason):
            return Malformed(str(raw), str(reason))


def _sound_call(call: ToolCall) -> ToolCall:
    tool = str(call.tool)
    if isinstance(call.args, str):
        return ToolCall(tool, call.args)
    try:
        return ToolCall(tool, json.loads(json.dumps(call.args, allow_nan=False)))
    except (ValueError, TypeError, RecursionError):
        return ToolCall(tool, _as_text(call.args))


def _as_text(args: Json) -> str:
    try:
        return json.dumps(args, default=repr)
    except (ValueError, TypeError, RecursionError):
        return "(arguments that are no JSON)"


def to_part(action: Action) -> ActionPart:
    """The action as a record holds it."""
    match action:
        case ToolCalls((only,)):
            return ActionPart(type="tool_call", tool=only.tool, args=only.args)
        case ToolCalls(calls):
            parts = [CallPart(tool=call.tool, args=call.args) for call in calls]
            return ActionPart(type="tool_calls", tool=parts[0].tool if parts else None, args=parts[0].args if parts else None, calls=parts)
        case Message(text):
            return ActionPart(type="message", tool=None, args=None, text=text)
        case Malformed(raw, reason):
            return ActionPart(type="malformed", tool=None, args=None, raw=raw, reason=reason)


def from_part(part: ActionPart) -> Action:
    """The action that a record holds.

    Raises:
        ValueError: the parts do not make an action of that type; names the missing one.
    """
    match part:
        case ActionPart(type="tool_call", tool=str(tool), args=dict() | str() as args):
            return ToolCalls((ToolCall(tool, args),))
        case ActionPart(type="tool_calls", calls=list(calls)):
            return ToolCalls(tuple(ToolCall(call.tool, call.args) for call in calls))
        case ActionPart(type="message", text=str(text)):
            return Message(text)
        case ActionPart(type="malformed", raw=str(raw), reason=str(reason)):
            return Malformed(raw, reason)
    needed = {"tool_call": "tool, args", "tool_calls": "calls", "message": "text", "malformed": "raw, reason"}[part.type]
    raise ValueError(f"action: one of type {part.type} needs {needed}")


def action_text(part: ActionPart, limit: int = 200) -> str:
    """The action in one line for people, cut after `limit` characters."""
    match part.type:
        case "message":
            text = f"message {part.text!r}"
        case "malformed":
            text = f"malformed output {part.raw!r}"
        case _:
            calls = part.calls if part.calls is not None else [CallPart(tool=part.tool or "", args=part.args or {})]
            text = "; ".join(f"{call.tool} {call.args if isinstance(call.args, str) else json.dumps(call.args)}" for call in calls)
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= limit else f"{text[:limit]}..."
