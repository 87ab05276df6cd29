"""What the episodes of an evaluation come to: per group of tasks, with intervals; masked episodes apart, and never as failures."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from wardian.rollouts.evaluation.intervals import Estimate, estimate, pass_all, pass_at
from wardian.rollouts.evaluation.taskset import EvalTask, TaskSet
from wardian.rollouts.records import EpisodeEnd, Json
from wardian.rollouts.twins import Twins, keep

GROUPS: Mapping[str, Callable[[EvalTask], str]] = {
    "by_family": lambda task: task.task_id.family,
    "by_difficulty": lambda task: task.task_id.difficulty.value,
    "by_region": lambda task: f"{task.task_id.family}/{task.region}",
    "by_scenario": lambda task: f"{task.task_id.family}/{task.scenario}" if task.scenario else "",
}
"""How tasks are grouped; an empty name is no group."""


@dataclass(slots=True)
class TaskResult:
    """What came of one task under one fault profile."""

    task: EvalTask
    ends: list[EpisodeEnd] = field(default_factory=list)
    """Of final attempts."""

    @property
    def tries(self) -> int:
        """Episodes that were judged."""
        return sum(end.mask for end in self.ends)

    @property
    def solved(self) -> int:
        return sum(bool(end.succeeded) for end in self.ends if end.mask)

    @property
    def hard_failures(self) -> int:
        return sum(bool(end.verdict and end.verdict.hard_failure) for end in self.ends if end.mask)


@dataclass(slots=True)
class ProfileResults:
    """Everything that was played under one fault profile."""

    tasks: list[TaskResult]
    ends: dict[str, EpisodeEnd] = field(default_factory=dict)
    """By episode."""

    @classmethod
    def of(cls, task_set: TaskSet) -> "ProfileResults":
        """Nothing was played yet."""
        return cls([TaskResult(task) for task in task_set.tasks])

    def add(self, end: EpisodeEnd) -> None:
        """Take the last line of an attempt."""
        keep(self.ends, end)

    def gather(self) -> "ProfileResults":
        """Sort what was taken by task; gives itself."""
        by_id = {str(one.task.task_id): one for one in self.tasks}
        for one in self.tasks:
            one.ends.clear()
        for _, end in sorted(self.ends.items()):
            by_id[end.task_id].ends.append(end)
        return self


def measured(results: Sequence[TaskResult], k: int) -> dict[str, Json]:
    """The numbers of a group of tasks. `success` is pass@1: the mean over tasks of the share that was solved."""
    judged = [one for one in results if one.tries]
    rates = estimate([one.solved / one.tries for one in judged])
    return {
        "tasks": len(results),
        "episodes": sum(len(one.ends) for one in results),
        "masked": sum(len(one.ends) - one.tries for one in results),
        "success": _json(rates),
        "pass_at_k": _json(_estimated(judged, k, pass_at)),
        "pass_all_k": _json(_estimated(judged, k, pass_all)),
        "hard_failures": sum(one.hard_failures for one in judged),
        "mean_reward": _mean(end.reward for one in judged for end in one.ends if end.mask and end.reward is not None),
    }


def _estimated(judged: Sequence[TaskResult], k: int, rule: Callable[[int, int, int], float | None]) -> Estimate | None:
    """Over the tasks that have enough judged episodes."""
    return estimate([value for one in judged if (value := rule(one.tries, one.solved, k)) is not None])


def _json(found: Estimate | None) -> Json:
    return found.as_json() if found else None


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return round(sum(found) / len(found), 4) if found else None


def profile_report(results: ProfileResults, k: int) -> dict[str, Json]:
    """All groups of one fault profile."""
    found: dict[str, Json] = measured(results.tasks, k)
    for title, name_of in GROUPS.items():
        names = dict.fromkeys(name for one in results.tasks if (name := name_of(one.task)))
        found[title] = {name: measured([one for one in results.tasks if name_of(one.task) == name], k) for name in names}
    causes = sorted({end.end_cause for one in results.tasks for end in one.ends if not end.mask})
    found["masked_by_cause"] = {
        cause: sum(end.end_cause == cause and not end.mask for one in results.tasks for end in one.ends) for cause in causes
    }
    return found


def twin_report(faulted: ProfileResults, free: ProfileResults) -> dict[str, Json]:
    """What the faults cost, over pairs of episodes of which both were judged."""
    return Twins(dict(faulted.ends), dict(free.ends)).summary()
