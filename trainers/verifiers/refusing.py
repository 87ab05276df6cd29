"""Calls that a harness could not make: no such tool, or arguments that are no JSON object. It answers them itself; the world must know."""

import json

import verifiers.v1 as vf


def unmade_call(request: vf.Request) -> vf.ToolCall | None:
    """The call whose result ends the request, if it never reached a tool.

    An empty result is verifiers' own question whether the call may be made.
    """
    result = request.messages[-1]
    if not isinstance(result, vf.ToolMessage) or not result.content:
        return None
    calls = (
        call for message in reversed(request.messages) if isinstance(message, vf.AssistantMessage) for call in message.tool_calls or ()
    )
    call = next((call for call in calls if call.id == result.tool_call_id), None)
    if call is None or (call.name in {tool.name for tool in request.tools or ()} and _is_object(call.arguments)):
        return None
    return call


def _is_object(arguments: str) -> bool:
    try:
        return isinstance(json.loads(arguments or "{}"), dict)
    except (ValueError, RecursionError):
        return False
