"""One finding of the doctor: a fact, how good it is, and what to do about it."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    status: Status
    value: str | int | None
    """The fact; numbers with a unit carry it in the name; `None` when it could not be found out."""
    detail: str = ""
    """Why it is so; else empty."""
    what_to_do: str = ""
    """Empty exactly when the status is `ok`."""


def expect(name: str, value: str | int, good: bool, todo: str, detail: str = "") -> Check:
    """A fact that is good, or else worth a warning with `todo`."""
    return Check(name, Status.OK, value, detail) if good else Check(name, Status.WARNING, value, detail, todo)


def enough(name: str, value: int | None, want: int, need: int, todo: str) -> Check:
    """A number against what is comfortable and what is the least; what cannot be read is no finding."""
    if value is None or value >= want:
        return Check(name, Status.OK, value, "" if value is not None else "not readable here")
    return Check(name, Status.WARNING if value >= need else Status.FAILURE, value, f"{want} or more is comfortable", todo)
