"""What a check gives: evidence, findings, figures; and what follows from them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from wardian.rollouts.records import Json


class Verdict(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    MEASURED = "measured"
    """Numbers that nobody gave a bound for."""
    NOT_JUDGED = "not judged"
    """There was nothing to judge; the outcome says why."""


@dataclass(slots=True)
class Outcome:
    """Filled by a check as it goes."""

    evidence: list[str] = field(default_factory=list)
    """What was looked at, in sentences."""
    findings: list[str] = field(default_factory=list)
    """What is wrong, each naming family, task or file. One is enough to fail."""
    figures: dict[str, Json] = field(default_factory=dict)
    measured: bool = False
    """Without findings it only reports."""
    unjudged: str = ""
    """Why there is nothing to judge; empty when there is."""

    @property
    def verdict(self) -> Verdict:
        """Findings fail; otherwise it passed, unless nothing was judged."""
        if self.findings:
            return Verdict.FAILED
        if self.unjudged:
            return Verdict.NOT_JUDGED
        return Verdict.MEASURED if self.measured else Verdict.PASSED


@dataclass(frozen=True, slots=True)
class Result:
    """A check that was run."""

    name: str
    question: str
    outcome: Outcome
    wall_s: float

    def as_json(self) -> dict[str, Json]:
        """For programs."""
        found = self.outcome
        return {
            "name": self.name,
            "question": self.question,
            "verdict": found.verdict.value,
            "why_not_judged": found.unjudged,
            "findings": list(found.findings),
            "evidence": list(found.evidence),
            "figures": found.figures,
            "wall_s": round(self.wall_s, 3),
        }


@dataclass(frozen=True, slots=True)
class Report:
    """All checks of one world."""

    world: str
    """Name and version."""
    results: Sequence[Result]
    wall_s: float

    @property
    def passed(self) -> bool:
        """No check failed."""
        return not self.failed

    @property
    def failed(self) -> list[str]:
        """Names of the checks that failed."""
        return [one.name for one in self.results if one.outcome.verdict is Verdict.FAILED]

    def as_json(self) -> dict[str, Json]:
        """For programs."""
        return {
            "world": self.world,
            "passed": self.passed,
            "failed": self.failed,
            "wall_s": round(self.wall_s, 3),
            "checks": [one.as_json() for one in self.results],
        }
