"""Makes the lines of one attempt at one episode, from what the environment gave.

The lines are made here and written by whoever has a writer (`log_at`), so that a trainer that steps an environment by itself can log in the
same form.
"""

import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wardian import __version__
from wardian.envs.action import Action, Message, Observation, Step, StepInfo
from wardian.envs.definition import WorldDefinition
from wardian.envs.ending import EndCause
from wardian.envs.events import WorldEvent
from wardian.envs.observation import RENDERER_VERSION
from wardian.envs.splits import Split
from wardian.envs.start import ResetInfo
from wardian.envs.tokens import ESTIMATE, Tokenizer
from wardian.envs.verifier import Verdict
from wardian.envs.versions import env_version, tools_digest
from wardian.rollouts.actions import to_part
from wardian.rollouts.ground import Ground
from wardian.rollouts.policies.sampled import Sampled
from wardian.rollouts.records import (
    SCHEMA_VERSION,
    BackgroundPart,
    EpisodeEnd,
    EpisodeStart,
    EventPart,
    FilePart,
    FingerprintPart,
    Json,
    ObservationPart,
    Outcome,
    ReceiptPart,
    ResultPart,
    RowPart,
    RunRecord,
    SamplePart,
    StepRecord,
    TokenizerPart,
    VerdictPart,
    Versions,
    WordPart,
)
from wardian.rollouts.sums import StepSums
from wardian.rollouts.trajectory import TrajectoryWriter
from wardian.sandbox.database.base import RowChange
from wardian.sandbox.files import FileChange
from wardian.sandbox.fingerprint import Fingerprint
from wardian.tools.contract import CallEvent, Status
from wardian.tools.events import to_json
from wardian.tools.faults import FaultProfile
from wardian.tools.schemas import openai_schema

PYTHON = platform.python_version()


def run_record(setting: "Setting", run: str, parameters: Mapping[str, Json]) -> RunRecord:
    """The line that stands before all that one writer appends."""
    return RunRecord(
        record="run",
        schema_version=SCHEMA_VERSION,
        run=run,
        world=setting.asked_for,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        python=PYTHON,
        parameters=dict(parameters),
        tool_schemas=tool_schemas(setting.world),
        versions=setting.versions,
    )


@contextmanager
def log_at(file: Path | None, setting: "Setting", run: str, parameters: Mapping[str, Json]) -> Iterator[TrajectoryWriter | None]:
    """A writer of `file` that has written its `run` line, closed at the end; `None` where nothing is to be kept.

    Raises:
        LogInUse: another writer has it open.
    """
    if file is None:
        yield None
        return
    with TrajectoryWriter(file) as writer:
        writer.write(run_record(setting, run, parameters))
        yield writer


def tool_schemas(world: WorldDefinition) -> list[dict[str, Json]]:
    """Of all tools of a world, in the OpenAI function format."""
    return [openai_schema(tool) for tool in world.tools]


def versions_of(ground: Ground) -> Versions:
    """The versions that a trajectory on `ground` carries."""
    return Versions(
        wardian=__version__,
        env=env_version(ground.world),
        renderer=RENDERER_VERSION,
        tools=tools_digest(ground.world),
        template=ground.template.key,
        database=ground.template.engine,
        image=ground.image,
    )


@dataclass(frozen=True, slots=True)
class Setting:
    """What all episodes of one run share."""

    world: WorldDefinition
    asked_for: str
    """The world's name as it was given, to load it again."""
    versions: Versions
    faults: FaultProfile
    malformed: str
    recompute_every: int
    tokenizer: Tokenizer = ESTIMATE
    split: str | None = Split.TRAIN
    """The only split that is played; `None`: any, which is for evaluation and replays."""


