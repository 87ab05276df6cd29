"""Episodes as figures: what checks need of a log, without its texts."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from wardian.envs.task import TaskId
from wardian.rollouts.trajectory import AttemptLog, TrajectoryLog

CONSTANT = ("step_cost", "invalid_call")
"""Components that say nothing of how the task goes."""


@dataclass(frozen=True, slots=True)
class Course:
    """The final attempt at one episode."""

    episode_id: str
    task_id: TaskId
    policy: str
    split: str
    outcome: str
    """`terminated`, `truncated`, `failed` or `cancelled`."""
    end_cause: str
    judged: bool
    """It counts: not masked."""
    succeeded: bool
    reward: float
    """The return; 0 where the episode is masked."""
    steps: int
    signals: int
    """Steps before the last whose reward says something of the task: a component that is no constant cost and not 0."""

    @property
    def family(self) -> str:
        """Of the task."""
        return self.task_id.family

    @property
    def difficulty(self) -> str:
        """Of the task."""
        return self.task_id.difficulty.value


def read_courses(where: Path) -> list[Course]:
    """The final attempt of each episode that ended, in the order of the log.

    Raises:
        LogBroken: the log is not readable.
    """
    log = TrajectoryLog.open(where)
    return [course for name in log.episodes for course in _course(log.attempts(name))]


def _course(attempts: Sequence[AttemptLog]) -> list[Course]:
    last = attempts[-1] if attempts else None
    if last is None or last.end is None:
        return []
    end = last.end
    signals = sum(
        any(value and name not in CONSTANT for name, value in step.reward_components.items()) for step in last.steps if not step.end_cause
    )
    return [
        Course(
            end.episode_id,
            TaskId.parse(end.task_id),
            end.policy,
            end.split,
            end.outcome,
            end.end_cause,
            bool(end.mask),
            bool(end.succeeded),
            end.reward or 0.0,
            end.steps,
            signals,
        )
    ]


def grouped(courses: Iterable[Course], key: Callable[[Course], str]) -> dict[str, list[Course]]:
    """Courses by a key, in the order in which the keys come."""
    found: dict[str, list[Course]] = defaultdict(list)
    for course in courses:
        found[key(course)].append(course)
    return dict(found)


def share(courses: Sequence[Course]) -> float | None:
    """Of those that are judged, the share that succeeded; `None` of none."""
    judged = [course for course in courses if course.judged]
    return round(sum(course.succeeded for course in judged) / len(judged), 4) if judged else None
