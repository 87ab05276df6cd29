"""A pool of cells: a lease gets a cell that is restored and proven already; the one before it is being restored meanwhile.

Each cell has a slot, and each slot one state:

    EMPTY ─► MAKING ─► READY ─► LEASED ─► RESTORING ─► READY
               │                              └─► EMPTY   (the cell leaked, died or hung: it is stopped and replaced, never cleaned)
               └─► BROKEN                                 (not to be made; tried again when somebody asks)

All of it stands in one list. Whatever changes it calls `_rebalance`, which is synchronous and does all that can be done at
once: it gives ready cells to those who wait, longest wait first, and starts the work that slots need. A cell counts as leased
from the moment it is assigned, so a caller that is cancelled just then still gives it back.
"""

from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, Any

import anyio
import tenacity

from wardian.sandbox.beside import beside
from wardian.sandbox.cell import Cell, CellSpec, ResetReceipt
from wardian.sandbox.deep import DeepChecks
from wardian.sandbox.errors import CellDied, CellTimeout, CellUnavailable, LeakDetected, PoolClosed, PoolTimeout, SandboxError
from wardian.sandbox.lease import Leak, Lease, PoolStatistics
from wardian.sandbox.uids import FIRST_UID, UidClaims

if TYPE_CHECKING:
    from wardian.sandbox.engine import Engine

MakeCell = Callable[[CellSpec, int], Cell]
"""From a spec and the agent's uid to a cell that was not started."""
MADE_AT_ONCE = 4
MAKE_ATTEMPTS = 4
BACK_OFF_S = 0.2
"""Before the second attempt; doubled for each one after it, with jitter."""


class SlotState(StrEnum):
    EMPTY = "empty"
    MAKING = "making"
    READY = "ready"
    LEASED = "leased"
    RESTORING = "restoring"
    BROKEN = "broken"


@dataclass(eq=False, slots=True)
class _Slot:
    uid: int
    state: SlotState = SlotState.EMPTY
    cell: Cell | None = None
    lease: Lease | None = None
    """The next or the present one; set while READY or LEASED."""
    error: SandboxError | None = None
    suspect: bool = False
    """Its cell gets a deep pass before it counts as ready again."""


@dataclass(eq=False, slots=True)
class _Waiter:
    uid: int | None = None
    count: int = 1
    """How many cells at once; it holds none of them until all are ready."""
    has_others: bool = False
    """Its caller keeps other cells meanwhile."""
    done: anyio.Event = field(default_factory=anyio.Event)
    leases: tuple[Lease, ...] = ()
    error: SandboxError | None = None


