"""One line of a trajectory, as models that refuse unknown keys.

Four kinds of line: `run` heads what one command appended, `episode_start` and `episode_end` stand around the `step` lines of an
episode. Each stands alone: it names its episode, attempt, task, policy and versions. `SCHEMA_VERSION` changes with any field.

Reward and outcome are the final attempt's: an attempt that failed through us ends with `mask` 0 and is followed by another one.
"""

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    model_serializer,
    model_validator,
)

from wardian.rollouts.blobs import LargeText
from wardian.rollouts.policies.sampled import check_tokens

SchemaVersion: TypeAlias = Literal[6]
SCHEMA_VERSION: SchemaVersion = 6

Json: TypeAlias = Any
Mask: TypeAlias = Literal[0, 1]
Outcome: TypeAlias = Literal["terminated", "truncated", "failed", "cancelled"]


class Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Versions(Record):
    """What has to be the same for a replay to be a test of exactness."""

    wardian: str
    env: str
    """World and its version, `billing@1`."""
    renderer: int
    tools: str
    """Digest over the names, versions and schemas of all tools of the world."""
    template: str
    """Content address of the database template."""
    database: str = "sqlite"
    """Engine of the database: `sqlite` or `postgres`."""
    image: str | None
    """Image of the cell by a reference that hashes its sources; `None` when the world needs no cell."""


class ObservationPart(Record):
    rendered: LargeText
    tokens: int = Field(ge=0)


class CallPart(Record):
    tool: str
    args: dict[str, Json] | str
    """An object, or the model's raw text."""


class ActionPart(Record):
    type: Literal["tool_call", "tool_calls", "message", "malformed"]
    tool: str | None
    """Of several calls the first; `None` when there is none."""
    args: dict[str, Json] | str | None
    calls: list[CallPart] | None = None
    """All calls, for `tool_calls`."""
    text: str | None = None
    """For `message`."""
    raw: str | None = None
    """The model's output, for `malformed`."""
    reason: str | None = None
    """Why it holds no action, for `malformed`."""

    @model_serializer(mode="wrap")
    def _without_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, Json]:
        absent = {name for name in ("calls", "text", "raw", "reason") if getattr(self, name) is None}
        return {name: value for name, value in handler(self).items() if name not in absent}


class ResultPart(Record):
    status: str | None
    """Of several calls that of the first; `None` when the step failed before there was one."""
    latency_ms: int
    """Virtual time that the call took."""


class EventPart(Record):
    """One call in the trusted event log; see `wardian.tools.contract.CallEvent`."""

    index: int
    step: int
    at_ms: int
    tool: str
    args: Json
    status: str
    committed: bool
    fault: str | None
    latency_ms: int
    effects: list[dict[str, Json]]
    repaired: str
    agent_id: str
    problem: str
    inexact: str
    extra_ms: int
    stale_step: int | None
    landed: bool
    """No call, but the effect of call `index`, whose caller had given up."""
    attachments: dict[str, Json]


class SamplePart(Record):
    """What the policy's model gave along with its action; see `wardian.rollouts.policies.sampled.Sampled`."""

    text: str | None = None
    raw: str | None = None
    prompt_token_ids: list[Annotated[int, Field(ge=0)]] | None = None
    token_ids: list[Annotated[int, Field(ge=0)]] | None = None
    logprobs: list[Annotated[float, Field(allow_inf_nan=False)]] | None = None
    loss_mask: list[Mask] | None = None
    prompt_tokens: int | None = Field(default=None, ge=0)
    completion_tokens: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _of_one_length(self) -> Self:
        check_tokens(self.token_ids, self.logprobs, self.loss_mask)
        return self

    @model_serializer(mode="wrap")
    def _without_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, Json]:
        return {name: value for name, value in handler(self).items() if value is not None}


class RowPart(Record):
    table: str
    key: list[Json]
    before: dict[str, Json] | None
    after: dict[str, Json] | None


class WordPart(Record):
    """Something that reached the agent without a call of its own."""

    sender: str
    text: str
    at_ms: int


class BackgroundPart(Record):
    """Something that the world did by itself; see `wardian.envs.events.WorldEvent`."""

    kind: str
    sequence: int
    at_ms: int
    step: int
    after_calls: int
    """Calls of the episode before it."""
    facts: dict[str, Json]
    effects: list[dict[str, Json]]
    rows: list[RowPart]
    words: list[WordPart]


class FilePart(Record):
    kind: str | None
    """`None`: the path was removed."""
    mode: int
    uid: int
    size_bytes: int
    content: str


class FingerprintPart(Record):
    root: str
    leaves: dict[str, str]


class CheckPart(Record):
    name: str
    passed: bool
    detail: str
    hard: bool


class VerdictPart(Record):
    succeeded: bool
    hard_failure: bool
    share: float
    checks: list[CheckPart]


class TokenizerPart(Record):
    name: str
    version: str
    source: str
    """What makes it again: `estimate` or `package.module:function`; empty when nothing does."""
    estimates: bool
    """It is no model's own count."""


class ReceiptPart(Record):
    """Proof of the reset that the episode began with."""

    cell_id: str
    agent_uid: int | None
    """The agent's user in the cell; a replay takes a cell of the same."""
    epoch: int
    """How many times the cell was restored."""
    fingerprint: str
    """Root over the cell's own leaves."""
    ended_ms: float
    made_ms: float
    verified_ms: float


