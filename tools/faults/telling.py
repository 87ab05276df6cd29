"""What each fault does to a tool, in words: what the agent sees, and what becomes of the state; all of it by the tool's contract."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from wardian.tools.contract import Tool
from wardian.tools.faults.kinds import Fault
from wardian.tools.faults.plan import FaultPlan, possible

UNTOUCHED = "untouched"
COMMITTED = "committed"


@dataclass(frozen=True, slots=True)
class Told:
    """One fault of one tool."""

    fault: Fault
    chance: float
    """Per call under the profile, before the bounds; 0 for a fault that only tasks demand."""
    sees: str
    state: str


def told(tool: Tool[Any], plan: FaultPlan, demanded: Iterable[Fault] = ()) -> tuple[Told, ...]:
    """All faults that can hit `tool` under `plan`, and those of `demanded` that its contract allows, in the order of `Fault`."""
    found = set(possible(tool, plan)).union(*(possible(tool, plan, wanted=fault) for fault in demanded))
    return tuple(Told(fault, plan.profile.rate(fault, tool.name), *_words(fault, tool, plan)) for fault in Fault if fault in found)


def _words(fault: Fault, tool: Tool[Any], plan: FaultPlan) -> tuple[str, str]:
    profile = plan.profile
    match fault:
        case Fault.RATE_LIMITED:
            span = f"for {_span(profile.retry_after_min_ms, profile.retry_after_max_ms)}" if plan.can_wait else "once"
            return f"rate_limited, {span}", UNTOUCHED
        case Fault.TIMEOUT_BEFORE:
            return "timeout", UNTOUCHED
        case Fault.TIMEOUT_AFTER:
            return "timeout", COMMITTED
        case Fault.STALE:
            return f"an older answer, at most {profile.max_lag_steps} steps back", UNTOUCHED
        case Fault.EMPTY:
            return f"ok with {json.dumps(tool.empty_page)}", UNTOUCHED
        case Fault.SLOW:
            return _slow(tool, plan)
        case Fault.REVOKED | Fault.MISSING:
            sees = "permission_denied" if fault is Fault.REVOKED else "permission_denied, at its first call"
            return sees, f"the agent holds {' or '.join(_scopes(tool, plan))} no longer"
        case Fault.PARTIAL:
            return "a part of the page, and next_cursor", UNTOUCHED
        case Fault.DUPLICATE:
            return "ok", f"committed twice; once with {tool.idempotency_key}"
        case Fault.CONFLICT:
            return "conflict", UNTOUCHED
        case Fault.LAGGING:
            return "ok", f"committed; replicas lag behind it for {_span(profile.lag_min_ms, profile.lag_max_ms)}"
        case Fault.UNAVAILABLE:
            return "unavailable", UNTOUCHED


def _slow(tool: Tool[Any], plan: FaultPlan) -> tuple[str, str]:
    """A slow call is answered late, or given up on where it outlasts its caller."""
    factor = plan.profile.latency_multiplier * plan.profile.slow_multiplier
    low_ms, high_ms = round(tool.latency.low_ms * factor), round(tool.latency.high_ms * factor)
    limit_ms = plan.patience_ms(tool)
    done = COMMITTED if tool.mutates else UNTOUCHED
    if high_ms <= limit_ms:
        return f"its answer after {_span(low_ms, high_ms)}", done
    late = f"timeout after {_seconds(limit_ms)}"
    sees = late if low_ms > limit_ms else f"its answer after up to {_seconds(limit_ms)}, or {late}"
    if not plan.lands_late(tool):
        return sees, done
    return sees, f"committed, after a timeout {_span(max(low_ms, limit_ms), high_ms)} after the call"


def _scopes(tool: Tool[Any], plan: FaultPlan) -> list[str]:
    return [scope for scope in tool.scopes if scope in plan.revocable_scopes]


def _span(low_ms: int, high_ms: int) -> str:
    return f"{low_ms / 1000:g} to {_seconds(high_ms)}" if low_ms != high_ms else _seconds(low_ms)


def _seconds(ms: int) -> str:
    return f"{ms / 1000:g} s"
