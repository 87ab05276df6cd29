"""The speed to reach, from `docs/design.md`, beside what was found. Nothing is rounded in our favour."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from wardian.rollouts.bench.samples import Numbers

FLAT = 1.25
"""What is called flat may grow by so much: below it is noise."""


@dataclass(frozen=True, slots=True)
class Target:
    what: str
    unit: str
    limit: float
    find: Callable[[Numbers], float | None]
    """From all numbers to the one that counts; `None` where it was not measured."""
    at_least: bool = False

    def judge(self, numbers: Numbers) -> Numbers:
        """One row: what was found, the target, and whether it is met (`None`: not measured)."""
        found = self.find(numbers)
        met = None if found is None else found >= self.limit if self.at_least else found <= self.limit
        sign = "≥" if self.at_least else "≤"
        return {"what": self.what, "unit": self.unit, "found": found, "target": f"{sign} {self.limit:g}", "met": met}


def _largest(rows: Mapping[str, Numbers]) -> str:
    return max(rows, key=lambda name: float(name.split()[0]))


def _grown(rows: Mapping[str, Numbers]) -> float | None:
    """The last row's median over the first one's."""
    medians = [row["p50_ms"] for row in rows.values()]
    return round(medians[-1] / medians[0], 2) if len(medians) > 1 and all(medians) else None


TARGETS = (
    Target("leaks", "", 0, lambda n: n["leaks"]),
    Target("verified reset, ordinary episode, p50", "ms", 5, lambda n: n["reset"]["ordinary"]["p50_ms"]),
    Target("verified reset, ordinary episode, p95", "ms", 12, lambda n: n["reset"]["ordinary"]["p95_ms"]),
    Target("verified resets at 16 cells, ordinary and vandal mixed", "/s", 150, lambda n: _at(n["resets_at_once"], "16"), at_least=True),
    Target("verified reset, 20 MB world, p50", "ms", 15, lambda n: n["growth"]["world"].get("20 MB", {}).get("p50_ms")),
    Target("`true` in a chamber, p50", "ms", 2.5, lambda n: n["exec"]["p50_ms"]),
    Target("`true` over 16 cells", "/s", 400, lambda n: _at(n["exec"]["at_once"], "16"), at_least=True),
    Target("database tool through step, logged, p50", "ms", 1.5, lambda n: n["tool_call"]["p50_ms"]),
    Target("memory per idle cell", "MiB", 20, lambda n: n["memory"]["per_cell_mib"]),
    Target("reset, last episodes over first ones", "×", FLAT, lambda n: _grown(n["growth"]["episodes"])),
    Target("reset, most cells standing over one", "×", FLAT, lambda n: _grown(n["growth"]["cells"])),
)


def _at(rates: Mapping[str, Numbers], cells: str) -> float | None:
    row = rates.get(cells)
    return row["per_s"] if row else None


def judged(numbers: Numbers) -> list[Numbers]:
    """All targets as rows."""
    return [target.judge(numbers) for target in TARGETS]


def ratios(numbers: Numbers) -> Numbers:
    """How many times faster than the usual way, by medians and by rates of this run."""
    return dict(_ratios(numbers))


def _ratios(numbers: Numbers) -> Iterator[tuple[str, float | None]]:
    reset, container = numbers["reset"]["ordinary"]["p50_ms"], numbers["container"]["p50_ms"]
    yield "container_over_reset", _over(container, reset)
    most = _largest(numbers["resets_at_once"])
    yield "resets_over_containers_per_s", _over(_at(numbers["resets_at_once"], most), numbers["container"]["at_once"]["per_s"])
    yield "docker_exec_over_exec", _over(numbers["docker_exec"]["p50_ms"], numbers["exec"]["p50_ms"])


def _over(above: float | None, below: float | None) -> float | None:
    return round(above / below, 1) if above and below else None