class Shared(Record):
    """What every line of an episode carries, beside the fields that come first."""

    schema_version: SchemaVersion
    policy: str
    attempt: int = Field(ge=1)
    task_hash: str
    seed: int
    split: str
    versions: Versions
    tier: str | None
    """Restore tier; `None` when the world needs no cell."""
    mask: Mask
    """0: nothing of this line may train. Of an episode the `episode_end` line says it."""


class RunRecord(Record):
    record: Literal["run"]
    schema_version: SchemaVersion
    run: str
    """Random id, part of the ids of the run's episodes."""
    world: str
    """As it was asked for: a name, or `package.module:function`."""
    started_at: str
    """Wall time, UTC."""
    python: str
    parameters: dict[str, Json]
    """Of the command."""
    tool_schemas: list[dict[str, Json]]
    """Of all tools of the world, in the OpenAI function format; which of them an episode has, its start says."""
    versions: Versions


class EpisodeStart(Shared):
    record: Literal["episode_start"]
    episode_id: str
    task_id: str
    env_version: str
    policy_checkpoint: str
    world: str
    canary: str
    """Marks the log as no text to train on by chance: see `wardian.envs.task.canary_of`."""
    observation: ObservationPart
    tools: dict[str, int]
    """Version of each tool that the agent gets, in the order in which it gets them."""
    faults: dict[str, Json]
    """The whole fault profile."""
    faults_hash: str
    """Content address of it."""
    malformed: str
    recompute_every: int
    tokenizer: TokenizerPart
    schema_tokens: int
    """Of the tool schemas, which the budget counts beside all observations."""
    receipt: ReceiptPart | None
    fingerprint: FingerprintPart
    clock_ms: int
    leaks: list[list[str]]
    """For each start that was thrown away before this one: the first differences."""
    reset_ms: float
    """Wall time, waiting for a cell included."""


class StepRecord(Record):
    """The first eleven fields are the ones that trainers read; `observation` is what the action gave."""

    episode_id: str
    task_id: str
    env_version: str
    policy_checkpoint: str
    """The weights that made this action; they may change within an episode."""
    step: int = Field(ge=1)
    observation: ObservationPart
    action: ActionPart
    tool_result: ResultPart
    reward_components: dict[str, float]
    terminated: bool
    truncated: bool
    record: Literal["step"]
    schema_version: SchemaVersion
    policy: str
    attempt: int = Field(ge=1)
    task_hash: str
    seed: int
    split: str
    versions: Versions
    tier: str | None
    mask: Mask
    """0: the step failed through us. Whether the episode trains, its `episode_end` says."""
    reward: float | None
    """Sum of the components; `None` exactly when the step failed through us."""
    tool_results: list[ResultPart]
    """One for each call of the action that ran."""
    events: list[EventPart]
    background: list[BackgroundPart]
    """Events that the world made by itself in this step; the rows that they changed stand in `database` as well."""
    clock_ms: int
    """World time after the step, milliseconds since the Unix epoch."""
    fingerprint: FingerprintPart | None
    database: list[RowPart]
    """Rows that the step changed, whoever changed them."""
    files: dict[str, FilePart | None]
    """Paths that the step changed, as they differ from the start; `None`: again as at the start."""
    receipt: str | None
    """Cell and epoch that the step ran in; the whole receipt stands in `episode_start`."""
    end_cause: str
    """Empty while the episode runs."""
    failed: str | None
    verdict: VerdictPart | None
    inexact: list[str]
    recomputed: bool
    sample: SamplePart | None
    """`None` when the policy gave its action alone."""
    wall_ms: float
    """Real time of the step, for people: never compared."""


class EpisodeEnd(Shared):
    record: Literal["episode_end"]
    episode_id: str
    task_id: str
    env_version: str
    policy_checkpoint: str
    steps: int
    outcome: Outcome
    end_cause: str
    detail: str
    """What broke, for `failed`."""
    retried: bool
    """Another attempt follows."""
    succeeded: bool | None
    """`None` without a verdict."""
    reward: float | None
    reward_components: dict[str, float]
    """Sums over the episode; empty when failed."""
    verdict: VerdictPart | None
    tool_outcomes: dict[str, int]
    """Calls by status."""
    faults: dict[str, int]
    """Injected faults by name."""
    problems: dict[str, int]
    """Calls that did not reach their tool, by class of error."""
    inexact: int
    """Steps that are marked inexact."""
    tokens: int
    """As the budget counts them: tool schemas and all observations, the first included."""
    prompt_tokens: int
    """Of all actions, as the policy's server counts them; 0 when it does not."""
    completion_tokens: int
    wall_ms: float


AnyRecord: TypeAlias = Annotated[RunRecord | EpisodeStart | StepRecord | EpisodeEnd, Discriminator("record")]
ADAPTER: TypeAdapter[RunRecord | EpisodeStart | StepRecord | EpisodeEnd] = TypeAdapter(AnyRecord)


def json_schema() -> dict[str, Json]:
    """The published JSON Schema (draft 2020-12) of one line."""
    schema = ADAPTER.json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "One line of a Wardian trajectory",
        "$comment": f"schema_version {SCHEMA_VERSION}",
        **schema,
    }
