"""Options of `--policy openai`, for any command that plays policies."""

from collections.abc import Mapping
from typing import Annotated

import typer

from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.inference.options import API, EndpointOptions
from wardian.rollouts.inference.policy import NAME as OPENAI
from wardian.tools.contract import Json
from wardian.tools.loading import Rejected, load_strict

PANEL = "A model behind an endpoint (--policy openai)"

BaseUrl = Annotated[
    str | None, typer.Option(help="Address of an OpenAI-compatible endpoint, such as http://127.0.0.1:8000/v1.", rich_help_panel=PANEL)
]
Model = Annotated[str | None, typer.Option(help="Name of the model, as the endpoint knows it.", rich_help_panel=PANEL)]
ApiKeyEnv = Annotated[
    str | None, typer.Option(help="Environment variable that holds the key. Default: none is sent.", rich_help_panel=PANEL)
]
ToolCalls = Annotated[
    str, typer.Option(help="How calls come: api, or text:FORMAT (json, tags, mistral or invoke) out of the text.", rich_help_panel=PANEL)
]
MaxTokens = Annotated[int | None, typer.Option(help="Of one answer. Default: the endpoint's.", rich_help_panel=PANEL)]
Temperature = Annotated[float | None, typer.Option(help="Default: the endpoint's.", rich_help_panel=PANEL)]
Concurrency = Annotated[int, typer.Option(help="Most requests at once.", rich_help_panel=PANEL)]
Streaming = Annotated[bool, typer.Option(help="Ask for answers in pieces, so that a stall is seen early.", rich_help_panel=PANEL)]
SilenceS = Annotated[float, typer.Option(help="Longest wait for the next bytes, in seconds.", rich_help_panel=PANEL)]
DeadlineS = Annotated[float, typer.Option(help="Longest time of one request, in seconds.", rich_help_panel=PANEL)]
Tries = Annotated[int, typer.Option(help="Requests for one answer, the first included.", rich_help_panel=PANEL)]
GoneAfter = Annotated[
    int, typer.Option(help="Episodes in a row that cannot ask, after which it ends; a run with --out can go on.", rich_help_panel=PANEL)
]
Request = Annotated[
    str, typer.Option(help='Further fields of each request, as a JSON object, such as {"top_p": 0.9}.', rich_help_panel=PANEL)
]

DEFAULT = EndpointOptions("http://127.0.0.1:8000/v1", "none")
"""Holds the defaults of those that have one."""
TOOL_CALLS = API
NAMES = ("max_tokens", "temperature", "concurrency", "streaming", "silence_s", "deadline_s", "tries", "gone_after")


def endpoint_of(asked: Mapping[str, Json]) -> EndpointOptions | None:
    """The options that a command was given by the names above; `None` when its policies do not include `openai`.

    Raises:
        UsageProblem: one is missing, or out of range.
    """
    if OPENAI not in [name.strip() for name in asked["policy"].split(",")]:
        if asked["model"]:
            raise UsageProblem(f"model: only the policy {OPENAI} has one; give --policy {OPENAI}, or leave --model out")
        return None
    return EndpointOptions.read(
        base_url=asked["base_url"],
        model=asked["model"],
        api_key_env=asked["api_key_env"],
        tool_calls=asked["tool_calls"],
        extra=_object(asked["request"]),
        **{name: asked[name] for name in NAMES},
    )


def _object(text: str) -> dict[str, Json]:
    found = load_strict(text)
    if isinstance(found, Rejected) or not isinstance(found.value, dict):
        reason = f": {found.message}" if isinstance(found, Rejected) else ""
        raise UsageProblem(f'request: must be one JSON object, such as {{"top_p": 0.9}}{reason}')
    return found.value
