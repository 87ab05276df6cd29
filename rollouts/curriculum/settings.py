"""How a curriculum is set up: chosen when it is made, and kept with it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from wardian.rollouts.curriculum.placement import Placement
from wardian.rollouts.errors import UsageProblem


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """Of the pool of hard negatives."""

    share: float = 0.2
    """Of the draws, while there is something in it."""
    most: int = 500
    """Entries; the oldest go first."""
    age: int = 5_000
    """Draws after which an entry goes that did not fail again."""
    solved: int = 2
    """Groups in a row that are all solved, after which an entry goes."""

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise UsageProblem(f"pool_share: a share from 0 to below 1; got {self.share}")
        if min(self.most, self.age, self.solved) < 1:
            raise UsageProblem(f"pool: most, age and solved are at least 1; got {self.most}, {self.age} and {self.solved}")


@dataclass(frozen=True, slots=True)
class CurriculumSettings:
    placement: Placement = Placement()  # noqa: RUF009 - frozen
    pool: PoolSettings = field(default_factory=PoolSettings)
    group: int = 8
    """Episodes of one task; groups of 1 say nothing of variance."""
    seed: int = 0
    """All tasks and seeds follow from it and from the outcomes."""

    def __post_init__(self) -> None:
        if not 1 <= self.group <= 1024:
            raise UsageProblem(f"group: from 1 to 1024 episodes; got {self.group}")

    def as_json(self) -> dict[str, Any]:
        """For the database."""
        return asdict(self)

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> "CurriculumSettings":
        """Read what `as_json` wrote."""
        return cls(Placement(**found["placement"]), PoolSettings(**found["pool"]), found["group"], found["seed"])
