"""Plays many episodes at once over shared cells. One that breaks never ends its siblings.

Each worker has an environment of its own and takes the next episode when it is free. An attempt that the infrastructure failed is
made again from the same seed, on another cell, as often as the budget says; no other failure is retried, since skipping or
repeating what a policy did would bias what is learned from.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from wardian.envs.environment import ToolEnvironment
from wardian.envs.errors import HeldOut
from wardian.envs.settings import MalformedPolicy, Settings
from wardian.rollouts.errors import LogBroken, PolicyEnds
from wardian.rollouts.ground import Ground
from wardian.rollouts.plan import Planned
from wardian.rollouts.play import Attempt
from wardian.rollouts.recording import AttemptRecorder, Setting
from wardian.rollouts.records import EpisodeEnd, EpisodeStart, StepRecord
from wardian.rollouts.summary import Tally
from wardian.rollouts.trajectory import TrajectoryWriter

ATTEMPTS = 3
SETTLE_S = 20.0
"""How long the last resets are waited for at the end, so that their leaks are counted."""


Source: TypeAlias = MemoryObjectReceiveStream[Planned]
"""Episodes that come while others are played; its end is the end of the run."""


async def _following(todo: Iterator[Planned] | Source) -> Planned | None:
    """The next episode; `None` after the last one."""
    if not isinstance(todo, MemoryObjectReceiveStream):
        return next(todo, None)
    try:
        return await todo.receive()
    except anyio.EndOfStream:
        return None


@dataclass(slots=True)
class EpisodePool:
    """Plays one list of episodes. `run` once; `interrupt` from the same event loop."""

    ground: Ground
    setting: Setting
    writer: TrajectoryWriter | None = None
    attempts: int = ATTEMPTS
    """Of one episode, the first included."""
    watch: Callable[[EpisodeEnd], None] = lambda end: None
    """Called with the last line of each attempt."""
    watch_start: Callable[[EpisodeStart], None] = lambda start: None
    """Called with the first line of each attempt."""
    tally: Tally = field(default_factory=Tally)
    interrupted: bool = False
    _scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _unwritable: OSError | None = None
    _ends: PolicyEnds | HeldOut | None = None

    async def run(self, episodes: Iterable[Planned] | Source, *, workers: int) -> Tally:
        """Play all of `episodes` with so many at once. What was written stands, however it ends. A stream is played as it comes.

        Raises:
            LogBroken: the trajectory could not be written; all episodes were cancelled.
            PolicyEnds: a policy said that it can act in no other episode; what ran was cancelled.
            HeldOut: an episode's task is of another split than the setting's; what ran was cancelled.
        """
        todo = episodes if isinstance(episodes, MemoryObjectReceiveStream) else iter(episodes)
        with self._scope:
            async with anyio.create_task_group() as group:
                for _ in range(workers):
                    group.start_soon(self._work, todo)
        if self._unwritable is not None:
            path = self.writer.path if self.writer else ""
            raise LogBroken(f"{path}: cannot be written: {self._unwritable.strerror or self._unwritable}") from self._unwritable
        if self._ends is not None:
            raise self._ends
        if self.ground.cells is not None and not self.interrupted:
            with anyio.move_on_after(SETTLE_S):
                await self.ground.cells.settle()
                await self.ground.cells.audit()
        return self.tally

    def interrupt(self) -> None:
        """Cancel what runs; each running episode is written as cancelled, and `run` returns."""
        self.interrupted = True
        self._scope.cancel()

    async def _work(self, todo: Iterator[Planned] | Source) -> None:
        env = self.ground.environment(
            self.setting.faults,
            MalformedPolicy(self.setting.malformed),
            Settings(recompute_every=self.setting.recompute_every, split=self.setting.split),
            tokenizer=self.setting.tokenizer,
        )
        async with env:
            try:
                while (planned := await _following(todo)) is not None:
                    await self._episode(env, planned)
            except OSError as error:
                self._unwritable = error
                self._scope.cancel()
            except (PolicyEnds, HeldOut) as error:
                self._ends = error
                self._scope.cancel()
            finally:
                self.tally.starts_leaked += env.leaks_found

    async def _episode(self, env: ToolEnvironment, planned: Planned) -> None:
        """Play until an attempt is final."""
        last = planned.first_attempt + self.attempts - 1
        for number in range(planned.first_attempt, last + 1):
            recorder = AttemptRecorder(
                setting=self.setting,
                episode_id=planned.episode_id,
                task_id=str(planned.task_id),
                seed=planned.seed,
                policy=planned.policy.name,
                checkpoint=planned.policy.checkpoint,
                attempt=number,
            )
            end = await Attempt(env, planned, recorder, self._write, last_chance=number == last).play()
            if self.writer is not None:
                await self.writer.sync()
            if not end.retried:
                return

    def _write(self, record: EpisodeStart | StepRecord | EpisodeEnd) -> None:
        if self.writer is not None:
            self.writer.write(record)
        if isinstance(record, EpisodeStart):
            self.tally.begin(record.episode_id, record.reset_ms)
            self.watch_start(record)
        elif isinstance(record, EpisodeEnd):
            self.tally.add(record)
            self.watch(record)
