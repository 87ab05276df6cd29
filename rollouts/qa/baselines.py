"""Whether scripted policies come to what is expected of them: the expert solves, the careless one mostly fails, the idle one always."""

from wardian.envs.expected import Shares
from wardian.envs.family import Family
from wardian.rollouts.qa.courses import Course, share
from wardian.rollouts.qa.lab import Lab
from wardian.rollouts.qa.outcome import Outcome

STAND_IN = "random"
"""Where the world has no careless policy."""


async def scripted(lab: Lab) -> Outcome:
    """Shares of solved episodes, by family and policy."""
    found = Outcome()
    played = {course.policy for course in lab.own}
    careless = "careless" if "careless" in played else STAND_IN
    for family in lab.families:
        own = [course for course in lab.own if course.family == family.name]
        found.figures[family.name] = {name: share([one for one in own if one.policy == name]) for name in sorted(played)}
        for name, wanted in (("expert", family.expected.expert), (careless, family.expected.careless), ("idle", family.expected.idle)):
            found.findings += _findings(family, name, wanted, [one for one in own if one.policy == name])
        if family.expected.reason:
            found.evidence.append(f"{family.name} expects something else: {family.expected.reason}")
    found.evidence.append(f"{len(lab.own)} episodes under the faults {lab.faults.name}, of {', '.join(sorted(played))}")
    if careless == STAND_IN:
        found.evidence.append(f"the world has no careless policy; {STAND_IN} stands for it")
    return found


def _findings(family: Family, name: str, wanted: Shares, courses: list[Course]) -> list[str]:
    low, high = wanted
    solved = share(courses)
    if solved is None:
        return [f"{family.name}: no episode of {name} was judged"]
    if low <= solved <= high:
        return []
    wrong = [str(one.task_id) for one in courses if one.judged and one.succeeded == (solved > high)]
    return [f"{family.name}: {name} solves {solved:.0%}, and {low:.0%} to {high:.0%} are expected; such as {', '.join(wrong[:3])}"]
