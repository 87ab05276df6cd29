"""Fault-free twins: each episode once more under the profile `none`, from the same task, seeds and policy, and what the faults cost.

A twin meets equal streams: events, latencies and fault draws are the same numbers, and only no fault comes of them. Its lines stand in a
log of their own, under the ids of the episodes that they are twins of, so that nobody trains on both by mistake.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from wardian.envs.task import TaskId
from wardian.rollouts.records import EpisodeEnd, Json

FOLDER = "twin"


@dataclass(slots=True)
class Twins:
    """Final lines of episodes and of their twins, by episode."""

    faulted: dict[str, EpisodeEnd] = field(default_factory=dict)
    free: dict[str, EpisodeEnd] = field(default_factory=dict)

    def summary(self) -> dict[str, Json]:
        """Success with and without faults, among the pairs of which both were judged."""
        pairs = [(end, self.free[name]) for name, end in sorted(self.faulted.items()) if name in self.free]
        judged = [pair for pair in pairs if all(end.mask for end in pair)]
        families = sorted({_family(end) for end, _ in judged})
        by_family = {name: _compared([pair for pair in judged if _family(pair[0]) == name]) for name in families}
        return {**_compared(judged), "not_judged": len(pairs) - len(judged), "by_family": by_family}


def keep(ends: dict[str, EpisodeEnd], end: EpisodeEnd) -> None:
    """Keep the last line of an episode's final attempt."""
    if not end.retried:
        ends[end.episode_id] = end


def _family(end: EpisodeEnd) -> str:
    return TaskId.parse(end.task_id).family


def _compared(pairs: list[tuple[EpisodeEnd, EpisodeEnd]]) -> dict[str, Json]:
    """`difference`: success rate without faults less that with them; `None` where no pair was judged."""
    outcomes = [(bool(faulted.succeeded), bool(free.succeeded)) for faulted, free in pairs]
    rates = [sum(pair[side] for pair in outcomes) / len(outcomes) if outcomes else None for side in (0, 1)]
    with_faults, without = rates
    return {
        "pairs": len(pairs),
        "success_rate": _rounded(with_faults),
        "success_rate_without_faults": _rounded(without),
        "difference": _rounded(without - with_faults) if without is not None and with_faults is not None else None,
        "lost_by_faults": sum(free and not faulted for faulted, free in outcomes),
        "won_by_faults": sum(faulted and not free for faulted, free in outcomes),
    }


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 4)


def twin_line(found: Mapping[str, Json]) -> str:
    """The comparison in one line, for people."""
    if not found["pairs"]:
        return "twins without faults: no pair was judged"
    rates = f"{found['success_rate_without_faults']:.0%} succeeded, {found['success_rate']:.0%} with faults"
    turned = f"lost by faults: {found['lost_by_faults']}, won: {found['won_by_faults']}"
    return f"twins without faults: {rates}, in {found['pairs']} pairs; {turned}"