@dataclass(slots=True)
class AttemptRecorder:
    """Lines of one attempt, in order: `start`, `step` for each step, `end`."""

    setting: Setting
    episode_id: str
    task_id: str
    seed: int
    policy: str
    checkpoint: str
    attempt: int
    task_hash: str = ""
    split: str = ""
    tier: str | None = None
    cell: str | None = None
    sums: StepSums = field(default_factory=StepSums)

    def start(self, first: Observation, info: ResetInfo) -> EpisodeStart:
        """The line of the reset."""
        self.task_hash, self.split = info.task.hash, info.task.split
        if info.receipt is not None:
            self.tier, self.cell = info.receipt.tier.value, f"{info.receipt.cell_id}#{info.receipt.epoch}"
        known = {tool.name: tool.version for tool in self.setting.world.tools}
        start = EpisodeStart(
            **self._named("episode_start", mask=1),
            world=self.setting.asked_for,
            canary=info.task.canary,
            observation=ObservationPart(rendered=first.rendered, tokens=first.tokens),
            tools={name: known[name] for name in info.task.tools or known},
            faults=self.setting.faults.model_dump(),
            faults_hash=self.setting.faults.hash,
            malformed=self.setting.malformed,
            recompute_every=self.setting.recompute_every,
            tokenizer=tokenizer_part(self.setting.tokenizer),
            schema_tokens=info.schema_tokens,
            receipt=receipt_part(info),
            fingerprint=fingerprint_part(info.fingerprint),
            clock_ms=round(info.task.start.timestamp() * 1000),
            leaks=[list(leak) for leak in info.leaks],
            reset_ms=info.total_ms,
        )
        self.sums.begin(start)
        return start

    def step(self, action: Action, step: Step, wall_ms: float, sampled: Sampled | None = None) -> StepRecord:
        """The line of one step; `action` is the one that was taken, `sampled` what it came with."""
        info = step.info
        if sampled is not None:
            self.checkpoint = sampled.checkpoint or self.checkpoint
        results = result_parts(action, step)
        named = self._named("step", mask=0 if step.failed is not None else 1)
        record, shared = named.pop("record"), {key: named.pop(key) for key in _SHARED}
        made = StepRecord(
            **named,
            step=info.step,
            observation=ObservationPart(rendered=step.observation.rendered, tokens=step.observation.tokens),
            action=to_part(action),
            tool_result=results[0] if results else ResultPart(status=None, latency_ms=0),
            reward_components={name: value + 0.0 for name, value in step.reward_components.items()},  # never -0.0
            terminated=step.terminated,
            truncated=step.truncated,
            record=record,
            **shared,
            reward=None if step.reward is None else step.reward + 0.0,
            tool_results=results,
            receipt=self.cell,
            failed=step.failed,
            sample=sample_part(sampled),
            wall_ms=wall_ms,
            **state_parts(info),
        )
        self.sums.add(made)
        return made

    def end(
        self,
        outcome: Outcome,
        *,
        cause: str,
        detail: str = "",
        verdict: Verdict | None = None,
        retried: bool = False,
        wall_ms: float = 0.0,
    ) -> EpisodeEnd:
        """The last line of the attempt."""
        judged = outcome in ("terminated", "truncated")
        return EpisodeEnd(
            **self._named("episode_end", mask=1 if judged else 0),
            **self.sums.fields(),
            outcome=outcome,
            end_cause=cause,
            detail=detail,
            retried=retried,
            succeeded=verdict.succeeded if verdict else None,
            reward=sum(self.sums.rewards.values()) if judged else None,
            reward_components=dict(self.sums.rewards) if judged else {},
            verdict=verdict_part(verdict),
            wall_ms=wall_ms,
        )

    def _named(self, record: str, mask: int) -> dict[str, Any]:
        return {
            "episode_id": self.episode_id,
            "task_id": self.task_id,
            "env_version": self.setting.versions.env,
            "policy_checkpoint": self.checkpoint,
            "record": record,
            "schema_version": SCHEMA_VERSION,
            "policy": self.policy,
            "attempt": self.attempt,
            "task_hash": self.task_hash,
            "seed": self.seed,
            "split": self.split,
            "versions": self.setting.versions,
            "tier": self.tier,
            "mask": mask,
        }


_SHARED = ("schema_version", "policy", "attempt", "task_hash", "seed", "split", "versions", "tier", "mask")


def how_ended(last: Step) -> tuple[Outcome, str, str, Verdict | None]:
    """Outcome, cause, detail and verdict of the step that ended an episode, as `AttemptRecorder.end` takes them."""
    if last.failed is not None:
        return "failed", str(last.info.end_cause), last.failed, None
    return "terminated" if last.terminated else "truncated", str(last.info.end_cause), "", last.info.verdict


