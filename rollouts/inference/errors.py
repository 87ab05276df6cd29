"""What can go wrong between this process and a model's server.

EndpointError
├── EndpointFailed    it did not answer, or not with a chat completion; asking again may help
└── EndpointRefused   it answered that it will not (4xx other than 408, 409, 425 and 429)

Both end at the policy, which raises what `wardian.rollouts.errors` has for a player that cannot act.
"""


class EndpointError(Exception):
    """Base of both."""


class EndpointFailed(EndpointError):
    """No completion came, by whatever cause that may pass."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        """What the server asked for, if it did."""


class EndpointRefused(EndpointError):
    """The request was refused; `status` is that of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"HTTP {status}: {message}")
        self.status = status
