"""Who is measured, and how each is asked for the same: dirt, a reset, `true`, and a look inside."""

import json
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from beside.leftovers import BEGAN, PROBE, Census, as_script, read
from sqlalchemy import MetaData

from wardian.rollouts.bench import episodes
from wardian.rollouts.bench.containers import docker_exec, plain_config
from wardian.rollouts.bench.episodes import Episode
from wardian.rollouts.bench.resets import Place
from wardian.sandbox.cell import Command
from wardian.sandbox.database.base import Template
from wardian.sandbox.engine import Engine
from wardian.sandbox.lease import Lease
from wardian.sandbox.pool import CellPool

Job: TypeAlias = tuple[int, Episode]
"""A place, counted from 0, and what happens in it."""
MOST_OUTPUT = 8 << 20


class Contestant(ABC):
    """Some sandboxes of one kind, each called a place."""

    def __init__(self, name: str, places: int) -> None:
        self.name, self.places = name, places
        self.about: dict[str, Any] = {}
        """Versions and the like."""

    @abstractmethod
    async def dirty(self, jobs: Sequence[Job]) -> None:
        """Let episodes happen, all at once."""

    @abstractmethod
    async def reset(self, places: Sequence[int]) -> float:
        """Make places new, all at once; milliseconds until the last one takes commands."""

    @abstractmethod
    async def true(self, place: int) -> float:
        """Milliseconds that the command `true` takes."""

    @abstractmethod
    async def probe(self, place: int) -> Census:
        """What is in there."""


class Here(Contestant):
    """One that this process asks itself; each place by itself, many of them at once."""

    @abstractmethod
    async def _live(self, place: int, episode: Episode) -> None: ...

    @abstractmethod
    async def _reset(self, place: int) -> None: ...

    @abstractmethod
    async def _true(self, place: int) -> None: ...

    async def dirty(self, jobs: Sequence[Job]) -> None:
        async with anyio.create_task_group() as group:
            for place, episode in jobs:
                group.start_soon(self._live, place, episode)

    async def reset(self, places: Sequence[int]) -> float:
        began = time.perf_counter()
        async with anyio.create_task_group() as group:
            for place in places:
                group.start_soon(self._reset, place)
        return (time.perf_counter() - began) * 1e3

    async def true(self, place: int) -> float:
        began = time.perf_counter()
        await self._true(place)
        return (time.perf_counter() - began) * 1e3


class Cells(Here):
    """Cells of a pool; a place's lease is given back and taken again. Only files and processes."""

    def __init__(self, name: str, pool: CellPool, places: int, running: TaskGroup) -> None:
        super().__init__(name, places)
        self._pool, self._running = pool, running
        self._scopes: dict[int, tuple[anyio.CancelScope, anyio.Event]] = {}
        self.leases: list[Lease] = []

    async def take(self) -> None:
        """Lease all places."""
        for _ in range(self.places):
            self.leases.append(await self._pool.acquire())

    async def _live(self, place: int, episode: Episode) -> None:
        """What goes on running does so until the reset has begun."""
        scope, over, started = anyio.CancelScope(), anyio.Event(), anyio.Event()
        self._scopes[place] = (scope, over)

        async def lasting() -> None:
            with scope:
                async with anyio.create_task_group() as lasting:
                    await episodes.live(episode, self.leases[place].cell, None, MetaData(), lasting)
                    started.set()
            started.set()
            over.set()

        self._running.start_soon(lasting)
        await started.wait()

    async def _reset(self, place: int) -> None:
        if place in self._scopes:
            scope, over = self._scopes.pop(place)
            scope.cancel()
            await over.wait()
        lease = self.leases[place]
        self._pool.release(lease)
        self.leases[place] = await self._pool.acquire(lease.cell.agent_uid)

    async def _true(self, place: int) -> None:
        await self.leases[place].cell.exec(Command(argv=("true",)))

    async def probe(self, place: int) -> Census:
        command = Command(argv=("python3", "-I", "-B", "-c", PROBE, BEGAN), output_cap_bytes=MOST_OUTPUT)
        found = await self.leases[place].cell.exec(command)
        return read(found.stdout.data.decode() or found.stderr.text())

    def leave(self) -> None:
        """Give all back."""
        for scope, _ in self._scopes.values():
            scope.cancel()
        for lease in self.leases:
            self._pool.release(lease)


