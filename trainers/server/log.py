"""Trajectories of what is played through a server, in the lines of a run: `wardian validate`, `replay` and `export` read them."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from wardian.envs.action import Observation, Step
from wardian.envs.ending import Ending
from wardian.envs.start import ResetInfo
from wardian.rollouts.folder import next_file
from wardian.rollouts.plan import new_run_id
from wardian.rollouts.play import CANCELLED
from wardian.rollouts.policies.sampled import Sampled
from wardian.rollouts.recording import AttemptRecorder, Setting, run_record
from wardian.rollouts.records import EpisodeEnd, EpisodeStart, Outcome, StepRecord
from wardian.rollouts.trajectory import FILE, TrajectoryWriter
from wardian.tools.contract import Json

_log = logging.getLogger(__name__)
POLICY = "wire"
"""What logs call whoever plays through a server; its `policy_checkpoint` is the caller's `policy_version`."""

Line = EpisodeStart | StepRecord | EpisodeEnd


@dataclass(slots=True)
class EpisodeLog:
    """Lines of one episode, up to its end, once."""

    recorder: AttemptRecorder
    write: Callable[[Line], None]
    began: float = field(default_factory=time.perf_counter)
    ended: bool = False
    lines: list[Line] = field(default_factory=list)
    """All so far, for episodes that go on from a snapshot of this one."""

    def start(self, first: Observation, info: ResetInfo) -> None:
        """Its first line."""
        self._put(self.recorder.start(first, info, round(info.task.start.timestamp() * 1000)))

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
        if step.failed is not None:
            self._end("failed", step.info.end_cause, step.failed)
        elif step.done:
            self._end("terminated" if step.terminated else "truncated", step.info.end_cause, step=step)

    def fail(self, ending: Ending) -> None:
        """We broke it outside a step. Idempotent; an end that cannot be written is no reason to go on."""
        with self._at_any_cost():
            self._end("failed", ending.cause, ending.detail)

    def cancel(self, why: str) -> None:
        """It was given up. Idempotent; an end that cannot be written is no reason to go on."""
        with self._at_any_cost():
            self._end("cancelled", CANCELLED, why)

    @contextmanager
    def _at_any_cost(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            _log.exception("the end of %s cannot be written", self.recorder.episode_id)

    def _put(self, line: Line) -> None:
        self.lines.append(line)
        self.write(line)

    def _end(self, outcome: Outcome, cause: str, detail: str = "", step: Step | None = None) -> None:
        if self.ended:
            return
        self.ended = True
        verdict = step.info.verdict if step else None
        wall_ms = (time.perf_counter() - self.began) * 1000
        self.write(self.recorder.end(outcome, cause=str(cause), detail=detail, verdict=verdict, wall_ms=wall_ms))


@dataclass(slots=True)
class ServerLog:
    """The file that all episodes of one world go to; without a folder, none."""

    writer: TrajectoryWriter | None = None
    run: str = ""
    _episodes: int = 0
    _unsynced: bool = False

    @classmethod
    def open(cls, out: Path | None, setting: Setting, name: str, parameters: dict[str, Json]) -> "ServerLog":
        """Begin a file in `out`.

        Raises:
            LogInUse: another writer has it.
            OSError: it cannot be written.
        """
        if out is None:
            return cls()
        stem = FILE.removesuffix(".jsonl") + f"-{name}"
        writer = TrajectoryWriter(next_file(out, stem))
        run = new_run_id()
        writer.write(run_record(setting, run, parameters))
        return cls(writer, run)

    def episode(self, setting: Setting, name: str, task_id: str, seed: int, version: str) -> EpisodeLog | None:
        """The log of one episode. Its id there has the run's id and a number before the `name` that the caller knows."""
        if self.writer is None:
            return None
        self._episodes += 1
        recorder = AttemptRecorder(
            setting, f"{self.run}-{self._episodes:06d}.{name.replace('-', '_')}", task_id, seed, POLICY, version, attempt=1
        )
        return EpisodeLog(recorder, self._write)

    def _write(self, line: Line) -> None:
        assert self.writer is not None, "an episode without a writer has no log"
        self._unsynced = True
        self.writer.write(line)

    async def sync(self) -> None:
        """Bring what is new onto the disk."""
        if self.writer is not None and self._unsynced:
            self._unsynced = False
            await self.writer.sync()

    def close(self) -> None:
        """Idempotent."""
        if self.writer is not None:
            self.writer.close()
