"""The tool `wait`: the agent lets world time pass. Nothing waits for real, and nothing else is done."""

from datetime import timedelta
from typing import Any

from pydantic import Field

from wardian.tools.contract import Arguments, Json, Latency, Source, Tool, ToolContext

LONGEST_S = 3600


class WaitArguments(Arguments):
    seconds: int = Field(ge=1, le=LONGEST_S, description="How long, in seconds of world time.")


async def pause(context: ToolContext, arguments: WaitArguments) -> Json:
    """Let the time pass; gives what the clock will say."""
    context.extra_ms = arguments.seconds * 1000
    return {"waited_s": arguments.seconds, "world_time": context.now + timedelta(seconds=arguments.seconds)}


WAIT: Tool[Any] = Tool(
    name="wait",
    description=(
        f"Let time pass, from 1 to {LONGEST_S} seconds, and do nothing meanwhile. For what only time mends: a tool that takes no more "
        "calls for now, a copy that lags behind, a decision that is awaited. Gives the world time after it."
    ),
    arguments=WaitArguments,
    handler=pause,
    source=Source.CLOCK,
    latency=Latency(0, 0),
    errors=(),
)