class CellPool:
    """`size` cells of one spec. Use it as `async with`, in one event loop; all methods may be called concurrently."""

    def __init__(
        self, spec: CellSpec, size: int, *, engine: "Engine | None" = None, make_cell: MakeCell | None = None, uids: Sequence[int] = ()
    ) -> None:
        """`make_cell` is for other backends; by default cells run on `engine`, or on the one that the environment names.

        Each slot gets a uid that no other cell of this host has: one of `uids` where it is free, else the lowest free one. Where
        `spec.agent_uid` is set, all have that one.

        Raises:
            ValueError: `size` is below 1.
        """
        if size < 1:
            raise ValueError(f"size: a pool needs at least one cell, got {size}")
        self.spec = spec
        self._engine = engine
        self._make_cell = make_cell
        self._slots = [_Slot(spec.agent_uid if spec.agent_uid is not None else FIRST_UID + index) for index in range(size)]
        self._wanted_uids = tuple(uids)
        self._claims = UidClaims()
        self._waiting: deque[_Waiter] = deque()
        self._closed = True
        """Also before `__aenter__`."""
        self._changed = anyio.Event()
        self._counts: Counter[str] = Counter()
        self._restore_ms: deque[float] = deque(maxlen=10_000)
        self._leaks: deque[Leak] = deque(maxlen=1_000)
        self._deep = DeepChecks()
        self._life: AbstractAsyncContextManager[None] | None = None

    # Life

    async def __aenter__(self) -> "CellPool":
        """Start making all cells and return when the first one is ready.

        Raises:
            EngineUnavailable: there is no engine.
            CellUnavailable: not one could be made.
        """
        if self._life is not None:
            raise PoolClosed("a pool is used once: make another one")
        self._life = self._living()
        await self._life.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool | None:
        """End every cell, leased ones too. Shielded from cancellation; nothing is left in the engine."""
        assert self._life is not None
        return await self._life.__aexit__(kind, error, trace)

    @asynccontextmanager
    async def _living(self) -> AsyncIterator[None]:
        engine = await self._backend()
        if engine is not None or self._engine is not None:
            self._claim_uids()
        self._closed = False
        try:
            async with beside() as self._group:
                try:
                    self._rebalance()
                    await self._first_cell()
                    yield
                finally:
                    self._close()
        finally:
            self._close()
            await self._stop_all()
            self._claims.release()
            if engine is not None:
                engine.close()

    async def _backend(self) -> "Engine | None":
        """Set how cells are made; gives the engine that is to be closed at the end, if it is the pool's own."""
        self._limiter = anyio.CapacityLimiter(MADE_AT_ONCE)
        if self._make_cell is not None:
            return None
        from wardian.sandbox.docker_cell import make_cell  # the SDK is not loaded for other backends
        from wardian.sandbox.engine import Engine

        engine = self._engine or await Engine.open(self.spec.timeouts)
        self._make_cell = lambda spec, uid: make_cell(spec, engine, uid)
        return engine if self._engine is None else None

    def _claim_uids(self) -> None:
        """Containers share the host's kernel, which counts per uid; cells of other backends need no claim."""
        if self.spec.agent_uid is None:
            for slot, uid in zip(self._slots, self._claims.claim(len(self._slots), self._wanted_uids), strict=True):
                slot.uid = uid

    async def _first_cell(self) -> None:
        while not self._any(SlotState.READY) and self._any(SlotState.MAKING):
            await self._changed.wait()
        if error := self._no_hope():
            raise error

    def _close(self) -> None:
        self._closed = True
        self._rebalance()

    async def _stop_all(self) -> None:
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as group:
                for slot in self._slots:
                    if slot.cell is not None:
                        group.start_soon(slot.cell.stop)
                    slot.cell, slot.lease, slot.state = None, None, SlotState.EMPTY

    @property
    def size(self) -> int:
        """How many cells there are to lease, at most at once."""
        return len(self._slots)

    # Leases

    @asynccontextmanager
    async def lease(self, uid: int | None = None) -> AsyncIterator[Lease]:
        """Borrow a cell for the body; see `acquire`. A body that ends with `CellDied` or `CellTimeout` gives a lost cell back.

        Raises:
            PoolTimeout, PoolClosed, CellUnavailable: as `acquire`.
        """
        lease = await self.acquire(uid)
        lost = False
        try:
            yield lease
        except BaseException as error:
            lost = _says_lost(error)
            raise
        finally:
            self.release(lease, lost=lost)

    async def acquire(self, uid: int | None = None) -> Lease:
        """Wait for a restored, proven cell, in order of asking; to be given back with `release`. Safe to cancel.

        With `uid` the cell of that uid is preferred: waited for while it is being made or restored, not while somebody has it.

        Raises:
            PoolTimeout: none became free within `pool_s`.
            PoolClosed: the pool is not open, or was closed meanwhile.
            CellUnavailable: no slot has a cell and none could be made, after several attempts.
        """
        within_s = self.spec.timeouts.pool_s
        leases = await self._wait(_Waiter(uid), within_s)
        if not leases:
            raise PoolTimeout(f"no cell became free within {within_s:g} s: {self!r}")
        return leases[0]

    async def acquire_several(self, count: int, *, held: int, within_s: float) -> tuple[Lease, ...]:
        """Borrow `count` cells at once, by a caller that has `held` of the pool already and keeps them. Safe to cancel.

        While it waits, nobody who asked later and has no cell overtakes it; others who have some may, so that two who wait for each
        other's cells do not stand still.

        Raises:
            PoolTimeout: the pool can never give so many beside those, or they did not become free in time.
            PoolClosed, CellUnavailable: as `acquire`.
        """
        if count + held > self.size:
            raise PoolTimeout(
                f"{count} cells are wanted beside {held} in use, and the pool has {self.size}: make it of size {count + held}"
            )
        leases = await self._wait(_Waiter(count=count, has_others=held > 0), within_s)
        if not leases:
            free = sum(slot.state is SlotState.READY for slot in self._slots)
            raise PoolTimeout(f"only {free} of {count} cells became free within {within_s:g} s: {self!r}")
        return leases

    async def _wait(self, waiter: _Waiter, within_s: float) -> tuple[Lease, ...]:
        """All that it asks for, or nothing when the time is up."""
        self._waiting.append(waiter)
        try:
            for slot in self._slots:
                if slot.state is SlotState.BROKEN:
                    slot.state = SlotState.EMPTY
            self._rebalance()
            with anyio.move_on_after(within_s):
                await waiter.done.wait()
        except BaseException:
            self._withdraw(waiter)
            raise
        if waiter.error is not None:
            raise waiter.error
        if not waiter.leases:
            self._withdraw(waiter)
        return waiter.leases

    def release(self, lease: Lease, *, lost: bool = False) -> None:
        """Give a cell back and return at once; it is restored in the background, or replaced if it is `lost`. Idempotent."""
        for slot in self._slots:
            if slot.lease is lease and slot.state is SlotState.LEASED:
                slot.lease, slot.state = None, SlotState.RESTORING
                self._start(self._replace if lost else self._restore, slot)
                self._rebalance()

    def _withdraw(self, waiter: _Waiter) -> None:
        """Take back a request whose caller went away; a cell that it got already is unused and as good as before."""
        if waiter in self._waiting:
            self._waiting.remove(waiter)
        for slot in self._slots:
            if any(slot.lease is lease for lease in waiter.leases):
                slot.state = SlotState.READY
        self._rebalance()

    async def settle(self) -> None:
        """Wait until no cell is being made or restored."""
        while self._any(SlotState.MAKING, SlotState.RESTORING):
            await self._changed.wait()

    async def audit(self) -> None:
        """Restore every cell that nobody has, with a deep pass, and wait for it; leased cells get theirs when they come back.

        What it finds is counted as a leak. Nothing happens where the spec asks for no deep checks.
        """
        if self.spec.deep_checks:
            self._suspect_all()
            self._rebalance()
            await self.settle()

    def _suspect_all(self) -> None:
        """Nobody gets a cell any more that had no deep pass since now."""
        for slot in self._slots:
            slot.suspect = True
            if slot.state is SlotState.READY:
                slot.lease, slot.state = None, SlotState.RESTORING
                self._start(self._restore, slot)

    def _any(self, *states: SlotState) -> bool:
        return any(slot.state in states for slot in self._slots)

    # State

    def _rebalance(self) -> None:
        """Do what the present state asks for. No input or output, no waiting."""
        if self._closed:
            for waiter in self._waiting:
                waiter.error = PoolClosed("the pool is closed")
                waiter.done.set()
            self._waiting.clear()
        else:
            for slot in self._slots:
                if slot.state is SlotState.EMPTY:
                    slot.state = SlotState.MAKING
                    self._start(self._make, slot)
            self._assign()
        self._changed.set()
        self._changed = anyio.Event()

    def _assign(self) -> None:
        kept = False
        for waiter in tuple(self._waiting):
            slots = self._choose(waiter) if waiter.has_others or not kept else []
            if slots:
                for slot in slots:
                    slot.state = SlotState.LEASED
                waiter.leases = tuple(slot.lease for slot in slots if slot.lease is not None)
            elif (hopeless := self._no_hope()) is not None:
                waiter.error = hopeless
            else:
                kept = kept or waiter.count > 1
                continue
            self._waiting.remove(waiter)
            waiter.done.set()

    def _choose(self, waiter: _Waiter) -> list[_Slot]:
        ready = [slot for slot in self._slots if slot.state is SlotState.READY]
        wanted = [slot for slot in self._slots if slot.uid == waiter.uid]
        for slot in wanted:
            if slot in ready:
                return [slot]
        if any(slot.state in (SlotState.MAKING, SlotState.RESTORING) for slot in wanted):
            return []
        return ready[: waiter.count] if len(ready) >= waiter.count else []

    def _no_hope(self) -> CellUnavailable | None:
        """Why no cell can come: every slot's making failed to the end."""
        if any(slot.state is not SlotState.BROKEN for slot in self._slots):
            return None
        errors = [slot.error for slot in self._slots]
        return CellUnavailable(f"no cell could be made, {MAKE_ATTEMPTS} times each: {errors[0]}")

    def _start(self, work: Callable[[_Slot], Coroutine[Any, Any, None]], slot: _Slot) -> None:
        if not self._closed:
            self._group.start_soon(work, slot)

    def statistics(self) -> PoolStatistics:
        """What the pool did so far, and what it has now."""
        states = Counter(slot.state for slot in self._slots)
        counts = self._counts
        return PoolStatistics(
            resets=counts["resets"],
            verified=counts["verified"],
            deep_checks=self._deep.passed,
            leaks=tuple(self._leaks),
            restore_ms=tuple(self._restore_ms),
            replaced=counts["replaced"],
            created=counts["created"],
            quarantined=counts["quarantined"],
            ready=states[SlotState.READY],
            leased=states[SlotState.LEASED],
        )

    def __repr__(self) -> str:
        """The whole state in one line."""
        states = ", ".join(slot.state.value for slot in self._slots)
        return f"<CellPool {'closed' if self._closed else 'open'} [{states}] waiting={len(self._waiting)}>"

    # Background work

    async def _make(self, slot: _Slot) -> None:
        """MAKING to READY or BROKEN."""
        attempts = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(SandboxError),
            stop=tenacity.stop_after_attempt(MAKE_ATTEMPTS),
            wait=tenacity.wait_exponential(multiplier=BACK_OFF_S, max=5.0) + tenacity.wait_random(0, BACK_OFF_S),
            sleep=anyio.sleep,
            reraise=True,
        )
        try:
            async with self._limiter:
                await attempts(self._make_once, slot)
        except SandboxError as error:
            slot.state, slot.error = SlotState.BROKEN, error
        else:
            slot.state, slot.error = SlotState.READY, None
        self._rebalance()

    async def _make_once(self, slot: _Slot) -> None:
        assert self._make_cell is not None
        cell = self._make_cell(self.spec, slot.uid)
        slot.suspect = self.spec.deep_checks
        try:
            await cell.start()
            self._counts["created"] += 1
            slot.lease = Lease(cell, await self._proven(cell, slot))
        except BaseException:
            with anyio.CancelScope(shield=True):
                await cell.stop()
            raise
        slot.cell = cell

    async def _proven(self, cell: Cell, slot: _Slot) -> ResetReceipt:
        self._counts["resets"] += 1
        try:
            receipt = await cell.restore()
            if slot.suspect:
                await self._deep.check(cell)
                slot.suspect = False
        except LeakDetected as leak:
            self._leaks.append(Leak(cell.id, leak.differences))
            self._counts["quarantined"] += 1
            if self.spec.deep_checks:
                self._suspect_all()
            raise
        self._counts["verified"] += 1
        self._restore_ms.append(receipt.total_ms)
        return receipt

    async def _restore(self, slot: _Slot) -> None:
        """RESTORING to READY, or to EMPTY when the cell is not to be trusted any more."""
        assert slot.cell is not None
        try:
            slot.lease = Lease(slot.cell, await self._proven(slot.cell, slot))
        except SandboxError:
            await self._replace(slot)
            return
        slot.state = SlotState.READY
        self._rebalance()

    async def _replace(self, slot: _Slot) -> None:
        """RESTORING to EMPTY. The old cell is gone before the next one is made, since both have the slot's uid."""
        assert slot.cell is not None
        self._counts["replaced"] += 1
        with anyio.CancelScope(shield=True):
            await slot.cell.stop()
        slot.cell, slot.state = None, SlotState.EMPTY
        self._rebalance()


def _says_lost(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(_says_lost(one) for one in error.exceptions)
    return isinstance(error, CellDied | CellTimeout)
