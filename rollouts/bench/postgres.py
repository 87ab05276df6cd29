"""Worlds on Postgres: resets with and without a spare, how many per second and what they cost, sizes, and the usual ways beside them.

Each part is a method of `PostgresBench` that takes some samples of its own, and stands in `PARTS`; every round runs all of them.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import anyio
import anyio.to_thread

from wardian.envs.registry import cell_spec, load_world
from wardian.rollouts.bench import episodes
from wardian.rollouts.bench.machine import describe, load
from wardian.rollouts.bench.resets import Place, places
from wardian.rollouts.bench.samples import Numbers, Rate, Samples
from wardian.rollouts.bench.targets import Target
from wardian.rollouts.bench.ways import UsualWays
from wardian.rollouts.bench.worlds import sized_source
from wardian.sandbox.cell import Tier
from wardian.sandbox.database.base import TemplateSource
from wardian.sandbox.database.postgres.managed import Served, managed_server, room_mib
from wardian.sandbox.database.postgres.server import Server
from wardian.sandbox.database.postgres.template import PostgresTemplate
from wardian.sandbox.engine import Engine
from wardian.sandbox.images import ensure_postgres_image, require_agent_image
from wardian.sandbox.pool import CellPool
from wardian.sandbox.probe import probe

CELLS = 8
POLL_S = 0.002
TARGETS = (
    Target("leaks", "", 0, lambda n: n["leaks"]),
    Target("verified reset, 8 cells, a spare ready, p50", "ms", 8, lambda n: n["reset"]["spare ready"]["p50_ms"]),
    Target("verified reset, 8 cells, no spare ready, p50", "ms", 60, lambda n: n["reset"]["no spare"]["p50_ms"]),
    Target("the same, all 8 begun at once, p50", "ms", 60, lambda n: n["reset"]["no spare, 8 at once"]["p50_ms"]),
)


@dataclass(frozen=True, slots=True)
class PostgresScale:
    rounds: int
    sizes_mb: tuple[int, ...] = (20, 200)
    sustained_s: float = 3.0
    """Per round."""
    large_rounds: int = 2
    """Of the usual ways, for sizes above 100 MB."""


FULL = PostgresScale(rounds=6)
QUICK = PostgresScale(rounds=1, sizes_mb=(2,), sustained_s=0.5)


@dataclass(slots=True)
class PostgresBench:
    pool: CellPool
    engine: Engine
    served: Served
    server: Server
    scale: PostgresScale
    source: TemplateSource
    spared: PostgresTemplate
    """With a spare for each cell."""
    bare: PostgresTemplate
    """The same without spares."""
    sized: dict[str, PostgresTemplate]
    ways: dict[str, UsualWays]
    leaks: int = 0
    resets: dict[str, Samples] = field(default_factory=dict)
    sustained: Rate = field(default_factory=Rate)
    server_cpu_ms: list[float] = field(default_factory=list)
    own_cpu_ms: list[float] = field(default_factory=list)
    clones: dict[str, Samples] = field(default_factory=dict)

    async def reset(self) -> None:
        """Resets after ordinary episodes, in turn over all cells, with all spares ready and without any; and all cells at once without."""
        for name, template in (("spare ready", self.spared), ("no spare", self.bare)):
            await self._in_turn(template, self.resets.setdefault(name, Samples()))
        at_once = self.resets.setdefault("no spare, 8 at once", Samples())
        async with places(self.pool, self.bare, CELLS) as held:
            await self._settle()
            async with anyio.create_task_group() as group:
                for place in held:
                    group.start_soon(_timed, at_once, place.reset)
            self.leaks += sum(place.leaks for place in held)

    async def _in_turn(self, template: PostgresTemplate, samples: Samples) -> None:
        """An episode and a reset in each of the cells, which all stand; each reset when nothing is left to do."""
        async with places(self.pool, template, CELLS) as held:
            for place in held:
                async with anyio.create_task_group() as running:
                    await place.live(episodes.ordinary(), self.source.metadata, running)
                    running.cancel_scope.cancel()
                await self._settle()
                with samples.timed():
                    await place.reset()
            self.leaks += sum(place.leaks for place in held)

    async def sustain(self) -> None:
        """All cells reset and write, again and again: how many per second, and the processor time of each, here and in the server."""
        done, until = [0], time.perf_counter() + self.scale.sustained_s
        async with places(self.pool, self.spared, CELLS) as held:
            before, own, began = await self._server_cpu_s(), time.process_time(), time.perf_counter()

            async def go_on(place: Place) -> None:
                while not done[0] or time.perf_counter() < until:
                    assert place.world.database is not None
                    episodes.change_rows(place.world.database, self.source.metadata, episodes.ROWS)
                    await place.reset()
                    done[0] += 1

            async with anyio.create_task_group() as group:
                for place in held:
                    group.start_soon(go_on, place)
            self.sustained.values.append(done[0] / (time.perf_counter() - began))
            self.sustained.done += done[0]
            self.own_cpu_ms.append(1e3 * (time.process_time() - own) / done[0])
            self.server_cpu_ms.append(1e3 * (await self._server_cpu_s() - before) / done[0])
            self.leaks += sum(place.leaks for place in held)

    async def sizes(self) -> None:
        """Clones of larger templates, and their first write: with a spare, and made at once."""
        for name, template in self.sized.items():
            for kind, make in (("spare ready", template.clone), ("no spare", template.clone_at_once)):
                await self._settle()
                with self.clones.setdefault(f"{name}, {kind}", Samples()).timed():
                    clone = await anyio.to_thread.run_sync(make)
                self.leaks += clone.fingerprint() != template.fingerprint
                await anyio.to_thread.run_sync(clone.close)

    async def usual(self) -> None:
        """What others do for each episode."""
        await self._settle()
        for ways in self.ways.values():
            await anyio.to_thread.run_sync(ways.round)

    async def _settle(self) -> None:
        """Wait until nothing is done in the background: what one sample left behind would be counted to the next one."""
        while not all(one.settled for one in (self.spared, self.bare, *self.sized.values())):  # noqa: ASYNC110 - measured is what comes after
            await anyio.sleep(POLL_S)

    async def _server_cpu_s(self) -> float:
        found = await self.engine.run("stats", lambda api: api.stats(self.served.container, stream=False, one_shot=True))
        return float(found["cpu_stats"]["cpu_usage"]["total_usage"]) / 1e9

    def numbers(self) -> Numbers:
        """By part."""
        return {
            "leaks": self.leaks + len(self.pool.statistics().leaks),
            "reset": {name: one.numbers() for name, one in self.resets.items()},
            "sustained": {
                **self.sustained.numbers(),
                "server_cpu_ms_per_reset": round(sorted(self.server_cpu_ms)[len(self.server_cpu_ms) // 2], 1),
                "own_cpu_ms_per_reset": round(sorted(self.own_cpu_ms)[len(self.own_cpu_ms) // 2], 1),
            },
            "clone": {name: one.numbers() for name, one in self.clones.items()},
            "template_mb": {name: round(one.size_bytes / 1e6, 1) for name, one in {self.source.name: self.spared, **self.sized}.items()},
            "usual": {f"{name}, {way}": one.numbers() for name, ways in self.ways.items() for way, one in ways.samples.items()},
        }


PARTS: tuple[Callable[[PostgresBench], Awaitable[None]], ...] = (
    PostgresBench.reset,
    PostgresBench.sustain,
    PostgresBench.sizes,
    PostgresBench.usual,
)


async def measure_postgres(scale: PostgresScale, note: Callable[[str], None] = lambda line: None) -> Numbers:
    """Measure at `scale`, on a managed server. All that it makes is gone when it returns or is cancelled.

    Raises:
        SandboxError: the engine, the cells, the server or a template cannot be had.
    """
    began = time.perf_counter()
    engine = await Engine.open()
    try:
        machine = await describe(engine)
        async with _standing(engine, scale, note) as bench:
            for number in range(scale.rounds):
                note(f"round {number + 1} of {scale.rounds}")
                for part in PARTS:
                    await part(bench)
            found = bench.numbers()
    finally:
        engine.close()
    return {
        "machine": machine | {"load_at_end": load()},
        "rounds": scale.rounds,
        "wall_s": round(time.perf_counter() - began, 1),
        **found,
        "targets": [target.judge(found) for target in TARGETS],
    }


@asynccontextmanager
async def _standing(engine: Engine, scale: PostgresScale, note: Callable[[str], None]) -> AsyncIterator[PostgresBench]:
    note("starting cells and a server")
    world = load_world("billing")
    tier = (await probe(engine, await anyio.to_thread.run_sync(require_agent_image))).tier or Tier.CHAMBER
    spec = await anyio.to_thread.run_sync(cell_spec, world, tier)
    data_mib = room_mib(int((await engine.info()).get("MemTotal", 0)) >> 20)
    image = await anyio.to_thread.run_sync(ensure_postgres_image)
    async with managed_server(engine, image, data_mib=data_mib) as served, CellPool(spec, CELLS, engine=engine) as pool:
        server = await anyio.to_thread.run_sync(partial(Server.open, served.url, data_mib << 20))
        note("building templates")
        sources = {f"{size} MB": sized_source(size) for size in scale.sizes_mb}
        spared, bare = [await anyio.to_thread.run_sync(PostgresTemplate.build, world.template, server, count) for count in (CELLS, 0)]
        sized = {name: await anyio.to_thread.run_sync(PostgresTemplate.build, one, server, 1) for name, one in sources.items()}
        ways = {
            name: await anyio.to_thread.run_sync(UsualWays.prepare, one, server, served.container, scale.large_rounds)
            for name, one in {world.name: world.template, **sources}.items()
        }
        try:
            yield PostgresBench(pool, engine, served, server, scale, world.template, spared, bare, sized, ways)
        finally:
            with anyio.CancelScope(shield=True):
                for template in (spared, bare, *sized.values()):
                    await anyio.to_thread.run_sync(template.close)
                await anyio.to_thread.run_sync(server.close)


async def _timed(samples: Samples, act: Callable[[], Awaitable[None]]) -> None:
    with samples.timed():
        await act()
