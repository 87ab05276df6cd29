"""What a run came to, as numbers. One `Tally` takes the last line of each attempt; `summary` gives one object for people and programs."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wardian.envs.ending import EndCause
from wardian.envs.task import TaskId
from wardian.rollouts.play import CANCELLED
from wardian.rollouts.records import EpisodeEnd, Json
from wardian.sandbox.lease import PoolStatistics


@dataclass(slots=True)
class Group:
    """Episodes that share a family, a difficulty, a policy or a split."""

    episodes: int = 0
    judged: int = 0
    succeeded: int = 0
    masked: int = 0
    reward: float = 0.0
    """Of all that were judged."""

    def add(self, end: EpisodeEnd) -> None:
        """Count a final attempt."""
        self.episodes += 1
        self.judged += end.mask
        self.succeeded += bool(end.succeeded and end.mask)
        self.masked += 1 - end.mask
        self.reward += end.reward or 0.0

    def as_json(self) -> dict[str, Json]:
        """Counts, and among what was judged the share of successes and the mean reward (`None` when nothing was)."""
        rate = round(self.succeeded / self.judged, 4) if self.judged else None
        mean = round(self.reward / self.judged, 4) if self.judged else None
        counts = {"episodes": self.episodes, "succeeded": self.succeeded, "success_rate": rate, "masked": self.masked}
        return {**counts, "mean_reward": mean}


@dataclass(slots=True)
class Tally:
    """Counts of a run, kept while it goes on."""

    whole: Group = field(default_factory=Group)
    groups: dict[str, dict[str, Group]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(Group)))
    ends: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    masked: Counter[str] = field(default_factory=Counter)
    attempts_failed: Counter[str] = field(default_factory=Counter)
    """Attempts that failed through us by cause, those that were retried among them."""
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    retried: int = 0
    inexact: int = 0
    starts_ms: list[float] = field(default_factory=list)
    """Wall time of each reset, waiting for a cell included."""
    starts_leaked: int = 0
    restores_ms: list[float] = field(default_factory=list)
    """Time inside the cell of resets that no pool's statistics speak of: of what stood in the folder, and of workers that died."""
    kept: int = 0
    """Episodes that stood in the folder already."""
    unfinished: set[str] = field(default_factory=set)
    """Episodes that were begun and have no final end: they run, or were given up."""
    fates: dict[tuple[str, str, str, str, str], list[int]] = field(default_factory=dict)
    """Steps of each attempt by fate (judged, masked, retried), policy, family, outcome and end cause."""

    def begin(self, episode_id: str, reset_ms: float) -> None:
        """Take the first line of an attempt."""
        self.unfinished.add(episode_id)
        self.starts_ms.append(reset_ms)

    def add(self, end: EpisodeEnd) -> None:
        """Take the last line of an attempt. Of those that were cancelled only the episode counts, as one that was given up."""
        if end.retried or end.outcome == CANCELLED:
            self.unfinished.add(end.episode_id)
        else:
            self.unfinished.discard(end.episode_id)
        if end.outcome == CANCELLED:
            return
        if end.outcome == "failed":
            self.attempts_failed[end.end_cause] += 1
        task = TaskId.parse(end.task_id)
        fate = "retried" if end.retried else "judged" if end.mask else "masked"
        self.fates.setdefault((fate, end.policy, task.family, end.outcome, end.end_cause), []).append(end.steps)
        if end.retried:
            self.retried += 1
            return
        self.ends[end.outcome] += 1
        self._count(end)
        for kind, name in (("family", task.family), ("difficulty", task.difficulty.value), ("policy", end.policy), ("split", end.split)):
            self.groups[kind][name].add(end)

    def _count(self, end: EpisodeEnd) -> None:
        self.whole.add(end)
        self.causes[end.end_cause] += 1
        self.steps += end.steps
        self.tokens += end.tokens
        self.prompt_tokens += end.prompt_tokens
        self.completion_tokens += end.completion_tokens
        self.inexact += end.inexact
        if not end.mask:
            self.masked[end.end_cause] += 1
        self.outcomes.update(end.tool_outcomes)
        self.faults.update(end.faults)
        self.problems.update(end.problems)


