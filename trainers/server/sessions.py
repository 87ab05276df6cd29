"""All leases of a server: making them, finding them, ending those that lapse, and no more than there may be."""

import logging
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio

from wardian.tools.contract import Json
from wardian.trainers.server.log import ServerLog
from wardian.trainers.server.problems import Code, Problem, no_session, problem_of
from wardian.trainers.server.session import Session, Shared
from wardian.trainers.server.wire import Group, Lease, Reset
from wardian.trainers.server.worlds import ServedWorld

_log = logging.getLogger(__name__)
SWEEP_S = 0.5


@dataclass(slots=True)
class Sessions:
    worlds: dict[str, ServedWorld]
    """By name; the first one is what callers get who name none."""
    logs: dict[str, ServerLog]
    shared: Shared
    draining: bool = False
    _open: dict[str, Session] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._open)

    def world(self, name: str | None) -> ServedWorld:
        """The world of that name.

        Raises:
            Problem: it is not served.
        """
        if name is None:
            return next(iter(self.worlds.values()))
        if name not in self.worlds:
            raise Problem(Code.VALIDATION_ERROR, f"world: no {name!r} is served; there are {', '.join(self.worlds)}", status=404)
        return self.worlds[name]

    def find(self, name: str) -> Session:
        """The open lease of that name.

        Raises:
            Problem: there is none.
        """
        if name not in self._open:
            raise no_session(name)
        return self._open[name]

    def lease(self, ask: Lease) -> tuple[Session, bool]:
        """Make a lease, or give the one that has that name already; and whether it is new.

        Raises:
            Problem: there is no room, the server drains, or the name is one of another world's.
        """
        world = self.world(ask.world)
        if ask.session_id is not None and (found := self._open.get(ask.session_id)) is not None:
            if ask.world is not None and found.world is not world:
                raise Problem(Code.VALIDATION_ERROR, f"session_id: {ask.session_id} is a lease of the world {found.world.name}", status=409)
            found.touch()
            return found, False
        self._must_have_room(1)
        limits = self.shared.limits
        session = Session(
            ask.session_id or f"s-{secrets.token_hex(12)}",
            world,
            self.logs[world.name],
            self.shared,
            ask.policy_version,
            min(ask.ttl_s or limits.ttl_s, limits.lifetime_s),
        )
        self._open[session.name] = session
        self.shared.counters.opened(world.name)
        return session, True

    async def close(self, name: str, why: str = "caller") -> bool:
        """End the lease of that name; whether there was one. Idempotent."""
        session = self._open.get(name)
        return session is not None and await self.end_lease(session, why)

    async def end_lease(self, session: Session, why: str) -> bool:
        """End this lease, and not another one that has its name by now; whether it was still open. Idempotent."""
        if self._open.get(session.name) is session:
            del self._open[session.name]
        return await session.close(why)

    async def group(self, ask: Group) -> list[tuple[Session, dict[str, Json]]]:
        """Make `size` leases and reset them all to one task; all of them, or none.

        Raises:
            Problem: there is no room, or a reset could not be done.
        """
        world = self.world(ask.world)
        self._must_fit(ask.size, world, "size")
        self._must_have_room(ask.size)
        task_id, seed = world.chosen(ask)
        only = Reset(task_id=task_id, seed=seed, policy_version=ask.policy_version, injected_state=ask.injected_state)
        made = self._named(ask.size, world, ask.prefix or f"g-{secrets.token_hex(8)}", ask.policy_version or "")
        replies: list[dict[str, Json] | Exception] = [{}] * ask.size

        async def begin(number: int) -> None:
            try:
                replies[number] = await made[number].answer("reset", "", lambda: made[number].reset(only))
            except Exception as error:  # noqa: BLE001 - raised below, when all have ended
                replies[number] = error

        try:
            async with anyio.create_task_group() as group:
                for number in range(ask.size):
                    group.start_soon(begin, number)
            for reply in replies:
                if isinstance(reply, Exception):
                    raise problem_of(reply)
        except BaseException:
            await self.close_all(made, "group")
            raise
        return [(session, reply) for session, reply in zip(made, replies, strict=True) if isinstance(reply, dict)]

    async def fork(self, session: Session, count: int, prefix: str | None) -> list[Session]:
        """Make `count` leases whose episodes go on as that of `session`.

        Raises:
            Problem, NotReset, SandboxError: as `Session.fork`.
        """
        world = session.world
        self._must_fit(count + 1, world, "count")
        self._must_have_room(count)
        made: list[Session] = []

        def into(number: int) -> list[Session]:
            made.extend(self._named(number, world, prefix or f"{session.name}.{secrets.token_hex(4)}", session.policy_version))
            return made

        try:
            return await session.fork(count, into)
        except BaseException:
            await self.close_all(made, "fork")
            raise

    async def sweep(self) -> None:
        """End leases that lapse, for ever."""
        while True:
            began = time.monotonic()
            await anyio.sleep(SWEEP_S)
            # An agent's query or a tool may have held up the event loop: signs of life that came meanwhile are still unread.
            unheard_s = max(0.0, time.monotonic() - began - SWEEP_S)
            for session in list(self._open.values()):
                session.forgive(unheard_s)
                if why := session.lapsed():
                    _log.warning("lease %s of %s lapsed: %s", session.name, session.world.name, why)
                    self.shared.tasks.start_soon(self.end_lease, session, why)
            for name, log in self.logs.items():
                try:
                    await log.sync()
                except OSError:
                    _log.exception("trajectories of %s cannot be brought onto the disk", name)

    async def drain(self) -> None:
        """Make no more leases, give those that there are their time, and end what is left."""
        self.draining = True
        left = f"they have {self.shared.limits.drain_s:g} s; a second signal ends them at once"
        _log.info("draining: leases that are open: %d; %s", len(self), left)
        with anyio.move_on_after(self.shared.limits.drain_s):
            while self._open:  # noqa: ASYNC110 - leases end in many ways
                await anyio.sleep(0.05)
        await self.end("drain")

    async def end(self, why: str) -> None:
        """End all leases."""
        self.draining = True
        with anyio.CancelScope(shield=True):
            await self.close_all(list(self._open.values()), why)

    def counted(self) -> dict[str, Json]:
        """The counters, with what stands at this moment."""
        self.gauge()
        limits, shelf = self.shared.limits, self.shared.shelf
        capacity = {"sessions": limits.sessions, "open": len(self), "cells": {name: _cells(one) for name, one in self.worlds.items()}}
        kept = {"count": len(shelf), "bytes": shelf.size_bytes}
        return {**self.shared.counters.plain(), "capacity": capacity, "snapshots": kept, "draining": self.draining}

    def gauge(self) -> None:
        """Bring the gauges of the cells up to date."""
        for name, world in self.worlds.items():
            if world.ground.cells is not None:
                found = world.ground.cells.statistics()
                self.shared.counters.cells(name, found.ready, found.leased, len(found.leaks))

    def _named(self, count: int, world: ServedWorld, prefix: str, version: str) -> list[Session]:
        names = [f"{prefix}-{number}" for number in range(count)]
        if taken := [name for name in names if name in self._open]:
            raise Problem(Code.VALIDATION_ERROR, f"prefix: there is a lease {taken[0]} already; give another prefix", status=409)
        return [self.lease(Lease(session_id=name, world=world.name, policy_version=version))[0] for name in names]

    async def close_all(self, sessions: Sequence[Session], why: str) -> None:
        """End these leases."""
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as group:
                for session in sessions:
                    group.start_soon(self.end_lease, session, why)

    def _must_have_room(self, count: int) -> None:
        limits = self.shared.limits
        if self.draining:
            raise Problem(Code.DRAINING, "this server is going away and makes no more leases", retry_after_s=limits.drain_s)
        if count > limits.sessions:
            most = f"this server has {limits.sessions}; start it with --sessions {count} or more"
            raise Problem(Code.VALIDATION_ERROR, f"{count} leases at once cannot be had; {most}")
        if len(self._open) + count > limits.sessions:
            raise Problem(
                Code.CAPACITY_REACHED,
                f"{len(self._open)} of {limits.sessions} leases are open, and {count} more are asked for; close some, or ask again",
                retry_after_s=1.0,
                active_sessions=len(self._open),
                max_sessions=limits.sessions,
            )

    def _must_fit(self, count: int, world: ServedWorld, field_: str) -> None:
        cells, most = _cells(world), self.shared.limits.group
        if count > most or (cells is not None and count > cells):
            few = f"cells of {world.name}: {cells}; start the server with --cells {count} or more, or ask for fewer"
            there = few if cells is not None and count > cells and count <= most else f"{most} is the most"
            raise Problem(Code.VALIDATION_ERROR, f"{field_}: {count} episodes at once cannot be had; {there}")


def _cells(world: ServedWorld) -> int | None:
    return world.ground.cells.size if world.ground.cells is not None else None
