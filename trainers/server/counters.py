"""What happened on a server: for Prometheus, and the same as JSON for tests and trainers' logs."""

from collections import Counter
from collections.abc import Collection
from typing import TypeAlias

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client import Counter as Counted

from wardian.envs.action import Step
from wardian.tools.contract import Json

BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 45)
"""Seconds."""
UNKNOWN = "(unknown)"
"""Any tool that the world does not have; agents call by any name, and each would be a number of its own."""
Label: TypeAlias = tuple[str, ...]


class Counters:
    """All numbers of one server. In its event loop alone."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._counts: Counter[Label] = Counter()
        self._opened = Counted("wardian_sessions_opened", "Leases made.", ["world"], registry=registry)
        self._closed = Counted("wardian_sessions_closed", "Leases ended, by why.", ["world", "why"], registry=registry)
        self._open = Gauge("wardian_sessions_open", "Leases now.", ["world"], registry=registry)
        self._resets = Histogram("wardian_reset_seconds", "Episodes begun.", ["world"], buckets=BUCKETS, registry=registry)
        self._steps = Histogram("wardian_step_seconds", "Steps taken.", ["world"], buckets=BUCKETS, registry=registry)
        self._calls = Counted("wardian_tool_calls", "Tool calls, by their status.", ["world", "tool", "status"], registry=registry)
        self._episodes = Counted("wardian_episodes_ended", "Episodes ended, by cause.", ["world", "cause"], registry=registry)
        self._failed = Counted("wardian_episodes_failed", "Episodes that we failed, by kind.", ["world", "kind"], registry=registry)
        self._refused = Counted("wardian_requests_refused", "Requests refused, by code.", ["code"], registry=registry)
        self._cells = Gauge("wardian_cells", "Cells, by state.", ["world", "state"], registry=registry)
        self._leaks = Gauge("wardian_leaks", "Resets that did not give a clean cell.", ["world"], registry=registry)

    def opened(self, world: str) -> None:
        """A lease was made."""
        self._opened.labels(world).inc()
        self._open.labels(world).inc()
        self._counts["sessions_opened",] += 1

    def closed(self, world: str, why: str) -> None:
        """A lease ended."""
        self._closed.labels(world, why).inc()
        self._open.labels(world).dec()
        self._counts["sessions_closed",] += 1
        self._counts["closed", why] += 1

    def reset(self, world: str, seconds: float) -> None:
        """An episode began."""
        self._resets.labels(world).observe(seconds)
        self._counts["resets",] += 1

    def stepped(self, world: str, step: Step, seconds: float, tools: Collection[str]) -> None:
        """A step was taken, in a world that has those tools."""
        self._steps.labels(world).observe(seconds)
        self._counts["steps",] += 1
        for event in step.info.events:
            if not event.landed:
                tool = event.tool if event.tool in tools else UNKNOWN
                self._calls.labels(world, tool, event.status.value).inc()
                self._counts["calls", f"{tool} {event.status.value}"] += 1
        if step.failed is not None:
            self.failed(world, str(step.info.end_cause))
        elif step.done:
            self._episodes.labels(world, str(step.info.end_cause)).inc()
            self._counts["ended", str(step.info.end_cause)] += 1

    def failed(self, world: str, kind: str) -> None:
        """We failed an episode."""
        self._failed.labels(world, kind).inc()
        self._counts["failed", kind] += 1

    def refused(self, code: str) -> None:
        """A request was not done."""
        self._refused.labels(code).inc()
        self._counts["refused", code] += 1

    def cells(self, world: str, ready: int, leased: int, leaks: int) -> None:
        """How the cells of a world stand."""
        self._cells.labels(world, "ready").set(ready)
        self._cells.labels(world, "leased").set(leased)
        self._leaks.labels(world).set(leaks)
        self._counts["leaks", world] = leaks

    def text(self) -> bytes:
        """In the format of Prometheus."""
        return generate_latest(self.registry)

    def plain(self) -> dict[str, Json]:
        """As JSON."""
        counts = self._counts
        opened, closed = counts["sessions_opened",], counts["sessions_closed",]
        found: dict[str, Json] = {
            "sessions_opened": opened,
            "sessions_closed": closed,
            "sessions_open": opened - closed,
            "resets": counts["resets",],
            "steps": counts["steps",],
        }
        for part in ("closed", "calls", "ended", "failed", "refused", "leaks"):
            found[part] = {key[1]: number for key, number in sorted(counts.items()) if key[0] == part and len(key) == 2}
        return found
