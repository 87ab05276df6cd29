"""What frames and bodies hold, as models: they check what comes in, and make the published schemas.

An action has a `type`. OpenEnv's own two are taken as they are, so that its tool clients work.
"""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from wardian.envs.action import Action, Malformed, Message, ToolCalls
from wardian.rollouts.actions import sound
from wardian.rollouts.inference.reading import read_text
from wardian.rollouts.policies.sampled import Sampled
from wardian.tools.completions import CallFormat
from wardian.tools.contract import Json, ToolCall
from wardian.trainers.server.problems import Code, Problem

NAME = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"
"""Of a lease."""
CALLS = 64
"""In one action."""


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Sample(Closed):
    """What a model gave along with an action; it goes into the trajectory."""

    policy_version: str | None = Field(default=None, max_length=256)
    text: str | None = None
    raw: str | None = None
    prompt_token_ids: list[int] | None = None
    token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    loss_mask: list[int] | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Acting(Closed):
    metadata: dict[str, Any] = Field(default_factory=dict, description="Ignored; OpenEnv's clients send it.")
    sample: Sample | None = None


class Call(Closed):
    tool: str
    arguments: dict[str, Any] | str = Field(default_factory=dict, description="An object, or the model's own text, read as strictly.")


class CallTool(_Acting):
    """One call."""

    type: Literal["call_tool"]
    tool_name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)


class CallTools(_Acting):
    """Several calls of one turn, run in their order."""

    type: Literal["tool_calls"]
    calls: list[Call] = Field(min_length=1, max_length=CALLS)


class Say(_Acting):
    """A message; by a family's rule it may end the episode."""

    type: Literal["message"]
    text: str


class Broken(_Acting):
    """Output that holds no usable action."""

    type: Literal["malformed"]
    raw: str
    reason: str = ""


class Complete(_Acting):
    """A model's raw text, read by the server's own parser: calls, or else a message."""

    type: Literal["completion"]
    text: str
    format: CallFormat = Field(default=CallFormat.TAGS, strict=False)


class ListTools(_Acting):
    """The tools of the episode, or of the world before there is one. It is no step."""

    type: Literal["list_tools"]


AnyAction: TypeAlias = Annotated[CallTool | CallTools | Say | Broken | Complete | ListTools, Field(discriminator="type")]
ACTION: TypeAdapter[AnyAction] = TypeAdapter(AnyAction)


class InjectedState(Closed):
    """A state to begin from, in place of a task's own start."""

    snapshot: str = Field(description="Key of a snapshot that this server keeps.")


class Reset(BaseModel):
    """Which task to begin. Without `task_id` it is the one at `index` of `split`; without either, the next one in the list."""

    model_config = ConfigDict(extra="forbid", strict=True)
    task_id: str | None = Field(default=None, max_length=512)
    split: str | None = None
    index: int | None = Field(default=None, ge=0)
    seed: int | None = Field(
        default=None, ge=0, lt=1 << 63, description="Of the episode's streams: events and faults. Default: the one listed."
    )
    episode_id: str | None = Field(default=None, max_length=255, description="Name of the episode in the trajectory.")
    policy_version: str | None = Field(default=None, max_length=256, description="Of the weights that play; it stands in the trajectory.")
    injected_state: InjectedState | None = None


class Lease(Closed):
    """Body of `POST /sessions`."""

    session_id: str | None = Field(default=None, pattern=NAME)
    world: str | None = None
    policy_version: str = Field(default="", max_length=256)
    ttl_s: float | None = Field(default=None, gt=0, strict=False)


class Group(Reset):
    """Body of `POST /groups`: so many leases, all reset to one task."""

    size: int = Field(ge=1)
    world: str | None = None
    prefix: str | None = Field(default=None, pattern=NAME, max_length=96, description="Leases are called PREFIX-0, PREFIX-1 and so on.")


class Key(Closed):
    """Body of `restore`."""

    snapshot: str


class Fork(Closed):
    """Body of `fork`."""

    count: int = Field(ge=1)
    prefix: str | None = Field(default=None, pattern=NAME, max_length=96)


def checked(model: "type[Reset] | type[Lease] | type[Group] | type[Key] | type[Fork]", data: Json) -> Any:
    """`data` as `model`.

    Raises:
        Problem: it is not; names the fields.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise invalid(error) from error


def action_of(data: Json) -> AnyAction:
    """The action that a frame holds.

    Raises:
        Problem: it holds none; names the fields.
    """
    try:
        return ACTION.validate_python(data)
    except ValidationError as error:
        raise invalid(error) from error


def invalid(error: ValidationError) -> Problem:
    """What to answer for it."""
    found = [
        {"field": ".".join(map(str, one["loc"])) or "data", "message": one["msg"]}
        for one in error.errors(include_url=False, include_input=False, include_context=False)[:20]
    ]
    text = "; ".join(f"{one['field']}: {one['message']}" for one in found)
    return Problem(Code.VALIDATION_ERROR, f"Invalid message: {text}", errors=found)


def sampled_of(action: AnyAction) -> Sampled:
    """The action as an environment takes it, with what came along.

    Raises:
        Problem: what came along does not fit together; names the field.
    """
    given = action.sample.model_dump(exclude={"policy_version"}, exclude_none=True) if action.sample else {}
    version = action.sample.policy_version if action.sample else None
    if isinstance(action, Complete):
        given.setdefault("raw", action.text)
    try:
        return Sampled(sound(_taken(action)), checkpoint=version, **given)
    except ValueError as error:
        raise Problem(Code.VALIDATION_ERROR, f"sample: {error}") from error


def _taken(action: AnyAction) -> Action:
    match action:
        case CallTool():
            return ToolCalls((ToolCall(action.tool_name, action.arguments),))
        case CallTools():
            return ToolCalls(tuple(ToolCall(one.tool, one.arguments) for one in action.calls))
        case Say():
            return Message(action.text)
        case Broken():
            return Malformed(action.raw, action.reason or "The output holds no usable action.")
        case Complete():
            return read_text(action.text, action.format)
    raise Problem(Code.VALIDATION_ERROR, "type: list_tools is no action of an episode")
