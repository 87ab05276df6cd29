"""Timings, and the numbers that are told of them. Quantiles only: a mean on a shared machine is somebody else's noise."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Numbers: TypeAlias = dict[str, Any]
"""JSON-shaped."""


@dataclass(slots=True)
class Samples:
    """Durations of one kind, in milliseconds."""

    values: list[float] = field(default_factory=list)

    def add(self, value_ms: float) -> None:
        """Keep one duration."""
        self.values.append(value_ms)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Keep how long the body takes. A body that raises is not kept."""
        began = time.perf_counter()
        yield
        self.values.append((time.perf_counter() - began) * 1e3)

    def numbers(self) -> Numbers:
        """`p10_ms`, `p50_ms`, `p95_ms` and `n`; all but `n` are `None` without samples. On a busy machine `p10_ms` says what it can do."""
        return {
            "p10_ms": quantile(self.values, 0.1),
            "p50_ms": quantile(self.values, 0.5),
            "p95_ms": quantile(self.values, 0.95),
            "n": len(self.values),
        }


@dataclass(slots=True)
class Rate:
    """How many were done per second, by batches; the median batch counts."""

    values: list[float] = field(default_factory=list)
    done: int = 0

    @contextmanager
    def timed(self, count: int) -> Iterator[None]:
        """Count the body as one batch of `count`."""
        began = time.perf_counter()
        yield
        self.values.append(count / (time.perf_counter() - began))
        self.done += count

    def numbers(self) -> Numbers:
        """`per_s` and `n`."""
        return {"per_s": quantile(self.values, 0.5), "n": self.done}


def quantile(values: Iterable[float], at: float) -> float | None:
    """The value below which a share `at` of them lies (nearest rank); `None` of none."""
    ordered: Sequence[float] = sorted(values)
    if not ordered:
        return None
    return round(ordered[min(len(ordered) - 1, int(at * len(ordered)))], 3)
