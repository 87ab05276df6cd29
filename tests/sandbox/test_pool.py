"""The pool: order, replacement, deadlines, and nothing lost or left at any cancellation."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from wardian.sandbox.cell import Cell, CellSpec, Command, Tier
from wardian.sandbox.engine import Engine
from wardian.sandbox.errors import CellDied, CellUnavailable, DeathCause, EngineUnavailable, PoolClosed, PoolTimeout, SandboxError
from wardian.sandbox.fake import FakeCell, FakeScript
from wardian.sandbox.lease import Lease
from wardian.sandbox.pool import MAKE_ATTEMPTS, CellPool
from wardian.sandbox.timeouts import Timeouts

pytestmark = pytest.mark.anyio
SPEC = CellSpec("fake", timeouts=Timeouts(pool_s=5.0))
IMPATIENT = CellSpec("fake", timeouts=Timeouts(pool_s=0.05))
CHECKED = replace(SPEC, deep_checks=True)
DOWN = EngineUnavailable("create", "the engine is down")


class Backend:
    """Makes fake cells and remembers them."""

    def __init__(self, script: FakeScript | None = None) -> None:
        self.script = script or FakeScript()
        self.cells: list[FakeCell] = []

    def __call__(self, spec: CellSpec, uid: int) -> Cell:
        cell = FakeCell(spec, uid, self.script)
        self.cells.append(cell)
        return cell

    @property
    def running(self) -> int:
        return sum(cell.running for cell in self.cells)


def fake_of(lease: Lease) -> FakeCell:
    assert isinstance(lease.cell, FakeCell)
    return lease.cell


@asynccontextmanager
async def pool_of(size: int, backend: Backend | None = None, spec: CellSpec = SPEC) -> AsyncIterator[CellPool]:
    async with CellPool(spec, size, make_cell=backend or Backend()) as pool:
        await pool.settle()
        yield pool


async def test_a_lease_holds_a_restored_cell_and_its_receipt() -> None:
    async with pool_of(1) as pool, pool.lease() as lease:
        assert lease.receipt.epoch == fake_of(lease).epoch == 1
        assert repr(pool) == "<CellPool open [leased] waiting=0>"


async def test_each_lease_gets_a_restored_cell_again() -> None:
    async with pool_of(1) as pool:
        for epoch in (1, 2, 3):
            async with pool.lease() as lease:
                assert lease.receipt.epoch == epoch
        await pool.settle()
        found = pool.statistics()
        assert (found.resets, found.verified, found.created, found.replaced, found.ready) == (4, 4, 1, 0, 1)
        assert len(found.restore_ms) == 4


async def test_releasing_twice_is_harmless() -> None:
    async with pool_of(1) as pool:
        first = await pool.acquire()
        pool.release(first)
        pool.release(first)
        second = await pool.acquire()
        pool.release(first)
        assert repr(pool) == "<CellPool open [leased] waiting=0>"
        pool.release(second)


async def test_whoever_asked_first_is_served_first() -> None:
    served: list[int] = []
    async with pool_of(1) as pool:
        held = await pool.acquire()

        async def ask(number: int) -> None:
            async with pool.lease():
                served.append(number)

        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(ask, number)
                await anyio.wait_all_tasks_blocked()
            assert repr(pool) == "<CellPool open [leased] waiting=5>"
            pool.release(held)
    assert served == [0, 1, 2, 3, 4]


async def test_cells_have_their_own_uids_and_a_wanted_one_is_preferred() -> None:
    async with pool_of(3) as pool:
        async with pool.lease(uid=20002) as wanted, pool.lease(uid=20002) as other:
            assert wanted.cell.agent_uid == 20002
            assert other.cell.agent_uid != 20002
        async with pool.lease(uid=20002) as again:  # it is being restored just now, so it is waited for
            assert again.cell.agent_uid == 20002
        async with pool.lease(uid=1) as unknown:
            assert unknown.cell.agent_uid in (20000, 20001, 20002)


async def test_a_uid_of_the_spec_is_every_cells() -> None:
    async with pool_of(2, spec=replace(SPEC, agent_uid=31000)) as pool, pool.lease() as one, pool.lease() as two:
        assert (one.cell.agent_uid, two.cell.agent_uid) == (31000, 31000)


async def test_waiting_has_a_deadline() -> None:
    async with pool_of(1, spec=IMPATIENT) as pool, pool.lease():
        with pytest.raises(PoolTimeout, match=r"0.05 s: <CellPool open \[leased\]"):
            await pool.acquire()
        assert repr(pool) == "<CellPool open [leased] waiting=0>"


async def test_two_who_want_several_at_once_do_not_wait_for_each_other() -> None:
    async with pool_of(4) as pool:
        held = [await pool.acquire() for _ in range(3)]
        served: list[str] = []

        async def several(name: str) -> None:
            for lease in await pool.acquire_several(2, held=1, within_s=5):
                pool.release(lease)
            served.append(name)

        async with anyio.create_task_group() as group:
            group.start_soon(several, "one")
            group.start_soon(several, "two")
            await anyio.wait_all_tasks_blocked()
            assert pool.statistics().ready == 1
            pool.release(held.pop())
        assert sorted(served) == ["one", "two"]


async def test_who_has_no_cell_waits_behind_who_wants_several_and_who_has_one_overtakes() -> None:
    async with pool_of(4) as pool:
        held, order = [await pool.acquire() for _ in range(3)], list[str]()

        async def take(name: str, count: int, held_already: int) -> None:
            order.extend([name] * bool(await pool.acquire_several(count, held=held_already, within_s=5)))

        async with anyio.create_task_group() as group:
            for name, count, held_already in (("three", 3, 1), ("none", 1, 0), ("one", 1, 1)):
                group.start_soon(take, name, count, held_already)
                await anyio.wait_all_tasks_blocked()
            assert order == ["one"]
            for _ in range(3):
                pool.release(held.pop())
            await pool.settle()
            await anyio.wait_all_tasks_blocked()
            assert order == ["one", "three"]
            group.cancel_scope.cancel()


async def test_a_leaking_cell_is_stopped_recorded_and_replaced() -> None:
    backend = Backend()
    async with pool_of(1, backend) as pool:
        async with pool.lease() as lease:
            fake_of(lease).survivors.add("sleep")
        async with pool.lease() as after:
            assert after.cell is not lease.cell
        found = pool.statistics()
    assert not backend.cells[0].running
    assert [leak.cell_id for leak in found.leaks] == [lease.cell.id]
    assert found.leaks[0].differences == ("survivors: expected , found sleep",)
    assert (found.quarantined, found.replaced, found.created) == (1, 1, 2)
    assert found.verified == found.resets - 1 or found.verified == found.resets - 2  # the last one may be under way


async def test_a_dead_cell_is_replaced_without_another_reset() -> None:
    backend = Backend()
    async with pool_of(1, backend) as pool:
        with pytest.raises(CellDied):
            await use_a_dying_cell(pool)
        await pool.settle()
        found = pool.statistics()
        assert (found.resets, found.replaced, found.quarantined, found.ready) == (2, 1, 0, 1)


async def use_a_dying_cell(pool: CellPool) -> None:
    async with pool.lease() as lease:
        fake_of(lease).die()
        await lease.cell.exec(Command(argv=("true",)))


async def test_a_lost_cell_inside_of_a_group_of_errors_is_seen() -> None:
    async with pool_of(1) as pool:
        with pytest.raises(ExceptionGroup):
            async with pool.lease():
                raise ExceptionGroup("several", [ValueError(), CellDied("x", DeathCause.POLICY, "")])
        await pool.settle()
        assert pool.statistics().replaced == 1


async def test_the_bodys_error_arrives_as_it_is() -> None:
    with pytest.raises(ValueError, match="mine"):
        async with pool_of(1) as pool, pool.lease():
            raise ValueError("mine")


async def test_making_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wardian.sandbox.pool.BACK_OFF_S", 0.001)
    backend = Backend(FakeScript(starts=[DOWN, None], restores=[DOWN]))
    async with pool_of(1, backend) as pool:
        assert pool.statistics().ready == 1
    assert (len(backend.cells), backend.running) == (3, 0)


async def test_a_pool_without_any_cell_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wardian.sandbox.pool.BACK_OFF_S", 0.001)
    backend = Backend(FakeScript(starts=[DOWN] * (2 * MAKE_ATTEMPTS)))
    with pytest.raises(CellUnavailable, match="the engine is down"):
        async with pool_of(2, backend):
            pytest.fail("the body must not run")
    assert backend.running == 0


async def test_waiting_leases_hear_that_no_cell_will_come_and_later_ones_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wardian.sandbox.pool.BACK_OFF_S", 0.001)
    backend = Backend()
    async with pool_of(1, backend) as pool:
        backend.script.starts.extend([DOWN] * MAKE_ATTEMPTS)
        pool.release(await pool.acquire(), lost=True)
        with pytest.raises(CellUnavailable, match="the engine is down"):
            await pool.acquire()
        assert repr(pool) == "<CellPool open [broken] waiting=0>"
        async with pool.lease():
            assert pool.statistics().leased == 1


async def test_closing_tells_those_who_wait() -> None:
    errors: list[SandboxError] = []

    async def ask(pool: CellPool) -> None:
        try:
            await pool.acquire()
        except PoolClosed as error:
            errors.append(error)

    async with anyio.create_task_group() as group, pool_of(1) as pool:
        await pool.acquire()
        group.start_soon(ask, pool)
        await anyio.wait_all_tasks_blocked()
    assert len(errors) == 1
    with pytest.raises(PoolClosed):
        await pool.acquire()


async def test_a_pool_is_used_once() -> None:
    async with pool_of(1) as pool:
        with pytest.raises(PoolClosed):
            await pool.__aenter__()


def test_a_pool_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="size"):
        CellPool(SPEC, 0)


# Cancellation at each await


async def life(backend: Backend) -> None:
    """Two users of one cell, a leak and a replacement: every path on which the pool waits."""
    async with CellPool(SPEC, 1, make_cell=backend) as pool, anyio.create_task_group() as group:

        async def use(leaky: bool) -> None:
            async with pool.lease() as lease:
                await lease.cell.exec(Command(argv=("true",)))
                if leaky:
                    fake_of(lease).survivors.add("sleep")

        group.start_soon(use, True)
        group.start_soon(use, False)
        async with pool.lease():
            await pool.settle()


async def cancelled_after(turns: int, work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
    """Run `work` for so many turns of the event loop, then cancel it; whether it was not done by then."""
    with anyio.CancelScope() as scope:

        async def cut() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(cut)
            await work()
            group.cancel_scope.cancel()
    return scope.cancelled_caught


async def test_nothing_is_left_wherever_it_is_cancelled() -> None:
    cancelled, turns = True, 0
    while cancelled:
        backend = Backend()
        cancelled = await cancelled_after(turns, lambda backend=backend: life(backend))  # type: ignore[misc]
        assert backend.running == 0, f"cancelled after {turns} turns"
        turns += 1
    assert turns > 20


@pytest.mark.parametrize(
    "script", [FakeScript(start_s=9), FakeScript(restore_s=9), FakeScript(starts=[DOWN] * 9)], ids=["start", "restore", "retry"]
)
async def test_nothing_is_left_when_cancelled_while_opening(script: FakeScript) -> None:
    backend = Backend(script)
    with anyio.move_on_after(0.05) as scope:
        async with CellPool(SPEC, 3, make_cell=backend):
            pytest.fail("the body must not run")
    assert scope.cancelled_caught
    assert backend.running == 0


async def test_ending_is_shielded() -> None:
    backend = Backend(FakeScript(stop_s=0.05))
    with anyio.move_on_after(0.01):
        async with CellPool(SPEC, 3, make_cell=backend):
            await anyio.sleep_forever()
    assert (len(backend.cells), backend.running) == (3, 0)


async def test_a_lease_cancelled_at_the_moment_it_is_given_goes_back_unused() -> None:
    async with pool_of(1) as pool:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await pool.acquire()
        assert repr(pool) == "<CellPool open [ready] waiting=0>"
        assert pool.statistics().resets == 1


# Any order of events


class PoolMachine(RuleBasedStateMachine):
    """Leases, leaks, deaths and failures in any order: no cell is shared, lost or handed out unproven."""

    leases: Bundle[Lease] = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.backend = Backend()
        self.pool = CellPool(SPEC, 3, make_cell=self.backend)
        self.held: list[Lease] = []
        self.leaks = 0
        self.calls: asyncio.Queue[tuple[Callable[[], Coroutine[Any, Any, Any]], asyncio.Future[Any]] | None] = asyncio.Queue()
        self.host = self.loop.create_task(self.serve())
        self.do(self.pool.settle)

    async def serve(self) -> None:
        """The pool is entered and left in one task, as anyio wants it; the rules send their calls here."""
        async with self.pool:
            while (call := await self.calls.get()) is not None:
                work, answer = call
                answer.set_result(await work())

    def do(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        answer = self.loop.create_future()
        self.calls.put_nowait((work, answer))
        return self.loop.run_until_complete(answer)

    @precondition(lambda self: len(self.held) < 3)
    @rule(target=leases, uid=st.sampled_from([None, 20000, 20001, 20002, 5]))
    def acquire(self, uid: int | None) -> Lease:
        lease: Lease = self.do(lambda: self.pool.acquire(uid))
        assert fake_of(lease).survivors == set()
        assert lease.receipt.epoch == fake_of(lease).epoch
        self.held.append(lease)
        return lease

    @rule(lease=consumes(leases), lost=st.booleans())
    def release(self, lease: Lease, lost: bool) -> None:
        self.give_back(lease, lost=lost)

    @rule(lease=consumes(leases))
    def leak(self, lease: Lease) -> None:
        fake_of(lease).survivors.add("process")
        self.leaks += 1
        self.give_back(lease)

    @rule(lease=consumes(leases))
    def die(self, lease: Lease) -> None:
        fake_of(lease).die()
        self.give_back(lease)

    def give_back(self, lease: Lease, lost: bool = False) -> None:
        self.held.remove(lease)

        async def twice() -> None:
            self.pool.release(lease, lost=lost)
            self.pool.release(lease)

        self.do(twice)

    @rule()
    def settle(self) -> None:
        self.do(self.pool.settle)

    @invariant()
    def counts_agree(self) -> None:
        cells = [lease.cell.id for lease in self.held]
        found = self.pool.statistics()
        assert len(set(cells)) == len(cells) == found.leased
        assert found.ready + found.leased <= 3
        assert found.verified <= found.resets
        assert len(found.leaks) == found.quarantined <= self.leaks

    def teardown(self) -> None:
        self.calls.put_nowait(None)
        self.loop.run_until_complete(self.host)
        self.loop.close()
        assert self.backend.running == 0
        assert repr(self.pool) == "<CellPool closed [empty, empty, empty] waiting=0>"


TestPoolMachine = pytest.mark.filterwarnings("error")(PoolMachine.TestCase)
TestPoolMachine.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


# Real cells


@pytest.mark.parametrize("tier", Tier)
async def test_real_cells_serve_many_short_episodes(tier: Tier, engine: Engine, image: str) -> None:
    outputs: list[str] = []
    async with CellPool(CellSpec(image, tier=tier), 2, engine=engine) as pool:

        async def episode(number: int) -> None:
            async with pool.lease() as lease:
                result = await lease.cell.exec(Command(script=f"ls; echo {number} > n; sleep 99 & cat n"))
                outputs.append(result.stdout.text())

        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(episode, number)
        await pool.settle()
        found = pool.statistics()
    assert sorted(outputs) == [f"{number}\n" for number in range(8)]
    assert (found.leaks, found.replaced, found.created, found.verified) == ((), 0, 2, found.resets)


async def test_a_removed_container_is_replaced(engine: Engine, image: str) -> None:
    async with CellPool(CellSpec(image), 1, engine=engine) as pool:
        with pytest.raises(CellDied) as caught:
            await use_a_removed_cell(pool, engine)
        assert caught.value.cause is DeathCause.INFRASTRUCTURE
        async with pool.lease() as after:
            assert (await after.cell.exec(Command(argv=("/bin/true",)))).exit_code == 0


async def use_a_removed_cell(pool: CellPool, engine: Engine) -> None:
    async with pool.lease() as lease:
        await engine.remove(lease.cell.id)
        await lease.cell.exec(Command(argv=("/bin/true",)))


@pytest.mark.parametrize(("spec", "passes"), [(CHECKED, [1, 1]), (SPEC, [0, 0])], ids=["asked for", "not asked for"])
async def test_a_cell_gets_a_deep_pass_when_it_is_made(spec: CellSpec, passes: list[int]) -> None:
    backend = Backend()
    async with pool_of(2, backend, spec) as pool:
        assert [cell.deep_passes for cell in backend.cells] == passes
        assert pool.statistics().deep_checks == sum(passes)


async def test_after_a_leak_every_cell_gets_a_deep_pass_before_its_next_lease() -> None:
    backend = Backend()
    async with pool_of(3, backend, CHECKED) as pool:
        async with pool.lease() as leased, pool.lease() as leaking:
            fake_of(leaking).survivors.add("x")
            ready = next(cell for cell in backend.cells if cell not in (leased.cell, leaking.cell))
            pool.release(leaking)
            await pool.settle()
            assert (ready.deep_passes, fake_of(leased).deep_passes) == (2, 1)
        await pool.settle()
        assert fake_of(leased).deep_passes == 2


async def test_an_audit_looks_at_every_cell_and_replaces_a_changed_one() -> None:
    backend = Backend()
    async with pool_of(3, backend, CHECKED) as pool:
        backend.cells[1].image = "changed"
        await pool.audit()
        assert all(cell.deep_passes >= 2 for cell in backend.cells[:3])
        assert [leak.cell_id for leak in pool.statistics().leaks] == [backend.cells[1].id]
        assert not backend.cells[1].running


async def test_without_deep_checks_an_audit_does_nothing() -> None:
    backend = Backend()
    async with pool_of(1, backend) as pool:
        await pool.audit()
        assert (backend.cells[0].epoch, backend.cells[0].deep_passes) == (1, 0)
