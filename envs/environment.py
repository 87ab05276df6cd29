"""One environment: episodes of one world, one after another, by `reset`, `step`, `snapshot`, `restore` and `fork`.

`reset` raises what is ours, since there is no episode yet that could fail; `wardian.envs.ending.boundary` says of such an
exception what a failed episode would say. `step` never raises it: an episode that we break ends as `failed`, with its cause
and without a reward.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Self

import anyio

from wardian.envs import observation as rendering
from wardian.envs.acting import act, settle
from wardian.envs.action import Action, Observation, Step, ToolCalls
from wardian.envs.closing import last_look, verdict_of
from wardian.envs.definition import WorldDefinition
from wardian.envs.ending import EndCause, Ending, EndKind, boundary
from wardian.envs.episode import Episode
from wardian.envs.errors import CallInFlight, NotReset
from wardian.envs.family import Family
from wardian.envs.known import KnownTasks, versions_with
from wardian.envs.resuming import all_of
from wardian.envs.sealing import take
from wardian.envs.settings import MalformedPolicy, Settings
from wardian.envs.snapshot import Snapshot
from wardian.envs.stage import Stage
from wardian.envs.start import ResetInfo, stream_seed
from wardian.envs.task import Task
from wardian.envs.tokens import ESTIMATE, Tokenizer
from wardian.envs.turn import Turn
from wardian.sandbox.cell import Cell
from wardian.sandbox.database.base import Template, WorldDatabase
from wardian.sandbox.errors import CellDied, CellTimeout, DeathCause, LeakDetected
from wardian.sandbox.lease import Lease
from wardian.sandbox.pool import CellPool
from wardian.sandbox.world import World
from wardian.tools.contract import Json
from wardian.tools.faults import FaultProfile

_log = logging.getLogger(__name__)


class ToolEnvironment:
    """Runs one episode at a time. Not for concurrent use: make one per concurrent episode, over a shared pool and template."""

    def __init__(
        self,
        world: WorldDefinition,
        *,
        template: Template,
        cells: CellPool | None,
        faults: FaultProfile,
        malformed: MalformedPolicy = MalformedPolicy.RECOVER,
        tokenizer: Tokenizer = ESTIMATE,
        settings: Settings = Settings(),  # noqa: B008 - frozen
    ) -> None:
        """Take what is shared with other environments; nothing is started before the first `reset`.

        Raises:
            ValueError: the world needs a cell and there is no pool.
        """
        if world.needs_cell and cells is None:
            raise ValueError(f"cells: the world {world.name} needs cells; give a CellPool")
        self.world = world
        self.leaks_found = 0
        """Unclean starts that were caught, over the life of this environment."""
        self._stage = Stage(world, template, cells if world.needs_cell else None, faults, malformed)
        self._tokenizer = tokenizer
        self._settings = settings
        self._schema_tokens: dict[tuple[str, ...], int] = {}
        """By the names of a task's tools; counting some thousand tokens again for each episode would be most of a reset."""
        self._episode: Episode | None = None
        self._reset_info: ResetInfo | None = None
        self._in_flight = ""
        """What is under way that no other may meet."""
        self._known = KnownTasks(world, settings.split)
        self._versions: dict[str, str] = {}
        """Made when first asked for."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def tool_schemas(self) -> tuple[dict[str, Json], ...]:
        """Tools of the running episode, in the OpenAI function format.

        Raises:
            NotReset: no episode runs.
        """
        return self._running().toolbox.schemas()

    @property
    def tokenizer(self) -> Tokenizer:
        """What counts the tokens of budgets and records."""
        return self._tokenizer

    @property
    def reset_info(self) -> ResetInfo:
        """How the latest episode began.

        Raises:
            NotReset: there was none yet.
        """
        if self._reset_info is None:
            raise NotReset("reset_info: there was no episode yet; call reset first")
        return self._reset_info

    async def reset(self, task_id: str, seed: int = 0, *, uid: int | None = None) -> Observation:
        """Begin an episode of `task_id`, with random streams from `seed`. An episode that runs is given up.

        A start that is not clean is thrown away and made anew, on another cell and clone; no agent ever sees it. `uid`
        prefers the cell of that agent's uid, for a replay that is to meet the same one.

        Raises:
            TaskError: there is no such task, or the world does not take its rows or files.
            HeldOut: the task is of another split than the one that is played here.
            CallInFlight: a step, snapshot, restore, fork or other reset is under way.
            LeakDetected: every try was unclean.
            SandboxError: the infrastructure failed; `PoolTimeout` when no cell became free.
        """
        with self._alone("reset"):
            return await self._begin(task_id, seed, uid)

    async def _begin(self, task_id: str, seed: int, uid: int | None) -> Observation:
        started = time.perf_counter()
        task, family = self._known.generate(task_id)
        self._give_up()
        leaks: list[LeakDetected] = []
        while len(leaks) < self._settings.reset_attempts:
            try:
                self._episode = await self._stage.begin(task, family, seed, uid, self._make_world)
            except LeakDetected as leak:
                self.leaks_found += 1
                leaks.append(leak)
                _log.error("reset of %s thrown away: %s", task_id, leak)
                continue
            try:
                return self._first(self._episode, leaks, started)
            except BaseException:
                self._give_up()
                raise
        raise leaks[-1]

    async def step(self, action: Action) -> Step:
        """Take one turn. Cancelling it gives the episode up.

        Raises:
            NotReset: no episode runs; call `reset` first.
            CallInFlight: another step, reset, snapshot, restore or fork is under way.
        """
        return await self._turn(action)

    async def truncate(self) -> Step:
        """End the episode as it stands, as one of its budgets would: for whoever plays it by a budget of their own.

        The step has no result and the end cause `stopped`; its reward is what the state is worth. Cancelling it gives the episode up.

        Raises:
            NotReset, CallInFlight: as `step`.
        """
        return await self._turn(Ending(EndKind.TRUNCATED, EndCause.STOPPED))

    async def _turn(self, action: Action | Ending) -> Step:
        episode = self._running()
        if episode.ended:
            raise NotReset("the episode has ended; its world stands only to be looked at")
        with self._alone("step"):
            episode.step += 1
            turn = Turn(first_event=len(episode.log))
            try:
                step = await self._take(episode, action, turn)
            except BaseException:
                self._give_up()
                raise
        episode.seen = step.observation
        episode.ended = step.done
        failed = step.info.end_cause == EndCause.INFRASTRUCTURE
        if step.done and (failed or not self._settings.hold_ended):
            self._give_up(lost=failed)
        return step

    async def snapshot(self) -> Snapshot:
        """The whole state between two steps. The episode goes on, whatever comes of it, unless its cell is lost.

        Raises:
            NotReset: no episode runs.
            CallInFlight: a step is under way.
            SnapshotTooLarge: it would hold more than `Settings.snapshot_mib`.
            SnapshotRefused: a file cannot be read as it is now.
            SandboxError: the cell is lost, and the episode with it.
        """
        episode = self._running()
        with self._alone("snapshot"):
            try:
                versions = {**self._own_versions(), "task": self._known.hash_of(episode.task)}
                return await take(episode, versions, self._settings.snapshot_mib << 20)
            except (CellDied, CellTimeout):
                self._give_up(lost=True)
                raise

    async def restore(self, snapshot: Snapshot) -> Observation:
        """Go on from `snapshot`, which another environment, or process, may have taken; gives what the agent saw last.

        Any number of times. An episode that runs is given up, unless the snapshot is refused. The whole state is proved to be that of the
        snapshot before anybody sees it.

        Raises:
            SnapshotRefused: it is of another world, version, task, template, profile or cell; says which.
            HeldOut: its task is of another split than the one that is played here.
            CallInFlight: a step is under way.
            LeakDetected: what was made is not the state of the snapshot.
            SandboxError: the infrastructure failed; `PoolTimeout` when no cell became free.
        """
        with self._alone("restore"):
            task, family = self._known.checked(snapshot, self._own_versions())
            self._stop_playing()
            return await self._resume(snapshot, task, family)

    async def fork(self, count: int, *, wait_s: float = 30.0) -> tuple[Self, ...]:
        """Make `count` environments whose episodes go on from here, each in a cell of its own, independent of this one and each other.

        Close each. `wait_s`: how long to wait until so many cells are free.

        Raises:
            ValueError: `count` is below 1.
            PoolTimeout: the pool has not so many cells, or they did not become free in time.
            NotReset, CallInFlight, SandboxError: as `snapshot` and `restore`.
        """
        if count < 1:
            raise ValueError(f"count: a fork makes at least one episode, got {count}")
        snapshot, cells = await self.snapshot(), self._stage.cells
        with self._alone("fork"):
            task, family = self._known.checked(snapshot, self._own_versions())
            leases = await cells.acquire_several(count, held=1, within_s=wait_s) if cells else (None,) * count
            forks = tuple(self._sibling(lease) for lease in leases)
            try:
                await all_of(*(partial(one._resume, snapshot, task, family) for one in forks))
            except BaseException:
                for one in forks:
                    one._give_up()
                raise
            return forks

    @property
    def live(self) -> World:
        """The state of the running episode itself, no copy: for the trusted side, which may look into it between two steps.

        Raises:
            NotReset: no episode runs.
        """
        return self._running().world

    async def close(self) -> None:
        """Give up a running episode and its cell. Idempotent; the pool and the template stay with their owner.

        A call that another task has under way is cancelled, and raises `NotReset` there.
        """
        if self._in_flight:
            self._flight.cancel()
            with anyio.CancelScope(shield=True):
                await self._landed.wait()
        self._give_up()

    def _running(self) -> Episode:
        if self._episode is None:
            raise NotReset("no episode runs; call reset first (a new one is needed after an episode has ended)")
        return self._episode

    @contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        """Around what must not meet another call in flight, and what `close` breaks off."""
        if self._in_flight:
            raise CallInFlight(f"{what}: a {self._in_flight} is under way; wait for its end (one environment takes one call at a time)")
        self._in_flight, self._flight, self._landed = what, anyio.CancelScope(), anyio.Event()
        try:
            with self._flight:
                yield
        finally:
            self._in_flight = ""
            self._landed.set()
        if self._flight.cancelled_caught:
            raise NotReset(f"{what}: the environment was closed meanwhile, and the {what} broken off")

    def _sibling(self, lease: Lease | None) -> Self:
        """Another environment like this, with a cell that nothing was done in."""
        stage = self._stage
        made = type(self)(
            self.world,
            template=stage.template,
            cells=stage.cells,
            faults=stage.faults,
            malformed=stage.malformed,
            tokenizer=self._tokenizer,
            settings=self._settings,
        )
        made._stage.lease, made._stage.used = lease, False
        made._known, made._schema_tokens, made._versions = self._known, self._schema_tokens, self._versions
        return made

    def _own_versions(self) -> dict[str, str]:
        self._versions = self._versions or versions_with(self.world, self._stage, self._tokenizer)
        return self._versions

    async def _resume(self, snapshot: Snapshot, task: Task, family: Family) -> Observation:
        started = time.perf_counter()
        try:
            episode = self._episode = await self._stage.resume(snapshot, task, family, self._make_world)
        except LeakDetected:
            self.leaks_found += 1
            raise
        self._note_start(episode, started, resumed_step=snapshot.step)
        return episode.seen

    def _make_world(self, task: Task, seed: int, database: WorldDatabase, cell: Cell | None) -> World:
        """Make the state of one episode; everything in it is new."""
        return World(start=task.start, seed=stream_seed(task.id, seed), database=database, cell=cell)

    def _first(self, episode: Episode, leaks: list[LeakDetected], started: float) -> Observation:
        task = episode.task
        first = rendering.first_observation(task.instruction, self.world.policy, task.start, self._tokenizer)
        episode.schema_tokens = self._count_schemas(episode)
        episode.spend_tokens(episode.schema_tokens + first.tokens)
        episode.seen, episode.start_fingerprint = first, episode.world.fingerprint()
        self._note_start(episode, started, leaks)
        return first

    def _note_start(self, episode: Episode, started: float, leaks: Sequence[LeakDetected] = (), resumed_step: int = 0) -> None:
        lease = self._stage.lease
        self._reset_info = ResetInfo(
            task=episode.task,
            seed=episode.seed,
            receipt=lease.receipt if lease else None,
            agent_uid=lease.cell.agent_uid if lease else None,
            template_key=self._stage.template.key,
            fingerprint=episode.start_fingerprint,
            schema_tokens=episode.schema_tokens,
            leaks=tuple(leak.differences[:5] for leak in leaks),
            resumed_step=resumed_step,
            total_ms=(time.perf_counter() - started) * 1000,
        )

    def _count_schemas(self, episode: Episode) -> int:
        names = tuple(episode.toolbox.tools)
        if names not in self._schema_tokens:
            self._schema_tokens[names] = rendering.schema_tokens(episode.toolbox.schemas(), self._tokenizer)
        return self._schema_tokens[names]

    async def _take(self, episode: Episode, action: Action | Ending, turn: Turn) -> Step:
        try:
            ending = action if isinstance(action, Ending) else await self._act(episode, action, turn)
            seen = rendering.observation(turn.results, turn.words, self._tokenizer)
            episode.spend_tokens(seen.tokens)
            return await self._conclude(episode, turn, seen, ending or episode.over_budget())
        except Exception as error:  # noqa: BLE001 - the boundary: whatever escapes from an episode is classified here
            return self._failed(episode, turn, error)

    async def _act(self, episode: Episode, action: Action, turn: Turn) -> Ending | None:
        """Carry the action out; a cell that the agent killed by it is an ending like any other."""
        try:
            return await act(episode, action, turn)
        except CellDied as death:
            if death.cause is not DeathCause.POLICY:
                raise
            turn.results += rendering.lost(len(action.calls) - len(turn.results) if isinstance(action, ToolCalls) else 0)
            episode.lose_cell(death)
            return boundary(death)

    async def _conclude(self, episode: Episode, turn: Turn, seen: Observation, ending: Ending | None) -> Step:
        """Make the step of an episode that goes on, or one that has ended and is judged now."""
        if ending is not None:
            await settle(episode)
        every = self._settings.recompute_every
        if ending is not None or (every and episode.step % every == 0):
            episode.recompute()
            turn.recomputed = True
        charged = turn.invalid if episode.malformed is MalformedPolicy.PENALISE else 0
        components = episode.family.reward.costs(turn.counted, charged, episode.effects_since(turn.first_event))
        if ending is None:
            return Step(seen, sum(components.values()), components, False, False, episode.info(turn))
        await last_look(episode)
        verdict = await verdict_of(episode, ending, self._settings.verifier_s, self._stage.start_of)
        components |= episode.family.reward.earned(verdict)
        return Step(
            observation=seen,
            reward=sum(components.values()),
            reward_components=components,
            terminated=ending.kind is EndKind.TERMINATED,
            truncated=ending.kind is EndKind.TRUNCATED,
            info=episode.info(turn, ending, verdict),
        )

    def _failed(self, episode: Episode, turn: Turn, error: Exception) -> Step:
        ending = boundary(error)
        _log.error("episode of %s failed at step %d", episode.task.id, episode.step, exc_info=error)
        seen = Observation("", 0)
        return Step(seen, None, {}, False, False, episode.failed_info(turn, ending), failed=f"{ending.cause}: {ending.detail}")

    def _give_up(self, *, lost: bool = False) -> None:
        """Let go of the running episode and all that it holds; idempotent. A cell that its agent killed is lost."""
        lost = lost or (self._episode is not None and bool(self._episode.lost))
        self._episode = None
        self._stage.give_up(lost=lost)

    def _stop_playing(self) -> None:
        """Let go of the running episode, and keep its cell where that can be had again."""
        if self._episode is None or self._episode.lost:
            self._give_up()
        else:
            self._episode = None
            self._stage.end_episode()
