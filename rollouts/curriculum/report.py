"""What a curriculum has drawn, and what came of it: for people, for programs, and for whoever decides whether training goes on."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from wardian.rollouts.curriculum.placement import Arm
from wardian.rollouts.curriculum.schema import FailureRow, GroupRow, Head

POOL = "(pool)"


@dataclass(frozen=True, slots=True)
class Line:
    """One arm, one family, the pool, or all."""

    family: str
    difficulty: str
    share: float | None
    """Of the draws from now on; `None` where that is not known."""
    groups: int
    """That were drawn."""
    closed: int
    """That were played to their end, with at least two judged episodes: what the last three numbers are of."""
    judged: int
    masked: int
    success: float | None
    """Of the judged episodes; `None` without any."""
    variance: float | None
    """Of success within a group, on the mean; at most 0.25."""
    reward_variance: float | None
    """The same of the reward."""
    without_variance: float | None
    """Share of the groups whose episodes were all solved or all failed: a method that compares them learns nothing from those."""


@dataclass(frozen=True, slots=True)
class Report:
    world: str
    draws: int
    pool: int
    """Entries in the pool."""
    arms: tuple[Line, ...]
    families: tuple[Line, ...]
    hard: Line
    """Groups that came from the pool."""
    whole: Line
    """All but those."""

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


def report_of(session: Session, head: Head, shares: Mapping[Arm, float]) -> Report:
    """Read it from an open transaction."""
    rows = session.scalars(select(GroupRow)).all()
    fresh = [row for row in rows if not row.failure]
    arms = tuple(_line(*arm, share, (row for row in fresh if (row.family, row.difficulty) == arm)) for arm, share in sorted(shares.items()))
    names = sorted({family for family, _ in shares})
    families = tuple(
        _line(name, "", sum(share for arm, share in shares.items() if arm[0] == name), (row for row in fresh if row.family == name))
        for name in names
    )
    hard = _line(POOL, "", None, (row for row in rows if row.failure))
    in_pool = session.scalar(select(func.count()).select_from(FailureRow)) or 0
    return Report(head.world, head.draws, in_pool, arms, families, hard, _line("", "", None, fresh))


def _line(family: str, difficulty: str, share: float | None, groups: Iterable[GroupRow]) -> Line:
    rows = list(groups)
    told = [row for row in rows if row.closed and row.judged > 1]
    judged = sum(row.judged for row in rows)
    rewards = [row.reward_variance for row in told if row.reward_variance is not None]
    return Line(
        family,
        difficulty,
        None if share is None else round(share, 4),
        len(rows),
        len(told),
        judged,
        sum(row.masked for row in rows),
        _mean([row.succeeded for row in rows], judged),
        _mean([row.succeeded / row.judged * (1 - row.succeeded / row.judged) for row in told], len(told)),
        _mean(rewards, len(rewards)),
        _mean([row.succeeded in (0, row.judged) for row in told], len(told)),
    )


def _mean(values: Iterable[float], count: int) -> float | None:
    return round(sum(values) / count, 4) if count else None
