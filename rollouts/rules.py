"""What the fields of one line must say of each other, beyond the schema. Each rule that is broken gives one `Fault`."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wardian.envs.task import canary_of
from wardian.rollouts.actions import from_part, to_part
from wardian.rollouts.records import EpisodeEnd, EpisodeStart, FingerprintPart, ResultPart, RunRecord, StepRecord, VerdictPart
from wardian.sandbox.fingerprint import Fingerprint
from wardian.tools.faults import digest_of

TOLERANCE = 1e-9
"""Of sums of rewards, which may be added up in another order."""
COPY = "take the line from a whole copy of the log"
"""The fix where nothing tells which of several fields was changed."""


@dataclass(frozen=True, slots=True)
class Fault:
    field: str
    message: str
    fix: str = COPY


def shown(value: object, limit: int = 60) -> str:
    """A value for people, cut where it is long."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}..."


def same_reward(one: float | None, other: float | None) -> bool:
    """Whether two rewards are one, but for rounding."""
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def faults_of(record: RunRecord | EpisodeStart | StepRecord | EpisodeEnd) -> Iterator[Fault]:
    """All rules that a line breaks by itself."""
    match record:
        case EpisodeStart():
            yield from _of_start(record)
        case StepRecord():
            yield from _of_step(record)
        case EpisodeEnd():
            yield from _of_end(record)
    if not isinstance(record, RunRecord) and record.env_version != record.versions.env:
        yield Fault("env_version", f"is {record.env_version!r}, and versions.env {record.versions.env!r}")


def _of_start(start: EpisodeStart) -> Iterator[Fault]:
    if not start.mask:
        yield Fault("mask", "is 0 in a start, which nothing masks", "write 1")
    if (start.tier is None) != (start.receipt is None):
        yield Fault("tier", f"is {start.tier!r} {'without a' if start.receipt is None else 'beside a'} receipt")
    if start.reset_ms < 0:
        yield Fault("reset_ms", "is below 0")
    if start.faults_hash != digest_of(start.faults):
        yield Fault("faults_hash", "is not that of the profile in faults")
    if start.canary != canary_of(start.task_hash):
        yield Fault("canary", "is not that of the task", f"write {canary_of(start.task_hash)!r}")
    yield from _of_fingerprint(start.fingerprint)


def _of_step(step: StepRecord) -> Iterator[Fault]:
    yield from _of_reward(step)
    yield from _of_ending(step)
    yield from _of_action(step)
    if step.tool_result != (step.tool_results[0] if step.tool_results else ResultPart(status=None, latency_ms=0)):
        yield Fault("tool_result", "is not the first of tool_results")
    marked = [f"{event.tool}: {event.inexact}" for event in step.events if event.inexact]
    beyond = step.inexact[len(marked) :]
    if step.failed is None and (step.inexact[: len(marked)] != marked or len(beyond) > bool(step.end_cause)):
        yield Fault("inexact", f"is {step.inexact}, and the events make it {marked}")
    for index, event in enumerate(step.events):
        if event.step != step.step:
            yield Fault(f"events[{index}].step", f"is {event.step} in step {step.step}", f"write {step.step}")
    if step.wall_ms < 0:
        yield Fault("wall_ms", "is below 0")
    if step.fingerprint is not None:
        yield from _of_fingerprint(step.fingerprint)


def _of_reward(step: StepRecord) -> Iterator[Fault]:
    total = None if step.failed is not None else sum(step.reward_components.values())
    if not same_reward(step.reward, total):
        why = "of a step that failed there is no reward" if total is None else f"its components sum to {total}"
        yield Fault("reward", f"is {step.reward}, and {why}", f"write {'null' if total is None else total}, or put the components right")
    if step.failed is not None and step.reward_components:
        yield Fault("reward_components", "are not empty, and the step failed")
    if step.mask != (step.failed is None):
        yield Fault("mask", f"is {step.mask}, and failed is {step.failed!r}", f"write {int(step.failed is None)}")


def _of_ending(step: StepRecord) -> Iterator[Fault]:
    ended = [name for name in ("terminated", "truncated") if getattr(step, name)] + (["failed"] if step.failed is not None else [])
    if len(ended) > 1:
        yield Fault(ended[1], f"stands beside {ended[0]}: a step ends in one way")
    if bool(ended) != bool(step.end_cause):
        yield Fault("end_cause", f"is {step.end_cause!r}, and the step is {ended[0] if ended else 'not the last'}")
    judged = step.terminated or step.truncated
    if judged != (step.verdict is not None):
        yield Fault("verdict", "is missing where the episode ended" if judged else "stands where no episode ended")
    yield from _of_verdict(step.verdict)


def _of_action(step: StepRecord) -> Iterator[Fault]:
    try:
        again = to_part(from_part(step.action))
    except ValueError as error:
        field, _, message = str(error).partition(": ")
        yield Fault(field, message, "add what is missing")
        return
    for name in type(step.action).model_fields:
        if getattr(again, name) != getattr(step.action, name):
            yield Fault(f"action.{name}", f"does not belong to an action of type {step.action.type}, or is not its first call's")


def _of_verdict(verdict: VerdictPart | None) -> Iterator[Fault]:
    if verdict is None:
        return
    checks = verdict.checks
    says: Mapping[str, object] = {
        "succeeded": all(check.passed for check in checks),
        "hard_failure": any(check.hard and not check.passed for check in checks),
        "share": sum(check.passed for check in checks) / len(checks) if checks else 0.0,
    }
    if not checks:
        yield Fault("verdict.checks", "are none, and a verdict without checks says nothing")
    for name, value in says.items():
        if getattr(verdict, name) != value:
            yield Fault(f"verdict.{name}", f"is {getattr(verdict, name)}, and its checks make it {value}", f"write {value}")


def _of_fingerprint(part: FingerprintPart) -> Iterator[Fault]:
    root = Fingerprint(part.leaves).root
    if part.root != root:
        yield Fault("fingerprint.root", f"is {part.root[:40]!r}, and its leaves make it {root!r}")


def _of_end(end: EpisodeEnd) -> Iterator[Fault]:
    judged = end.outcome in ("terminated", "truncated")
    if end.mask != judged:
        yield Fault("mask", f"is {end.mask}, and the outcome {end.outcome}", f"write {int(judged)}")
    total = sum(end.reward_components.values()) if judged else None
    if not same_reward(end.reward, total):
        why = f"the outcome {end.outcome} has none" if total is None else f"its components sum to {total}"
        yield Fault("reward", f"is {end.reward}, and {why}", f"write {'null' if total is None else total}, or put the components right")
    if end.reward_components and not judged:
        yield Fault("reward_components", f"are not empty, and the outcome is {end.outcome}", "write {}")
    if judged != (end.verdict is not None):
        yield Fault("verdict", f"{'is missing' if judged else 'stands'} where the outcome is {end.outcome}")
    if end.succeeded != (end.verdict.succeeded if end.verdict else None):
        yield Fault("succeeded", f"is {end.succeeded}, and the verdict says otherwise")
    if end.retried and end.outcome != "failed":
        yield Fault("retried", f"is true, and the outcome {end.outcome}: only what failed is made again", "write false")
    if not end.end_cause:
        yield Fault("end_cause", "is empty in an end")
    if end.wall_ms < 0:
        yield Fault("wall_ms", "is below 0")
    yield from _of_verdict(end.verdict)
