"""Trajectories of what is played through a server, in the lines of a run: `wardian validate`, `replay` and `export` read them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from wardian.rollouts.folder import next_file
from wardian.rollouts.plan import new_run_id
from wardian.rollouts.recording import AttemptRecorder, Setting, log_at
from wardian.rollouts.trajectory import FILE, TrajectoryWriter
from wardian.tools.contract import Json
from wardian.trainers.episode_log import EpisodeLog, Line

POLICY = "wire"
"""What logs call whoever plays through a server; its `policy_checkpoint` is the caller's `policy_version`."""


@dataclass(slots=True)
class ServerLog:
    """The file that all episodes of one world go to; without a folder, none."""

    setting: Setting
    run: str
    writer: TrajectoryWriter | None
    _episodes: int = 0
    _unsynced: bool = False

    @classmethod
    @contextmanager
    def open(cls, out: Path | None, setting: Setting, name: str, parameters: Mapping[str, Json]) -> "Iterator[ServerLog]":
        """A file in `out`, closed at the end.

        Raises:
            LogInUse: another writer has it.
            OSError: it cannot be written.
        """
        run, stem = new_run_id(), f"{FILE.removesuffix('.jsonl')}-{name}"
        with log_at(next_file(out, stem) if out else None, setting, run, parameters) as writer:
            yield cls(setting, run, writer)

    def episode(self, name: str, task_id: str, seed: int, version: str) -> EpisodeLog | None:
        """The log of one episode. Its id there has the run's id and a number before the `name` that the caller knows."""
        if self.writer is None:
            return None
        self._episodes += 1
        number = f"{self.run}-{self._episodes:06d}.{name.replace('-', '_')}"
        return EpisodeLog(AttemptRecorder(self.setting, number, task_id, seed, POLICY, version, attempt=1), self._write)

    def _write(self, line: Line) -> None:
        assert self.writer is not None, "an episode without a writer has no log"
        self._unsynced = True
        self.writer.write(line)

    async def sync(self) -> None:
        """Bring what is new onto the disk."""
        if self.writer is not None and self._unsynced:
            self._unsynced = False
            await self.writer.sync()
