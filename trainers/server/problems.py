"""What is answered where something cannot be done: one code, one status, one sentence that says what to do."""

from enum import StrEnum

from starlette.responses import JSONResponse

from wardian.envs.ending import boundary
from wardian.envs.errors import CallInFlight, NotReset, TaskError
from wardian.rollouts.errors import UsageProblem
from wardian.sandbox.errors import PoolTimeout, SnapshotRefused, SnapshotTooLarge
from wardian.tools.contract import Json

RETRY_S = 0.5
"""When to ask again after there was no free cell."""


class Code(StrEnum):
    """The first seven are OpenEnv's."""

    INVALID_JSON = "INVALID_JSON"
    UNKNOWN_TYPE = "UNKNOWN_TYPE"
    VALIDATION_ERROR = "VALIDATION_ERROR"
    EXECUTION_ERROR = "EXECUTION_ERROR"
    CAPACITY_REACHED = "CAPACITY_REACHED"
    FACTORY_ERROR = "FACTORY_ERROR"
    SESSION_ERROR = "SESSION_ERROR"
    SESSION_BUSY = "SESSION_BUSY"
    """Another call of the same lease is under way."""
    NOT_AUTHORIZED = "NOT_AUTHORIZED"
    RATE_LIMITED = "RATE_LIMITED"
    DRAINING = "DRAINING"


_STATUS = {
    Code.INVALID_JSON: 400,
    Code.UNKNOWN_TYPE: 400,
    Code.VALIDATION_ERROR: 422,
    Code.EXECUTION_ERROR: 500,
    Code.CAPACITY_REACHED: 503,
    Code.FACTORY_ERROR: 500,
    Code.SESSION_ERROR: 404,
    Code.SESSION_BUSY: 409,
    Code.NOT_AUTHORIZED: 401,
    Code.RATE_LIMITED: 429,
    Code.DRAINING: 503,
}


class Problem(Exception):
    """Carries what is answered. `facts` stand beside message and code."""

    def __init__(self, code: Code, message: str, *, status: int | None = None, retry_after_s: float | None = None, **facts: Json) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status or _STATUS[code]
        self.retry_after_s = retry_after_s
        self.facts = facts

    def body(self) -> dict[str, Json]:
        """What the caller reads."""
        found: dict[str, Json] = {"message": self.message, "code": self.code.value, **self.facts}
        return found if self.retry_after_s is None else {**found, "retry_after_s": self.retry_after_s}


def answered(problem: Problem) -> JSONResponse:
    """As a request is answered."""
    headers = {} if problem.retry_after_s is None else {"Retry-After": str(max(1, round(problem.retry_after_s)))}
    if problem.status in (408, 413):  # what is left of the body is not read
        headers["Connection"] = "close"
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse({"detail": problem.message, **problem.body()}, problem.status, headers)


def no_session(name: str) -> Problem:
    """There is no such lease, or no longer."""
    return Problem(Code.SESSION_ERROR, f"session_id: no lease {name!r}; it was closed, has lapsed, or was never made")


def problem_of(error: Exception) -> Problem:
    """What to answer for an exception of a call that made no step. A bug of ours is named, and its text is not."""
    match error:
        case Problem():
            return error
        case PoolTimeout():
            return Problem(Code.CAPACITY_REACHED, f"no cell is free: {error}", retry_after_s=RETRY_S)
        case TaskError() | UsageProblem() | SnapshotRefused() | SnapshotTooLarge():
            return Problem(Code.VALIDATION_ERROR, str(error))
        case CallInFlight():
            return Problem(Code.SESSION_BUSY, str(error))
        case NotReset():
            return Problem(Code.EXECUTION_ERROR, f"no episode runs: {error}", status=409)
        case _:
            ending = boundary(error)
            return Problem(
                Code.EXECUTION_ERROR,
                f"{ending.cause}: {ending.detail}",
                failure_kind=str(ending.cause),
                reward=None,
                done=True,
            )
