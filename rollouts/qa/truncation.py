"""Budgets: that one of them ends every episode, that it is truncation then, and that nothing else is."""

from collections import Counter

from wardian.envs.action import Malformed, Observation, call
from wardian.envs.ending import EndCause
from wardian.envs.family import Solution
from wardian.envs.task import Budgets, TaskId
from wardian.envs.variants import task_of
from wardian.rollouts.policies.base import Scripted, TaskView
from wardian.rollouts.policies.vandal import arguments
from wardian.rollouts.qa.acting import MOST_STEPS, Took, play
from wardian.rollouts.qa.courses import Course
from wardian.rollouts.qa.lab import Lab
from wardian.rollouts.qa.outcome import Outcome
from wardian.sandbox.streams import stream
from wardian.tools.faults import NONE

BUDGETS = (EndCause.STEPS, EndCause.TOKENS, EndCause.VIRTUAL_TIME, EndCause.INVALID_STREAK)


async def accounted(lab: Lab) -> Outcome:
    """Whoever goes on without end is truncated, by the budget that is used up."""
    found = Outcome()
    idlers = await _dawdle(lab)
    found.evidence.append(
        f"{len(idlers)} episodes that only read, or only babble, until something ends them; and {len(lab.audited)} logged ones"
    )
    found.figures = {"dawdlers": dict(Counter(str(one.last.info.end_cause) or "nothing" for one in idlers)), **_counts(lab.audited)}
    for one in idlers:
        found.findings += _unaccounted(lab, one)
    for course in lab.audited:
        if course.outcome == "truncated" and course.end_cause not in BUDGETS:
            found.findings.append(f"{course.episode_id}: truncated by {course.end_cause}, which is no budget")
        if course.outcome == "truncated" and not course.judged:
            found.findings.append(f"{course.episode_id}: truncated and masked; what a budget ends is the policy's doing and counts")
    return found


async def told_apart(lab: Lab) -> Outcome:
    """No limit ends an episode as terminated: what comes after would count as worth nothing."""
    found = Outcome()
    idlers = await _dawdle(lab)
    found.evidence.append(f"{len(idlers)} episodes that only read or babble, and {len(lab.audited)} logged ones")
    for one in idlers:
        last = one.last
        effects = [effect["kind"] for event in last.info.events for effect in event.effects]
        if last.terminated and last.info.end_cause in (*BUDGETS, *effects):
            found.findings.append(
                f"{one.task_id}: calls that change nothing ended it as terminated, by {last.info.end_cause}; a limit truncates"
            )
    found.findings += [
        f"{course.episode_id}: terminated by {course.end_cause}, which is a budget"
        for course in lab.audited
        if course.outcome == "terminated" and course.end_cause in BUDGETS
    ]
    found.figures = _counts(lab.audited)
    return found


async def _dawdle(lab: Lab) -> list[Took]:
    """Of each family an episode that only reads, where there is something to read, and one that says nothing of use."""
    if lab.dawdlers:
        return lab.dawdlers
    readers = sorted(tool.name for tool in lab.ground.world.tools if not tool.mutates)
    policies = [Scripted("babbler", "qa", _babble)]
    if readers:
        policies.append(Scripted("reader", "qa", lambda first, view: _read(view, readers)))
    async with lab.environment(NONE) as env:
        lab.dawdlers = [await play(env, policy, lab.tasks(family)[0]) for family in lab.families for policy in policies]
    return lab.dawdlers


def _read(view: TaskView, readers: list[str]) -> Solution:
    rng = stream(view.seed, "qa/reader")
    schemas = {schema["function"]["name"]: schema["function"]["parameters"] for schema in view.tool_schemas}
    while True:
        for name in readers:
            if name in schemas:
                yield call(name, **arguments(rng, schemas[name]))


def _babble(first: Observation, view: TaskView) -> Solution:
    while True:
        yield Malformed("Let me think about it.", "There is no tool call in this text.")


def _unaccounted(lab: Lab, one: Took) -> list[str]:
    last, budgets = one.last, _budgets(lab, one)
    if last.failed is not None or last.terminated:
        return []  # other checks say it
    if not last.done:
        return [f"{one.task_id}: no budget ends it within {MOST_STEPS} steps; its budgets are {budgets}"]
    if last.info.end_cause not in BUDGETS:
        return [f"{one.task_id}: truncated by {last.info.end_cause}, which is no budget"]
    if last.info.verdict is None or last.reward is None:
        return [f"{one.task_id}: truncated without a verdict or a reward"]
    if last.info.end_cause == EndCause.STEPS and len(one.actions) != budgets.steps:
        return [f"{one.task_id}: out of steps after {len(one.actions)} calls, and {budgets.steps} are allowed"]
    return []


def _budgets(lab: Lab, one: Took) -> Budgets:
    return task_of(lab.ground.world, TaskId.parse(one.task_id)).budgets


def _counts(courses: list[Course]) -> dict[str, dict[str, int]]:
    return {"outcomes": dict(Counter(one.outcome for one in courses)), "causes": dict(Counter(one.end_cause for one in courses))}
