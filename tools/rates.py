"""Rate counters of tools that declare a limit, in world time and as part of the world's state.

The window slides: of the calls that a tool took, no `calls + 1` lie within `per_s` seconds. Calls that were turned away for their rate,
and those that never reached the tool because their arguments were wrong, are not counted.
"""

from typing import Any

from wardian.sandbox.world import World
from wardian.tools.contract import Tool


def wait_ms(world: World, tool: Tool[Any]) -> int:
    """How long from now until `tool` takes a call; 0 when it takes one now."""
    if tool.rate_limit is None:
        return 0
    taken = _recent(world, tool)
    if len(taken) < tool.rate_limit.calls:
        return 0
    return taken[-tool.rate_limit.calls] + tool.rate_limit.per_s * 1000 - world.clock.now_ms


def count(world: World, tool: Tool[Any]) -> None:
    """Count a call that `tool` takes now."""
    if tool.rate_limit is not None:
        world.memory.notes.setdefault("rates", {})[tool.name] = [*_recent(world, tool), world.clock.now_ms]


def _recent(world: World, tool: Tool[Any]) -> list[int]:
    """World times of the calls that still count, oldest first."""
    assert tool.rate_limit is not None, "asked only for tools with a limit"
    since_ms = world.clock.now_ms - tool.rate_limit.per_s * 1000
    times: list[int] = world.memory.notes.get("rates", {}).get(tool.name, [])
    return [at_ms for at_ms in times if at_ms > since_ms]
