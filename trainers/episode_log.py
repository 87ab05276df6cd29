"""The lines of one episode that somebody outside plays, step by step, in those of a run."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from wardian.envs.action import Observation, Step
from wardian.envs.ending import Ending
from wardian.envs.start import ResetInfo
from wardian.envs.verifier import Verdict
from wardian.rollouts.play import CANCELLED
from wardian.rollouts.policies.sampled import Sampled
from wardian.rollouts.recording import AttemptRecorder, how_ended
from wardian.rollouts.records import EpisodeEnd, EpisodeStart, Outcome, StepRecord

Line: TypeAlias = EpisodeStart | StepRecord | EpisodeEnd


@dataclass(slots=True)
class EpisodeLog:
    """Lines of one episode, up to its end, once. Each call raises `OSError` where a line cannot be written."""

    recorder: AttemptRecorder
    write: Callable[[Line], None]
    began: float = field(default_factory=time.perf_counter)
    end: EpisodeEnd | None = None
    """Its last line; `None` while it runs."""
    lines: list[Line] = field(default_factory=list)
    """All so far, for episodes that go on from a snapshot of this one."""

    def start(self, first: Observation, info: ResetInfo) -> None:
        """Its first line."""
        self._put(self.recorder.start(first, info))

    def resume(self, past: Sequence[Line]) -> None:
        """Begin with the lines of the episode that a snapshot was taken of, as if they were this one's."""
        recorder = self.recorder
        for line in past:
            own = line.model_copy(update={"episode_id": recorder.episode_id})
            if isinstance(own, EpisodeStart):
                recorder.sums.begin(own)
                recorder.task_hash, recorder.split, recorder.tier = own.task_hash, own.split, own.tier
                recorder.cell = f"{own.receipt.cell_id}#{own.receipt.epoch}" if own.receipt else None
            elif isinstance(own, StepRecord):
                recorder.sums.add(own)
            self._put(own)

    def step(self, sampled: Sampled, step: Step, wall_ms: float) -> None:
        """A step, and the end where it is one."""
        self._put(self.recorder.step(sampled.action, step, wall_ms, sampled))
        if step.done:
            self._end(*how_ended(step))

    def fail(self, ending: Ending) -> None:
        """We broke it outside a step. Idempotent."""
        self._end("failed", str(ending.cause), ending.detail)

    def cancel(self, why: str) -> None:
        """It was given up. Idempotent."""
        self._end(CANCELLED, CANCELLED, why)

    def _put(self, line: Line) -> None:
        self.lines.append(line)
        self.write(line)

    def _end(self, outcome: Outcome, cause: str, detail: str = "", verdict: Verdict | None = None) -> None:
        if self.end is not None:
            return
        wall_ms = (time.perf_counter() - self.began) * 1000
        self.end = self.recorder.end(outcome, cause=cause, detail=detail, verdict=verdict, wall_ms=wall_ms)
        self.write(self.end)
