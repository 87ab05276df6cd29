"""Estimates of how often a policy solves a task, and how sure they are. Pure numbers.

Repeats of one task are no independent evidence, so intervals count tasks, not episodes. An estimate is a mean over tasks of a number from 0
to 1; no such number varies more than a coin of the same mean, so Wilson's interval for as many coins as there are tasks is no narrower than
it should be (E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Z95 = 1.959964
"""Standard deviations on either side that hold 95 % of a normal distribution."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over tasks, with its interval of 95 %."""

    mean: float
    low: float
    high: float
    tasks: int

    def __str__(self) -> str:
        return f"{self.mean:.0%} [{self.low:.0%}, {self.high:.0%}]"

    def as_json(self) -> dict[str, Any]:
        """Rounded."""
        return {"mean": round(self.mean, 4), "low": round(self.low, 4), "high": round(self.high, 4), "tasks": self.tasks}


def wilson(share: float, count: int) -> tuple[float, float]:
    """The interval of 95 % of a share of `count` trials.

    Raises:
        ValueError: there are no trials, or the share is not from 0 to 1.
    """
    if count < 1 or not 0 <= share <= 1:
        raise ValueError(f"a share from 0 to 1 of at least one trial is needed; got {share} of {count}")
    square = Z95**2 / count
    middle = (share + square / 2) / (1 + square)
    half = Z95 / (1 + square) * math.sqrt(share * (1 - share) / count + square / (4 * count))
    return max(0.0, middle - half), min(1.0, middle + half)


def estimate(of_tasks: Sequence[float]) -> Estimate | None:
    """The mean of one number for each task; `None` without tasks."""
    if not of_tasks:
        return None
    mean = math.fsum(of_tasks) / len(of_tasks)
    return Estimate(mean, *wilson(mean, len(of_tasks)), len(of_tasks))


def pass_at(tries: int, solved: int, k: int) -> float | None:
    """The chance that at least one of `k` tries solves a task, by the unbiased estimate from `tries`; `None` with fewer tries than `k`.

    M. Chen et al., "Evaluating large language models trained on code", 2021.
    """
    return None if tries < k else 1 - math.comb(tries - solved, k) / math.comb(tries, k)


def pass_all(tries: int, solved: int, k: int) -> float | None:
    """The chance that all of `k` tries solve a task (pass^k), by the unbiased estimate from `tries`; `None` with fewer tries than `k`.

    S. Yao et al., "tau-bench: a benchmark for tool-agent-user interaction in real-world domains", 2024.
    """
    return None if tries < k else math.comb(solved, k) / math.comb(tries, k)