class Containers(Here):
    """A container per episode: the old one is removed, the next one created and started."""

    def __init__(self, name: str, engine: Engine, options: dict[str, Any], places: int) -> None:
        super().__init__(name, places)
        self._engine, self._options = engine, options
        self.ids: list[str] = []

    async def take(self) -> None:
        """Start all places."""
        for _ in range(self.places):
            self.ids.append(await self._made())

    async def _made(self) -> str:
        made = await self._engine.create(self._options)
        await self._engine.start(made)
        return made

    async def _live(self, place: int, episode: Episode) -> None:
        for script in as_script(episode):
            await self._exec(place, ["bash", "-c", script])

    async def _exec(self, place: int, command: list[str]) -> str:
        def call(api: Any) -> bytes:
            return bytes(api.exec_start(api.exec_create(self.ids[place], command)["Id"]))

        return (await self._engine.run("exec", call)).decode(errors="replace")

    async def _reset(self, place: int) -> None:
        await self._engine.discard(self.ids[place])
        self.ids[place] = await self._made()

    async def _true(self, place: int) -> None:
        await docker_exec(self._engine, self.ids[place])

    async def probe(self, place: int) -> Census:
        return read(await self._exec(place, ["python3", "-I", "-B", "-c", PROBE, BEGAN]))

    async def leave(self) -> None:
        """Remove all."""
        for made in self.ids:
            await self._engine.discard(made)


class Remote(Contestant):
    """A package in an interpreter of its own, which `agent.py` serves."""

    def __init__(self, name: str, process: "subprocess.Popen[str]", places: int) -> None:
        super().__init__(name, places)
        self._process = process

    async def take(self) -> None:
        """Make all places.

        Raises:
            RivalFailed: it cannot.
        """
        self.about = await self._ask("open", places=self.places)

    async def _ask(self, operation: str, **arguments: Any) -> dict[str, Any]:
        answer: dict[str, Any] = await anyio.to_thread.run_sync(self._asked, {"op": operation, **arguments}, abandon_on_cancel=True)
        if "error" in answer:
            raise RivalFailed(f"{self.name}: {operation}: {answer['error']}")
        return answer

    def _asked(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError as error:
            line = ""
            problem = str(error)
        else:
            problem = "its output ended"
        return json.loads(line) if line else {"error": problem}

    async def dirty(self, jobs: Sequence[Job]) -> None:
        await self._ask("run", jobs=[[place, as_script(episode)] for place, episode in jobs])

    async def reset(self, places: Sequence[int]) -> float:
        return float((await self._ask("reset", places=list(places)))["ms"])

    async def true(self, place: int) -> float:
        return float((await self._ask("true", place=place))["ms"])

    async def probe(self, place: int) -> Census:
        command = f"python3 -I -B - {BEGAN} <<'END-OF-PROBE'\n{PROBE}\nEND-OF-PROBE"
        return read((await self._ask("run", jobs=[[place, [command]]]))["outputs"][0])


class RivalFailed(Exception):
    """A rival cannot be had, or did not do what it was asked for; the message says which and why."""


@asynccontextmanager
async def cells(pool: CellPool, places: int) -> AsyncIterator[Cells]:
    async with anyio.create_task_group() as running:
        made = Cells("Wardian", pool, places, running)
        try:
            await made.take()
            yield made
        finally:
            made.leave()
            running.cancel_scope.cancel()


@asynccontextmanager
async def containers(engine: Engine, pool: CellPool, places: int) -> AsyncIterator[Containers]:
    made = Containers("a container per episode", engine, plain_config(pool.spec), places)
    try:
        await made.take()
        yield made
    finally:
        with anyio.CancelScope(shield=True):
            await made.leave()


@asynccontextmanager
async def remote(name: str, command: Sequence[str], folder: Path, environment: dict[str, str], places: int) -> AsyncIterator[Remote]:
    """Start an agent, which ends with its input; what it says on stderr goes into a file of `folder`.

    Raises:
        RivalFailed: it could not make its places; the message ends with its last words.
    """
    log = folder / f"{name.replace(' ', '-')}.log"
    process = _started(command, log, environment)
    try:
        made = Remote(name, process, places)
        try:
            await made.take()
        except RivalFailed as error:
            raise RivalFailed(f"{error}; {log.read_text()[-500:]}") from error
        yield made
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(_ended, process)


def _started(command: Sequence[str], log: Path, environment: dict[str, str]) -> "subprocess.Popen[str]":
    """In a session of its own: an interrupt is ours to hear, and the agent ends when its input does."""
    with log.open("w") as errors:
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment, start_new_session=True
        )


def _ended(process: "subprocess.Popen[str]") -> None:
    """Let it remove what it made; who does not is killed, with the namespaces that it lives in."""
    assert process.stdin is not None
    try:
        process.stdin.close()
        process.wait(60)
    except (OSError, subprocess.TimeoutExpired):
        process.kill()
        process.wait()


async def whole_world(pool: CellPool, template: Template, metadata: MetaData, episode: Episode) -> float:
    """A reset of cell and database together, in milliseconds."""
    place = await Place.take(pool, template)
    try:
        async with anyio.create_task_group() as running:
            await place.live(episode, metadata, running)
            began = time.perf_counter()
            running.cancel_scope.cancel()
        await place.reset()
        took = (time.perf_counter() - began) * 1e3
        if place.leaks:
            raise RivalFailed("Wardian: a world was not as it was sealed")
        return took
    finally:
        place.leave()
