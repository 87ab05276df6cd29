"""Idempotency keys: a second call with a key gets the first one's answer and does nothing."""

from typing import Any

from wardian.tools.attempt import Attempt
from wardian.tools.contract import Json, Status, Tool
from wardian.tools.outcomes import Outcome


def known(attempt: Attempt, tool: Tool[Any]) -> Outcome | None:
    """The answer that the call's key got before; a conflict where the call was another one then; `None` without a key or a first call."""
    key = key_of(attempt, tool)
    stored = attempt.world.memory.idempotency.get(f"{tool.name}/{key}") if key is not None else None
    if stored is None:
        return None
    if stored["args"] != _meant(attempt, tool):
        message = f"{tool.idempotency_key}: {key!r} was used before with other arguments. Use a new key for a new request."
        return Outcome(Status.CONFLICT, message=message)
    return Outcome(Status.OK, stored["content"])


def remember(attempt: Attempt, tool: Tool[Any], content: Json) -> None:
    """Keep the answer for later calls with this key."""
    key = key_of(attempt, tool)
    if key is not None:
        attempt.world.memory.idempotency[f"{tool.name}/{key}"] = {"args": _meant(attempt, tool), "content": content}


def key_of(attempt: Attempt, tool: Tool[Any]) -> str | None:
    """The key that the call carries."""
    key: str | None = attempt.args.get(tool.idempotency_key) if tool.idempotency_key else None
    return key


def _meant(attempt: Attempt, tool: Tool[Any]) -> dict[str, Json]:
    """What the call asks for, apart from how long its caller waits."""
    return {name: value for name, value in attempt.args.items() if name != tool.timeout_argument}
