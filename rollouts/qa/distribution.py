"""What is trained on, counted: the mixture, how difficulty spreads, how often tasks repeat, and where the policy succeeds."""

from collections.abc import Iterator
from statistics import mean

from wardian.envs.family import Family
from wardian.envs.taskfile.family import WrittenTask
from wardian.rollouts.qa.courses import Course, grouped, share
from wardian.rollouts.qa.lab import Lab
from wardian.rollouts.qa.outcome import Outcome

SAMPLE = 40
"""Tasks of each family and difficulty that are made and compared."""
MOST_DUPLICATES = 0.25
MOST_SHARE = 0.8
"""Of one family, where there are several."""


async def audited(lab: Lab) -> Outcome:
    """Counts of the audited log, and of a sample of tasks."""
    found = Outcome()
    courses, given = lab.audited, lab.asked.trajectories is not None
    found.evidence.append(
        f"{len(courses)} episodes of {'the log that was given' if given else 'the reference mix'}; {SAMPLE} tasks of each kind"
    )
    varied = [family for family in lab.families if not isinstance(family, WrittenTask)]
    if len(varied) < len(lab.families):
        found.evidence.append(f"{len(lab.families) - len(varied)} families are one written task each, and do not vary")
    duplicates = {f"{family.name}/{level.value}": _duplicates(family, level) for family in varied for level in family.difficulties}
    found.figures = {
        "splits": {name: len(group) for name, group in grouped(courses, lambda one: one.split).items()},
        "mixture": {name: len(group) for name, group in grouped(courses, _kind).items()},
        "success": {name: share(group) for name, group in grouped(courses, _kind).items()},
        "success_by_policy": {name: share(group) for name, group in grouped(courses, lambda one: one.policy).items()},
        "expert_steps": {name: round(mean(one.steps for one in group), 1) for name, group in grouped(_expert(lab), _kind).items()},
        "duplicate_rate": duplicates,
    }
    found.findings += [
        f"{kind}: {rate:.0%} of {SAMPLE} tasks repeat another one" for kind, rate in duplicates.items() if rate > MOST_DUPLICATES
    ]
    found.findings += _mixture(lab, courses)
    if given:
        found.findings += _signal(courses)
    return found


def _duplicates(family: Family, level: object) -> float:
    """Share of a sample that is the same as an earlier task but for its id."""
    tasks = [family.generate(one, seed) for one in family.difficulties if one is level for seed in range(SAMPLE)]
    contents = {task.content for task in tasks}
    return round(1 - len(contents) / len(tasks), 4)


def _mixture(lab: Lab, courses: list[Course]) -> Iterator[str]:
    counts = grouped(courses, lambda one: one.family)
    known = {family.name for family in lab.families}
    trained = {family.name for family in lab.families if lab.asked.trajectories is None or not family.evaluation_only}
    yield from (f"{name}: {len(group)} episodes of a family that this world has not" for name, group in counts.items() if name not in known)
    yield from (f"{name}: no episode of this family" for name in sorted(trained - counts.keys()))
    for name, group in counts.items():
        if len(trained) > 1 and len(group) > MOST_SHARE * len(courses):
            yield f"{name}: {len(group) / len(courses):.0%} of all episodes; one family drowns the others"


def _signal(courses: list[Course]) -> Iterator[str]:
    """Group methods learn from differences: somewhere success must lie between never and always."""
    rates = [rate for group in grouped(courses, _kind).values() if (rate := share(group)) is not None]
    if not rates:
        yield "no episode of the log was judged"
    elif all(rate == 0 for rate in rates):
        yield "the policy succeeds nowhere: there is nothing to learn from; make the tasks easier, or the policy better"
    elif all(rate == 1 for rate in rates):
        yield "the policy succeeds everywhere: there is nothing left to learn"


def _expert(lab: Lab) -> list[Course]:
    return [course for course in lab.own if course.policy == "expert"]


def _kind(course: Course) -> str:
    return f"{course.family}/{course.difficulty}"
