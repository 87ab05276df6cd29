"""What a mutant is, and what becomes of all mutants of a family."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase

from wardian.envs.attack import Allowance
from wardian.envs.verifier import FinalState, Verdict

ENOUGH = 0.97
"""The score that every family has to reach."""


class Fate(StrEnum):
    KILLED = "killed"
    SURVIVED = "survived"
    ALLOWED = "allowed"
    """It survived, and the world says why it may."""
    RAISED = "raised"
    """The verifier raised, so that the episode would be masked: whoever can make such a state can erase a bad episode."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A solved state with one thing otherwise."""

    name: str
    """Operator and place, such as `nudged own refunds.amount_cents`; what allowances match."""
    detail: str
    """What exactly was done."""
    state: FinalState


@dataclass(frozen=True, slots=True)
class Judged:
    task_id: str
    name: str
    detail: str
    fate: Fate
    note: str = ""
    """The reason of an allowance, or what was raised."""
    failed: tuple[str, ...] = ()
    """Checks that failed."""


def judge(mutant: Mutant, verify: Callable[[FinalState], Verdict], allowances: Sequence[Allowance]) -> Judged:
    """Let a verifier see a mutant."""
    task_id, family = str(mutant.state.task.id), mutant.state.task.id.family
    try:
        checks = verify(mutant.state).checks
    except Exception as error:  # noqa: BLE001 - whatever a verifier raises is what is looked for
        return Judged(task_id, mutant.name, mutant.detail, Fate.RAISED, f"{type(error).__name__}: {error}")
    if failed := tuple(check.name for check in checks if not check.passed):
        return Judged(task_id, mutant.name, mutant.detail, Fate.KILLED, failed=failed)
    allowance = next((one for one in allowances if allows(one, family, mutant.name)), None)
    if allowance is not None:
        return Judged(task_id, mutant.name, mutant.detail, Fate.ALLOWED, allowance.reason)
    return Judged(task_id, mutant.name, mutant.detail, Fate.SURVIVED)


def allows(allowance: Allowance, family: str, name: str) -> bool:
    """Whether an allowance is about mutants of that name in that family."""
    return (not allowance.families or family in allowance.families) and fnmatchcase(name, allowance.mutants)


@dataclass(slots=True)
class Score:
    """What became of a family's mutants."""

    family: str
    judged: list[Judged] = field(default_factory=list)
    impossible: int = 0
    """Mutants that the database itself refuses; they do not count."""
    tasks: list[str] = field(default_factory=list)
    unsolved: list[str] = field(default_factory=list)
    """Tasks that the reference does not solve, so that there is no state to mutate."""

    def count(self, *fates: Fate) -> int:
        """How many had one of these fates."""
        return sum(one.fate in fates for one in self.judged)

    @property
    def score(self) -> float:
        """Share of the mutants that fail, of all that are not allowed; 0 where there are none."""
        counted = len(self.judged) - self.count(Fate.ALLOWED)
        return self.count(Fate.KILLED) / counted if counted else 0.0

    def killed_by(self) -> dict[str, tuple[int, int]]:
        """For each check: mutants that it failed on, and those of them that it failed on alone."""
        killed = [one.failed for one in self.judged if one.fate is Fate.KILLED]
        names = dict.fromkeys(name for failed in killed for name in failed)
        return {name: (sum(name in failed for failed in killed), sum(failed == (name,) for failed in killed)) for name in names}

    @property
    def survivors(self) -> tuple[Judged, ...]:
        """Mutants that did not fail and should have."""
        return tuple(one for one in self.judged if one.fate in (Fate.SURVIVED, Fate.RAISED))

    def by_operator(self) -> dict[str, Counter[Fate]]:
        """Fates by the first word of the names."""
        found: dict[str, Counter[Fate]] = {}
        for one in self.judged:
            found.setdefault(one.name.partition(" ")[0], Counter())[one.fate] += 1
        return dict(sorted(found.items()))


def unused(allowances: Sequence[Allowance], scores: Iterable[Score]) -> list[Allowance]:
    """Allowances that no mutant needed: they hide what a later change lets through."""
    used = {(score.family, one.name) for score in scores for one in score.judged if one.fate is Fate.ALLOWED}
    return [allowance for allowance in allowances if not any(allows(allowance, *what) for what in used)]
