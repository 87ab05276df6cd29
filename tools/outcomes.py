"""Texts and statuses of what a toolbox answers by itself, written for the agent. Transient ones say so; lasting ones say that too."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from wardian.sandbox.errors import DatabaseProblem, DatabaseProblemKind, FileProblem, FileProblemKind
from wardian.tools.contract import Json, Refusal, Status, Tool
from wardian.tools.encoding import encode, text
from wardian.tools.loading import Kind, Rejected


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the agent is told, apart from how long it took."""

    status: Status
    content: Json = None
    message: str = ""


def unknown_tool(name: str, known: Iterable[str]) -> Rejected:
    """No such tool: lists those that are, with a hint where one is close. It is never run in its place."""
    names = list(known)
    shown = text(name[:100])
    close = difflib.get_close_matches(shown, names, n=1, cutoff=0.7)
    hint = f" Did you mean {close[0]}?" if close else ""
    return Rejected(Kind.UNKNOWN_TOOL, f"There is no tool {shown!r}.{hint} Tools: {', '.join(names)}.")


def rejected(problem: Rejected) -> Outcome:
    """A call that never reached its handler."""
    return Outcome(problem.status, message=problem.message)


def denied(tool: Tool[Any], missing: Iterable[str]) -> Outcome:
    """Scopes are missing."""
    names = ", ".join(sorted(missing))
    return Outcome(
        Status.PERMISSION_DENIED, message=f"{tool.name} needs a permission that you do not hold: {names}. Calling again will not help."
    )


def timed_out(tool: Tool[Any], limit_ms: int) -> Outcome:
    """No answer in time. The same words whether the effect happened, will happen or never will, for the agent cannot know."""
    after = f"{tool.name} gave no answer within {limit_ms / 1000:g} s."
    if tool.mutates and tool.idempotency_key:
        advice = f"call it again with the same {tool.idempotency_key}, if you gave one; else check first, it may still arrive."
        return Outcome(Status.TIMEOUT, message=f"{after} It may or may not have taken effect: {advice}")
    if tool.mutates:
        return Outcome(Status.TIMEOUT, message=f"{after} It may or may not have taken effect: check before you call it again.")
    return Outcome(Status.TIMEOUT, message=f"{after} It changes nothing, so calling it again is safe.")


def unavailable(tool: Tool[Any]) -> Outcome:
    """The service is down for a moment."""
    return Outcome(Status.UNAVAILABLE, message=f"{tool.name} is unavailable right now; nothing was done. Try again.")


def rate_limited(tool: Tool[Any], retry_after_ms: int) -> Outcome:
    """Too many calls, for so long; 0 is for a moment only."""
    if retry_after_ms <= 0:
        return Outcome(Status.RATE_LIMITED, message=f"{tool.name} takes no more calls right now; nothing was done. Try again.")
    after = f"Try again after {-(-retry_after_ms // 1000)} s; calls before are refused as well."
    message = f"{tool.name} takes no more calls right now; nothing was done. {after}"
    return Outcome(Status.RATE_LIMITED, {"retry_after_ms": retry_after_ms}, message)


def overtaken(tool: Tool[Any]) -> Outcome:
    """Someone else wrote first."""
    message = (
        f"{tool.name}: someone else changed the same record at the same moment, so nothing was written. Read it again, then try again."
    )
    return Outcome(Status.CONFLICT, message=message)


def refused(refusal: Refusal) -> Outcome:
    """The handler's own refusal."""
    return Outcome(refusal.status, encode(refusal.details, "details"), text(refusal.message))


_DATABASE = {DatabaseProblemKind.CONSTRAINT: Status.CONFLICT, DatabaseProblemKind.TOO_SLOW: Status.TIMEOUT}


def database_problem(problem: DatabaseProblem) -> Outcome:
    """A value or statement that the database refused; nothing was written."""
    return Outcome(_DATABASE.get(problem.kind, Status.INVALID_ARGUMENTS), message=f"{text(str(problem))}. Nothing was written.")


_FILES = {
    FileProblemKind.NOT_FOUND: Status.NOT_FOUND,
    FileProblemKind.PARENT_NOT_FOUND: Status.NOT_FOUND,
    FileProblemKind.PERMISSION_DENIED: Status.PERMISSION_DENIED,
    FileProblemKind.DISK_FULL: Status.CONFLICT,
}


def file_problem(problem: FileProblem) -> Outcome:
    """A file operation that failed inside the chamber."""
    return Outcome(_FILES.get(problem.kind, Status.INVALID_ARGUMENTS), {"problem": problem.kind.value}, f"{text(str(problem))}.")
