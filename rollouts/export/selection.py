"""Which episodes of a trajectory may be learned from, and how many are left out for what.

Only final attempts count. An episode whose task is of another split than `train` is never given: a folder that holds one is refused,
unless it was said that only the training split is wanted. No option gives the others, since what was learned from cannot be measured on.
The log says which split a task was of, and the world, where it can be loaded here, which it is of now: either is enough to hold it out.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from wardian.envs.definition import WorldDefinition
from wardian.envs.errors import TaskError
from wardian.envs.registry import load_world
from wardian.envs.splits import Split, split_named
from wardian.envs.task import TaskId
from wardian.envs.variants import task_of
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.export.errors import NothingToExport, SplitForbidden
from wardian.rollouts.records import EpisodeEnd, EpisodeStart, StepRecord
from wardian.rollouts.trajectory import AttemptLog, TrajectoryLog

TRAIN = Split.TRAIN.value


@dataclass(frozen=True, slots=True)
class Episode:
    """A final attempt that is there from its start to its end."""

    start: EpisodeStart
    steps: tuple[StepRecord, ...]
    end: EpisodeEnd


@dataclass(slots=True)
class Selection:
    """Iterate it once; the counts are whole at the end."""

    log: TrajectoryLog
    where: Path
    """What the log was read from."""
    split: str | None = None
    """`train`: leave out episodes of other splits; `None`: refuse them."""
    include_masked: bool = False
    """Give failed and cancelled episodes too; their mask is 0 and they have no reward."""
    taken: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """Episodes by reason."""
    _worlds: dict[str, WorldDefinition | None] = field(default_factory=dict)
    """By the name in the log; `None` where it cannot be loaded."""

    def __post_init__(self) -> None:
        if self.split is None:
            return
        try:
            split_named(self.split)
        except TaskError as error:
            raise UsageProblem(str(error)) from error
        if self.split != TRAIN:
            raise SplitForbidden(f"split: {self.split!r} is held out: only episodes of the split {TRAIN!r} are exported")

    @classmethod
    def open(cls, where: Path, *, split: str | None = None, include_masked: bool = False) -> "Selection":
        """Select from a folder or a file of trajectories.

        Raises:
            SplitForbidden: another split than `train` is asked for.
            UsageProblem: there is no such split.
            LogBroken: there is no trajectory.
        """
        return cls(TrajectoryLog.open(where), where, split, include_masked)

    def __iter__(self) -> Iterator[Episode]:
        """Give the episodes in the order of the log.

        Raises:
            SplitForbidden: an episode is of a split that is held out, and `split` is not `train`.
            LogBroken: a line is not readable.
        """
        for name in self.log.episodes:
            attempts = self.log.attempts(name)
            found = self._whole(attempts[-1]) if attempts else "unfinished"
            if isinstance(found, Episode):
                self.taken += 1
                yield found
            else:
                self.left_out[found] += 1

    def must_have_some(self) -> None:
        """Call it at the end.

        Raises:
            NothingToExport: all were left out; says why.
        """
        if not self.taken:
            raise NothingToExport(f"there is nothing to export{f'; left out: {self.counts()}' if self.left_out else ''}")

    def counts(self) -> str:
        """What was left out, in words."""
        return ", ".join(f"{count} {reason}" for reason, count in sorted(self.left_out.items()))

    def _whole(self, last: AttemptLog) -> "Episode | str":
        """The episode, or why it is left out. The split is looked at first, whatever else is wrong."""
        split = self._split_of(last)
        if split not in (TRAIN, ""):
            if self.split is None:
                raise SplitForbidden(
                    f"{last.episode_id}: its task is of the split '{split}', which is never exported for training; "
                    f"--split {TRAIN} leaves such episodes out"
                )
            return f"split {split}"
        if last.end is None:
            return "unfinished"
        if not last.end.mask and not self.include_masked:
            return f"masked ({last.end.end_cause})"
        if last.start is None or [step.step for step in last.steps] != list(range(1, last.end.steps + 1)):
            return "lines missing"
        return Episode(last.start, tuple(last.steps), last.end)

    def _split_of(self, attempt: AttemptLog) -> str:
        """The split of its task: the first that is not `train`, should its lines or the world differ; empty when it never began."""
        splits = [line.split for line in (attempt.start, *attempt.steps, attempt.end) if line is not None and line.split]
        if attempt.start is not None:
            splits.append(self._split_here(attempt.start))
        return next((split for split in splits if split != TRAIN), splits[0] if splits else "")

    def _split_here(self, start: EpisodeStart) -> str:
        """What the world says; `train` where the world, or the task in it, is not there to ask."""
        if start.world not in self._worlds:
            try:
                self._worlds[start.world] = load_world(start.world)
            except TaskError:
                self._worlds[start.world] = None
        world = self._worlds[start.world]
        try:
            task = TaskId.parse(start.task_id)
            if world and task.variation:
                return task_of(world, task).split
            return world.family(task.family).split_at(task.difficulty, task.seed) if world else TRAIN
        except TaskError:
            return TRAIN
