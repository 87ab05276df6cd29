"""What a running episode stands on: a leased cell, a clone of the template, a toolbox. Made and proved at a reset, given back after."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from wardian.envs.approvals import offer, revoke, scope_events
from wardian.envs.conversation import Conversation
from wardian.envs.definition import WorldDefinition
from wardian.envs.episode import Episode
from wardian.envs.errors import TaskError
from wardian.envs.events import queue_planned
from wardian.envs.family import Family
from wardian.envs.resuming import go_on, remember, restored, unblocked
from wardian.envs.settings import MalformedPolicy
from wardian.envs.snapshot import Snapshot
from wardian.envs.start import insert_rows, place_files
from wardian.envs.task import Task
from wardian.sandbox.cell import Cell
from wardian.sandbox.database.base import FrozenDatabase, Template, WorldDatabase
from wardian.sandbox.errors import CellDied, CellTimeout, LeakDetected
from wardian.sandbox.lease import Lease
from wardian.sandbox.pool import CellPool
from wardian.sandbox.world import World
from wardian.tools.contract import Json, Source, Tool
from wardian.tools.faults import FaultPlan, FaultProfile
from wardian.tools.toolbox import Toolbox

_log = logging.getLogger(__name__)

MakeWorld: TypeAlias = Callable[[Task, int, WorldDatabase, Cell | None], World]


@dataclass(slots=True)
class Stage:
    """Shared things of one environment, and what its running episode holds of them."""

    world: WorldDefinition
    template: Template
    cells: CellPool | None
    faults: FaultProfile
    malformed: MalformedPolicy
    lease: Lease | None = None
    used: bool = False
    """An episode was in the leased cell since it was handed out."""
    epoch: int = 0
    """Episodes begun."""
    _held: ExitStack = field(default_factory=ExitStack)
    """What the episode holds beside its cell: database and toolbox."""

    async def begin(self, task: Task, family: Family, seed: int, uid: int | None, make_world: MakeWorld) -> Episode:
        """Make a start and prove it. What a try took is given back when it fails.

        Raises:
            TaskError: the world does not take the task.
            LeakDetected: the start is not clean.
            SandboxError: the infrastructure failed.
        """
        with self._given_back_on_failure():
            self.lease = await self.cells.acquire(uid) if self.cells else None
            self.used = True
            database = await unblocked(self.template, self.template.clone)
            self._held.callback(database.close)
            world = make_world(task, seed, database, self.lease.cell if self.lease else None)
            world.verify_start(self.template.fingerprint)
            rows = insert_rows(database, self.world.template.metadata, task)
            if world.cell is not None:
                await place_files(world, task)
            toolbox = self._toolbox(task)
            self._held.callback(toolbox.close)
            talk = self._conversation(task, family)
            offer(world, task.approvals, self.world.set_scope)
            queue_planned(world, task.events, self.world.events)
            if talk is not None:
                talk.begin(world)
        episode = self._episode(task, family, seed, world, toolbox, talk)
        episode.start_rows, episode.start_files = rows, world.files.changes
        return episode

    @contextmanager
    def _given_back_on_failure(self) -> Iterator[None]:
        """What a try took is given back when it fails."""
        try:
            yield
        except BaseException as error:
            self.give_up(lost=isinstance(error, CellDied | CellTimeout | LeakDetected))
            raise

    async def resume(self, snapshot: Snapshot, task: Task, family: Family, make_world: MakeWorld) -> Episode:
        """Go on from a snapshot of `task`: in the cell that is held, or in another one. What was taken is given back when it fails.

        Raises:
            LeakDetected: what was made is not the state of the snapshot.
            SandboxError: the infrastructure failed.
        """
        with self._given_back_on_failure():
            if self.cells and self.lease is None:
                self.lease, self.used = await self.cells.acquire(), False
            used, self.used = self.used, True
            database, copies = await restored(self.template, snapshot, self.lease, used, self._held)
            world = make_world(task, snapshot.seed, database, self.lease.cell if self.lease else None)
            toolbox = self._toolbox(task)
            self._held.callback(toolbox.close)
            await go_on(world, toolbox, snapshot, copies, self.lease.receipt.changes if self.lease else None)
        episode = self._episode(task, family, snapshot.seed, world, toolbox, self._conversation(task, family))
        remember(episode, snapshot)
        return episode

    def _episode(self, task: Task, family: Family, seed: int, world: World, toolbox: Toolbox, talk: Conversation | None) -> Episode:
        self.epoch += 1
        return Episode(
            task=task,
            family=family,
            seed=seed,
            epoch=self.epoch,
            world=world,
            toolbox=toolbox,
            malformed=self.malformed,
            cell_tools=frozenset(tool.name for tool in toolbox.tools.values() if tool.source is Source.CELL),
            handlers={**scope_events(self.world.set_scope), **self.world.events, **(talk.handlers() if talk else {})},
            conversation=talk,
            last_files=world.files.changes,
        )

    @contextmanager
    def start_of(self, task: Task) -> Iterator[FrozenDatabase]:
        """The database as episodes of `task` begin, in a clone of its own. Blocks.

        Raises:
            SandboxError: no clone can be made.
        """
        with closing(self.template.clone()) as database:
            database.time = lambda: task.start
            insert_rows(database, self.world.template.metadata, task)
            with closing(database.freeze()) as copy:
                yield copy

    def end_episode(self) -> None:
        """Let go of what the episode holds beside its cell, which is used but not lost."""
        held, self._held = self._held, ExitStack()
        try:
            held.close()
        except Exception:  # noqa: BLE001 - a teardown that fails must not replace the outcome of the episode
            _log.exception("teardown of an episode failed")

    def give_up(self, *, lost: bool = False) -> None:
        """Let go of all that the episode holds. Idempotent; waits for nothing, so it cannot be cancelled midway.

        A `lost` cell is replaced and never used again.
        """
        lease, self.lease = self.lease, None
        try:
            self.end_episode()
        finally:
            if lease is not None and self.cells is not None:
                self.cells.release(lease, lost=lost)

    def _conversation(self, task: Task, family: Family) -> Conversation | None:
        customer = family.customer(task)
        return Conversation(customer, self.world.channel, task.agent_id) if customer else None

    def _toolbox(self, task: Task) -> Toolbox:
        known: dict[str, Tool[Json]] = {tool.name: tool for tool in self.world.tools}
        missing = sorted(set(task.tools) - set(known))
        if missing:
            raise TaskError(f"tools: {task.id} wants {', '.join(missing)}; the world has {', '.join(known)}")
        tools = [known[name] for name in task.tools] if task.tools else list(known.values())
        plan = FaultPlan(self.faults, task.revocable_scopes, due=task.due_faults)
        return Toolbox(tools, plan, scopes_of=self.world.scopes_of, revoke=revoke if self.world.set_scope else None)
