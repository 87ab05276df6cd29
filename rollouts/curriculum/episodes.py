"""The episodes of one run that a curriculum chooses: drawn while the run goes on, and told to the curriculum as they end.

A run that stopped goes on with what was drawn for it. What its log says that the curriculum was not told is told first.
"""

from collections import deque
from dataclasses import dataclass, field

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectSendStream

from wardian.rollouts.curriculum.curriculum import Curriculum, Draw, Outcome
from wardian.rollouts.errors import RolloutError, UsageProblem
from wardian.rollouts.plan import Planned
from wardian.rollouts.policies.base import Policy
from wardian.rollouts.records import EpisodeEnd
from wardian.rollouts.resume import Played, is_final
from wardian.rollouts.runner import EpisodePool


@dataclass(slots=True)
class CurriculumRun:
    """`play` once; `tell` from the same event loop."""

    curriculum: Curriculum
    run: str
    policy: Policy
    episodes: int
    """Of the whole run, what was played before included."""
    faults_hash: str
    hard_only: bool = False
    """Play the pool alone."""
    before: Played | None = None
    """What the run's log holds already."""
    _ended: deque[EpisodeEnd] = field(default_factory=deque)
    _failure: RolloutError | None = None

    def __post_init__(self) -> None:
        size = self.curriculum.settings.group
        if self.episodes % size:
            raise UsageProblem(
                f"episodes: {self.episodes} make no whole groups of {size}, as the curriculum plays; give a multiple of {size}"
            )

    def __len__(self) -> int:
        """Episodes that are still to be played."""
        return self.episodes - (len(self.before.final) if self.before else 0)

    def catch_up(self) -> None:
        """Tell the curriculum what the log holds; it knows by itself what it was told before."""
        if self.before is not None:
            self._ended += self.before.final.values()
        self._record()

    def tell(self, end: EpisodeEnd) -> None:
        """Take the last line of an attempt; the curriculum hears of it before it draws again."""
        if is_final(end):
            self._ended.append(end)

    async def play(self, pool: EpisodePool, workers: int) -> None:
        """Play what is drawn, a group at a time. What was told stands, however it ends.

        Raises:
            UsageProblem: the curriculum cannot be used, or there is nothing to be drawn.
            RolloutError: as `EpisodePool.run`.
        """
        await anyio.to_thread.run_sync(self.catch_up)
        send, receive = anyio.create_memory_object_stream[Planned](0)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._feed, send)
                with receive:
                    try:
                        await pool.run(receive, workers=workers)
                    except RolloutError as error:  # carried out of the task group, which would wrap it
                        self._failure = error
                group.cancel_scope.cancel()
        finally:
            self._record()
        if self._failure is not None:
            raise self._failure

    async def _feed(self, send: MemoryObjectSendStream[Planned]) -> None:
        with send:
            try:
                drawn = await anyio.to_thread.run_sync(self.curriculum.drawn_for, self.run)
                for number in range(self.episodes // self.curriculum.settings.group):
                    draw = drawn[number] if number < len(drawn) else await anyio.to_thread.run_sync(self._draw)
                    for planned in self._left(number, draw):
                        await send.send(planned)
            except RolloutError as error:
                self._failure = error

    def _draw(self) -> Draw:
        self._record()
        return self.curriculum.draw(self.run, self.faults_hash, hard_only=self.hard_only)

    def _record(self) -> None:
        ended = [self._ended.popleft() for _ in range(len(self._ended))]  # others are put in meanwhile
        if not ended:
            return
        groups = [draw.number for draw in self.curriculum.drawn_for(self.run)]
        size = self.curriculum.settings.group
        self.curriculum.record(
            Outcome(groups[_number(end) // size], end.episode_id, end.succeeded if end.mask else None, end.reward) for end in ended
        )

    def _left(self, number: int, draw: Draw) -> list[Planned]:
        """The episodes of a group that have no final end yet."""
        first = number * len(draw.policy_seeds)
        group = [
            Planned(f"{self.run}-{first + member:05d}", draw.task_id, draw.seed, self.policy, policy_seed)
            for member, policy_seed in enumerate(draw.policy_seeds)
        ]
        return self.before.rest(group) if self.before else group


def _number(end: EpisodeEnd) -> int:
    return int(end.episode_id.rpartition("-")[2])
