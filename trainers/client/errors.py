"""What can go wrong between a trainer and a server.

ServerError          anything of these; `code` and `facts` as the server said them
├── Refused          the request is wrong; the message names the field
├── CapacityReached  no lease or cell is free; `retry_after_s` says when to ask again
├── SessionBusy      the lease has another call under way
├── SessionLost      the lease ended: it was closed, lapsed, or another socket took it over
├── ResetFailed      the episode could not begin through the server's fault; `failure_kind` says why, and there is nothing to train on
├── NotAuthorized    the token is missing or wrong
└── Unreachable      no server answers
"""

from typing import Any


class ServerError(Exception):
    def __init__(self, message: str, code: str = "", facts: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.facts = facts or {}

    @property
    def failure_kind(self) -> str | None:
        """Why an episode is over without a reward, where it is."""
        found = self.facts.get("failure_kind")
        return str(found) if found else None


class Refused(ServerError):
    """The request is wrong; the message names the field."""


class CapacityReached(ServerError):
    """No lease or cell is free."""

    @property
    def retry_after_s(self) -> float:
        """When to ask again, in seconds."""
        return float(self.facts.get("retry_after_s", 1.0))


class SessionBusy(ServerError):
    """The lease has another call under way."""


class SessionLost(ServerError):
    """The lease has ended, or was taken over."""


class ResetFailed(ServerError):
    """The episode could not begin, through the server's fault."""


class NotAuthorized(ServerError):
    """The token is missing or wrong."""


class Unreachable(ServerError):
    """No server answers at that address, or it went away."""


_BY_CODE: dict[str, type[ServerError]] = {
    "INVALID_JSON": Refused,
    "UNKNOWN_TYPE": Refused,
    "VALIDATION_ERROR": Refused,
    "CAPACITY_REACHED": CapacityReached,
    "RATE_LIMITED": CapacityReached,
    "DRAINING": CapacityReached,
    "SESSION_ERROR": SessionLost,
    "SESSION_BUSY": SessionBusy,
    "NOT_AUTHORIZED": NotAuthorized,
}


def error_of(body: dict[str, Any]) -> ServerError:
    """The error that the server's answer stands for."""
    code, message = str(body.get("code", "")), str(body.get("message") or body.get("detail") or body)
    facts = {name: value for name, value in body.items() if name not in ("code", "message", "detail")}
    kind = ResetFailed if facts.get("failure_kind") else _BY_CODE.get(code, ServerError)
    return kind(message, code, facts)