def result_parts(action: Action, step: Step) -> list[ResultPart]:
    """Status and latency of each call that ran, of the message, or of the malformed output."""
    if isinstance(action, Message):
        return [ResultPart(status=Status.OK.value, latency_ms=0)] if step.failed is None else []
    found = [ResultPart(status=event.status.value, latency_ms=event.latency_ms) for event in step.info.events if not event.landed]
    if step.info.end_cause == EndCause.CELL_DIED and step.failed is None and len(found) < len(step.observation.results):
        # A call during which the cell ended has no event, since it never came back.
        found.append(ResultPart(status=Status.UNAVAILABLE.value, latency_ms=0))
    return found


def tokenizer_part(tokenizer: Tokenizer) -> TokenizerPart:
    """What counted the tokens."""
    return TokenizerPart(name=tokenizer.name, version=tokenizer.version, source=tokenizer.source, estimates=tokenizer.estimates)


def sample_part(sampled: Sampled | None) -> SamplePart | None:
    """What an action came with; `None` when that is nothing."""
    if sampled is None:
        return None
    lists = {name: getattr(sampled, name) for name in ("prompt_token_ids", "token_ids", "logprobs", "loss_mask")}
    part = SamplePart(
        text=sampled.text,
        raw=sampled.raw,
        prompt_tokens=sampled.prompt_tokens,
        completion_tokens=sampled.completion_tokens,
        **{name: None if values is None else list(values) for name, values in lists.items()},
    )
    return part if part.model_dump() else None


def receipt_part(info: ResetInfo) -> ReceiptPart | None:
    """Proof of the cell's reset; `None` when the world needs no cell."""
    receipt = info.receipt
    if receipt is None:
        return None
    return ReceiptPart(
        cell_id=receipt.cell_id,
        agent_uid=info.agent_uid,
        epoch=receipt.epoch,
        fingerprint=receipt.fingerprint.root,
        ended_ms=receipt.ended_ms,
        made_ms=receipt.made_ms,
        verified_ms=receipt.verified_ms,
    )


def state_parts(info: StepInfo) -> dict[str, Json]:
    """The fields of a step line that say what the world is like after it."""
    return {
        "events": [event_part(event) for event in info.events],
        "background": [background_part(event) for event in info.background],
        "clock_ms": info.clock_ms,
        "fingerprint": fingerprint_part(info.fingerprint) if info.fingerprint else None,
        "database": [row_part(row) for row in info.database],
        "files": {path: file_part(change) for path, change in info.files.items()},
        "end_cause": str(info.end_cause),
        "verdict": verdict_part(info.verdict),
        "inexact": list(info.inexact),
        "recomputed": info.recomputed,
    }


def event_part(event: CallEvent) -> EventPart:
    """A line of the trusted log."""
    return EventPart(**to_json(event))


def background_part(event: WorldEvent) -> BackgroundPart:
    """What the world did by itself."""
    return BackgroundPart(
        kind=event.kind,
        sequence=event.sequence,
        at_ms=event.at_ms,
        step=event.step,
        after_calls=event.after_calls,
        facts=dict(event.facts),
        effects=list(event.effects),
        rows=[row_part(row) for row in event.rows],
        words=[WordPart(sender=word.sender, text=word.text, at_ms=word.at_ms) for word in event.words],
    )


def row_part(row: RowChange) -> RowPart:
    """A changed row."""
    return RowPart(table=row.table, key=list(row.key), before=_plain(row.before), after=_plain(row.after))


def file_part(change: FileChange | None) -> FilePart | None:
    """A changed path."""
    return None if change is None else FilePart(**asdict(change) | {"kind": change.kind.value if change.kind else None})


def fingerprint_part(found: Fingerprint) -> FingerprintPart:
    """Root and leaves."""
    return FingerprintPart(root=found.root, leaves=dict(found.leaves))


def verdict_part(verdict: Verdict | None) -> VerdictPart | None:
    """A verdict with what follows from its checks."""
    if verdict is None:
        return None
    return VerdictPart(
        succeeded=verdict.succeeded,
        hard_failure=verdict.hard_failure,
        share=verdict.share,
        checks=[asdict(check) for check in verdict.checks],  # type: ignore[misc]
    )


def _plain(row: Mapping[str, object] | None) -> dict[str, Json] | None:
    return None if row is None else dict(row)
