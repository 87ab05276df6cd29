"""How a model behind an endpoint is asked. Checked whole before anything is started."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

from wardian.rollouts.errors import UsageProblem
from wardian.tools.completions import CallFormat
from wardian.tools.contract import Json

API = "api"
_RESERVED = ("messages", "model", "tools", "stream", "n")


@dataclass(frozen=True, slots=True)
class EndpointOptions:
    base_url: str
    """Up to and without `/chat/completions`."""
    model: str
    api_key: str | None = field(default=None, repr=False)
    """Sent as a bearer token; `None` sends none."""
    text_format: CallFormat | None = None
    """The format in which calls stand in the model's text; `None`: they come by the API."""
    max_tokens: int | None = None
    """Of one answer; `None` leaves it to the endpoint, as all `None`s here."""
    temperature: float | None = None
    concurrency: int = 256
    """Most requests at once, whatever the number of cells."""
    streaming: bool = False
    """Ask for the answer in pieces, so that a stall is seen before the deadline."""
    silence_s: float = 60.0
    """Longest wait for the next bytes; of an answer that does not stream, this is the whole wait."""
    deadline_s: float = 600.0
    """Longest time of one request, whole."""
    tries: int = 6
    """Requests for one answer, the first included."""
    gone_after: int = 8
    """Episodes in a row that could not ask, after which the endpoint is taken to be gone and the run ends."""
    extra: Mapping[str, Json] = field(default_factory=dict)
    """Further fields of each request, such as `top_p` or `logprobs`."""

    def __post_init__(self) -> None:
        self._check_url()
        if not self.model.strip():
            raise UsageProblem("model: name the model as the endpoint knows it")
        for name, low in (("max_tokens", 1), ("concurrency", 1), ("tries", 1), ("gone_after", 1)):
            if (value := getattr(self, name)) is not None and value < low:
                raise UsageProblem(f"{name.replace('_', '-')}: must be at least {low}, got {value}")
        for name in ("silence_s", "deadline_s"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageProblem(f"{name.replace('_', '-')}: must be above 0 and finite, got {getattr(self, name)}")
        if self.temperature is not None and not 0 <= self.temperature < math.inf:
            raise UsageProblem(f"temperature: must be at least 0, got {self.temperature}")
        if taken := [name for name in _RESERVED if name in self.extra]:
            raise UsageProblem(f"request: {', '.join(taken)} cannot be set there")

    @classmethod
    def read(cls, *, base_url: str | None, model: str | None, api_key_env: str | None, tool_calls: str, **rest: Json) -> Self:
        """Make options from what a command line gave; the key is read from the environment, so that it stands in no log.

        Raises:
            UsageProblem: one is missing or out of range, or the variable is not set.
        """
        if base_url is None or model is None:
            missing = " and ".join(name for name, value in (("--base-url", base_url), ("--model", model)) if value is None)
            raise UsageProblem(f"policy: openai needs {missing}, such as --base-url http://127.0.0.1:8000/v1 --model NAME")
        return cls(base_url, model, _key(api_key_env), _text_format(tool_calls), **rest)

    def _check_url(self) -> None:
        try:
            parts = urlsplit(self.base_url)
            known = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError:
            known = False
        if not known:
            raise UsageProblem(f"base-url: {self.base_url!r} is no address of the form http(s)://host[:port]/v1")
        if parts.username or parts.password:
            raise UsageProblem("base-url: holds a password, which would stand in logs; give the key by --api-key-env")
        if parts.query or parts.fragment:
            raise UsageProblem("base-url: must end before '?' and '#'")
        if parts.path.rstrip("/").endswith("/chat/completions"):
            raise UsageProblem("base-url: leave out /chat/completions; it is added")


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UsageProblem(f"api-key-env: the environment has no {variable}, or an empty one")
    if not (key.isascii() and key.isprintable()):
        raise UsageProblem(f"api-key-env: {variable} holds characters that no header can carry")
    return key


def _text_format(name: str) -> CallFormat | None:
    kind, _, form = name.partition(":")
    known = [one.value for one in CallFormat]
    if name == API:
        return None
    if kind != "text" or form not in known:
        raise UsageProblem(f"tool-calls: no {name!r}; there are {API}, {', '.join(f'text:{one}' for one in known)}")
    return CallFormat(form)
