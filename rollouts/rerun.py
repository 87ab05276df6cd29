"""One recorded episode, run again step by step and compared as it goes: what replay, diff and shell stand on."""

import json
from dataclasses import dataclass, field

from wardian.envs.action import Action, Step
from wardian.envs.ending import EndCause, boundary
from wardian.envs.environment import ToolEnvironment
from wardian.rollouts.actions import action_text, from_part
from wardian.rollouts.compare import differences, end_difference, start_difference, step_difference
from wardian.rollouts.errors import LogBroken
from wardian.rollouts.policies.sampled import Sampled
from wardian.rollouts.recording import AttemptRecorder, Setting, tool_schemas
from wardian.rollouts.records import EpisodeStart, Json, Outcome, RunRecord, SamplePart, StepRecord
from wardian.rollouts.trajectory import AttemptLog
from wardian.sandbox.differing import Difference
from wardian.tools.faults import PROFILES

NOTE_CHARS = 60
"""Of the action that a difference is in."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What came of one episode."""

    episode_id: str
    steps: int = 0
    """That were run again and compared."""
    step: int | None = 0
    """Where the difference is; 0 is the start, `None` the end."""
    difference: Difference | None = None
    problem: str = ""
    """Why it could not be run again; empty when it was."""
    note: str = ""
    """What helps to understand the difference."""
    inexact: int = 0
    """Steps whose recorded outcome was applied."""

    @property
    def identical(self) -> bool:
        return self.difference is None and not self.problem

    def __str__(self) -> str:
        if self.problem:
            return f"episode {self.episode_id}: {self.problem}"
        where = "end" if self.step is None else f"step {self.step}"
        return f"episode {self.episode_id} {where}: {self.difference}{f' [{self.note}]' if self.note else ''}"


@dataclass(slots=True)
class Rerun:
    """`begin` once, then `advance` any number of times; after an answer that is not `identical` no more."""

    env: ToolEnvironment
    attempt: AttemptLog
    start: EpisodeStart
    setting: Setting
    head: RunRecord | None
    """The line of the run that recorded the episode."""
    _recorder: AttemptRecorder = field(init=False)
    _found: EpisodeStart = field(init=False)
    _last: Step | None = None
    _done: int = 0
    _inexact: int = 0

    def __post_init__(self) -> None:
        start = self.start
        self._recorder = AttemptRecorder(
            setting=self.setting,
            episode_id=self.attempt.episode_id,
            task_id=start.task_id,
            seed=start.seed,
            policy=start.policy,
            checkpoint=start.policy_checkpoint,
            attempt=start.attempt,
        )

    async def begin(self) -> Replayed:
        """Reset as it was recorded, and compare the start."""
        start = self.start
        try:
            first = await self.env.reset(start.task_id, start.seed, uid=start.receipt.agent_uid if start.receipt else None)
        except Exception as error:  # noqa: BLE001 - the edge of an episode: one that cannot begin must not end its siblings
            return Replayed(self.attempt.episode_id, problem=f"cannot begin: {boundary(error).detail}")
        info = self.env.reset_info
        self._found = self._recorder.start(first, info)
        return self._replayed(difference=self._declared() or start_difference(start, self._found))

    async def advance(self, to_step: int | None = None) -> Replayed:
        """Take the recorded steps up to `to_step` (`None`: all, and compare the end), until one is not as it was recorded.

        Raises:
            LogBroken: a line does not make an action.
        """
        for recorded in self.attempt.steps[self._done : to_step]:
            step = self._last = await self._step(recorded)
            if step.info.end_cause == EndCause.INFRASTRUCTURE:
                return self._replayed(problem=f"step {recorded.step} failed: {step.failed}")
            self._inexact += bool(recorded.inexact)
            action = from_part(recorded.action)
            found = self._recorder.step(action, step, 0.0, _sampled(action, recorded.policy_checkpoint, recorded.sample))
            difference = step_difference(recorded, found, files_inexact=self._inexact > 0)
            if difference is not None:
                note = f"in {action_text(recorded.action, NOTE_CHARS)}{', after an inexact step' if self._inexact else ''}"
                return self._replayed(recorded.step, difference, note)
            self._done += 1
        if self._last is not None and self._done == len(self.attempt.steps):
            difference = self._end_difference(self._last)
            return self._replayed(None if difference else 0, difference)
        return self._replayed()

    def _end_difference(self, last: Step) -> Difference | None:
        end = self.attempt.end
        assert end is not None, "only ended attempts are selected"
        outcome: Outcome = "terminated" if last.terminated else "truncated"
        found = self._recorder.end(outcome, cause=last.info.end_cause, verdict=last.info.verdict)
        return end_difference(end, found if last.done else None)

    def _declared(self) -> Difference | None:
        """What the log says of tools and faults and no step may show."""
        recorded = [("faults", self.start.faults, profile) for name, profile in PROFILES.items() if name == self.start.faults.get("name")]
        parts: list[tuple[str, Json, Json]] = [(name, said, json.loads(profile.model_dump_json())) for name, said, profile in recorded]
        if self.head is not None:
            parts.append(("run.tool_schemas", self.head.tool_schemas, json.loads(json.dumps(tool_schemas(self.setting.world)))))
        return next((one for name, said, here in parts for one in differences(name, said, here)), None)

    async def _step(self, recorded: StepRecord) -> Step:
        try:
            action = from_part(recorded.action)
        except ValueError as error:
            raise LogBroken(f"{recorded.episode_id} step {recorded.step}: {error}") from error
        return await self.env.step(action)

    def _replayed(self, step: int | None = 0, difference: Difference | None = None, note: str = "", problem: str = "") -> Replayed:
        note = "; ".join(filter(None, (note, self._other_uid(difference))))
        return Replayed(self.attempt.episode_id, self._done, step, difference, problem, note, self._inexact)

    def _other_uid(self, difference: Difference | None) -> str:
        """Say it where the agent's other uid is what differs."""
        recorded, here = self.start.receipt, self._found.receipt
        if difference is None or recorded is None or here is None or recorded.agent_uid == here.agent_uid:
            return ""
        shown = str(recorded.agent_uid) in difference.expected and str(here.agent_uid) in difference.found
        return f"the agent's uid was {recorded.agent_uid} and is {here.agent_uid}" if shown else ""


def _sampled(action: Action, checkpoint: str, sample: SamplePart | None) -> Sampled:
    """What the action came with, as it was recorded: a replay asks no model."""
    return Sampled(action, checkpoint, **(sample.model_dump() if sample else {}))