def summary(tally: Tally, pool: PoolStatistics | None, *, planned: int, tier: str | None, wall_s: float) -> dict[str, Json]:
    """One object with everything that was counted; keys have fixed names, and maps are sorted.

    Every planned episode is in one of `terminated`, `truncated`, `failed` (together `episodes`), `cancelled` and `not_started`.
    """
    whole = tally.whole
    groups = {f"by_{kind}": _groups(tally.groups[kind]) for kind in ("family", "difficulty", "policy", "split")}
    return {
        "planned": planned,
        **whole.as_json(),
        **groups,
        "terminated": tally.ends["terminated"],
        "truncated": tally.ends["truncated"],
        "failed": tally.ends["failed"],
        "cancelled": len(tally.unfinished),
        "not_started": planned - whole.episodes - len(tally.unfinished),
        "end_causes": _sorted(tally.causes),
        "masked_by_cause": _sorted(tally.masked),
        "fates": _fates(tally),
        "retried": tally.retried,
        "infra_failures": tally.attempts_failed[EndCause.INFRASTRUCTURE],
        "verifier_failures": tally.attempts_failed[EndCause.VERIFIER],
        "steps": tally.steps,
        "tokens": tally.tokens,
        "prompt_tokens": tally.prompt_tokens,
        "completion_tokens": tally.completion_tokens,
        "inexact_steps": tally.inexact,
        "tool_outcomes": _sorted(tally.outcomes),
        "faults_injected": _sorted(tally.faults),
        "call_problems": _sorted(tally.problems),
        "resets": _resets(tally, pool, tier),
        "wall_s": round(wall_s, 3),
        "episodes_per_s": round((whole.episodes - tally.kept) / wall_s, 2) if wall_s > 0 else None,
    }


def _resets(tally: Tally, pool: PoolStatistics | None, tier: str | None) -> dict[str, Json]:
    """Cells where there are some, else the starts of worlds without a cell; one that leaked is one more. `start_*`: an episode's wait."""
    with_cells, others = pool is not None or bool(tally.restores_ms), len(tally.restores_ms)
    times = (*(pool.restore_ms if pool else ()), *tally.restores_ms) if with_cells else tuple(tally.starts_ms)
    leaks = tally.starts_leaked + (pool.quarantined if pool else 0)
    return {
        "count": tally.starts_leaked + ((pool.resets if pool else 0) + others if with_cells else len(tally.starts_ms)),
        "verified": (pool.verified if pool else 0) + others if with_cells else len(tally.starts_ms),
        "leaks": leaks,
        "p50_ms": quantile(times, 0.5),
        "p95_ms": quantile(times, 0.95),
        "start_p50_ms": quantile(tally.starts_ms, 0.5),
        "start_p95_ms": quantile(tally.starts_ms, 0.95),
        "replaced": pool.replaced if pool else 0,
        "deep_checks": pool.deep_checks if pool else 0,
        "tier": tier,
    }


def _fates(tally: Tally) -> list[Json]:
    """What became of attempts, and how long they were: where masked and judged ones differ in length, masking biases what is learned."""
    names = ("fate", "policy", "family", "outcome", "cause")
    return [
        {**dict(zip(names, key, strict=True)), "attempts": len(steps), "mean_steps": round(sum(steps) / len(steps), 1)}
        for key, steps in sorted(tally.fates.items())
    ]


def joined(statistics: Sequence[Mapping[str, Json] | None]) -> PoolStatistics | None:
    """The pools of several processes as one; `None` without any."""
    found = [one for one in statistics if one is not None]
    if not found:
        return None
    numbers = ("resets", "verified", "deep_checks", "replaced", "created", "quarantined", "ready", "leased")
    sums = {name: sum(one[name] for one in found) for name in numbers}
    return PoolStatistics(**sums, leaks=(), restore_ms=tuple(ms for one in found for ms in one["restore_ms"]))


def quantile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least `share` of `values` do not exceed, to a hundredth; `None` without values."""
    if not values:
        return None
    return round(sorted(values)[max(0, math.ceil(share * len(values)) - 1)], 2)


def _groups(groups: Mapping[str, Group]) -> dict[str, Json]:
    return {name: groups[name].as_json() for name in sorted(groups)}


def _sorted(counts: Mapping[str, int]) -> dict[str, int]:
    return {str(name): counts[name] for name in sorted(counts)}
