"""Measure Wardian beside NitroBox, SWE-ReX and a container per episode, in one run: `python bench/rivals.py [--quick] [--out DIR]`.

Every contestant gets the same image, the same dirt and the same probe. Rounds take some of every measurement of each, one after another.
Prints a table and writes rivals.json. What a rival needs is made in a folder and in the engine, and removed at the end, also when this is
interrupted; a rival that cannot be had is named with the reason, and the rest is measured. Needs an engine, the agent image, and what
`beside/rooms.py` says.
"""

import argparse
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import anyio
import anyio.to_thread
from beside import leftovers, rooms
from beside.contestants import Contestant, RivalFailed, cells, containers, remote, whole_world

from wardian.envs.registry import load_world
from wardian.rollouts.bench.machine import describe, load
from wardian.rollouts.bench.samples import Samples, quantile
from wardian.rollouts.ground import Ground, open_ground
from wardian.sandbox.engine import Engine
from wardian.sandbox.images import require_agent_image

PLACES, SLOW_PLACES = 16, 4
"""At once. More than four containers make an engine slower, not faster."""
MOST_NAMED = 12


@dataclass(frozen=True, slots=True)
class Scale:
    rounds: int = 5
    resets: int = 9
    """Of each kind, per round; of containers, a third of it."""
    commands: int = 10


QUICK = Scale(rounds=1, resets=3, commands=3)


@dataclass(slots=True)
class Found:
    """What one contestant showed."""

    everyday: Samples = field(default_factory=Samples)
    vandal: Samples = field(default_factory=Samples)
    world: Samples = field(default_factory=Samples)
    """Cell and database together."""
    true: Samples = field(default_factory=Samples)
    per_s: list[float] = field(default_factory=list)
    virgins: list[leftovers.Census] = field(default_factory=list)
    """Sandboxes that were never used, and one that was reset and never used."""
    before: dict[str, str] = field(default_factory=dict)
    """What the probe saw of a vandal's episode when it was not reset yet: whether it can see at all."""
    leaks: list[dict[str, str]] = field(default_factory=list)
    """After each look at a reset: what is left of the episode before it."""

    def look(self, after: leftovers.Census) -> None:
        """Keep what a look at a reset sandbox found."""
        self.leaks.append(leftovers.left_over(self.virgins, after))

    def numbers(self) -> dict[str, Any]:
        samples = {"reset": self.everyday, "reset_after_vandal": self.vandal, "reset_with_database": self.world, "true": self.true}
        found: dict[str, Any] = {name: kept.numbers() for name, kept in samples.items() if kept.values}
        named = [{key: left[key] for key in sorted(left)[:MOST_NAMED]} for left in self.leaks if left]
        seen = dict(sorted(Counter(key.partition(":")[0] for key in self.before).items()))
        leaks = {"looked": len(self.leaks), "leaks": len(named), "left": named, "seen_before_a_reset": seen}
        return found | {"resets_per_s": quantile(self.per_s, 0.5), "leaks": leaks}


@dataclass(slots=True)
class Contest:
    scale: Scale
    ground: Ground
    contestants: list[Contestant]
    missing: dict[str, str]
    rng: Random = field(default_factory=lambda: Random(11))
    found: dict[str, Found] = field(default_factory=dict)

    async def run(self) -> None:
        """Look for leaks first, while every place is new; then measure in rounds."""
        for one in self.contestants.copy():
            self.found[one.name] = Found()
            await self._or_drop(one, self._leaks)
        for number in range(self.scale.rounds):
            say(f"round {number + 1} of {self.scale.rounds}")
            seed = self.rng.random()
            for one in self.contestants.copy():
                await self._or_drop(one, lambda one, seed=seed: self._round(one, Random(seed)))  # type: ignore[misc]
            await self._whole_worlds()

    async def _or_drop(self, one: Contestant, act: Callable[[Contestant], Awaitable[None]]) -> None:
        """A rival that fails is measured no further, and said to have failed."""
        try:
            await act(one)
        except (RivalFailed, ValueError) as error:
            say(f"{one.name} failed: {error}")
            self.missing[one.name] = str(error)
            self.contestants.remove(one)

    async def _leaks(self, one: Contestant) -> None:
        say(f"{one.name}: leaks")
        await one.reset([1])
        found = self.found[one.name]
        found.virgins = [await one.probe(place) for place in (0, 1, 2)]
        for last in leftovers.WRECKS:
            await one.dirty([(0, leftovers.wreck(last))])
            if not last:
                found.before = leftovers.left_over(found.virgins, await one.probe(0))
            await one.reset([0])
            found.look(await one.probe(0))

    async def _round(self, one: Contestant, rng: Random) -> None:
        found = self.found[one.name]
        slow = one.places < PLACES
        count = max(1, self.scale.resets // (3 if slow else 1))
        for samples, dirt in ((found.everyday, leftovers.everyday), (found.vandal, lambda: leftovers.vandal(rng))):
            for _ in range(count):
                await one.dirty([(0, dirt())])
                samples.add(await one.reset([0]))
        for _ in range(self.scale.commands):
            found.true.add(await one.true(0))
        places = range(one.places)
        await one.dirty([(place, leftovers.vandal(rng) if place % 2 else leftovers.everyday()) for place in places])
        found.per_s.append(1e3 * one.places / await one.reset(places))
        found.look(await one.probe(1))

    async def _whole_worlds(self) -> None:
        assert self.ground.cells is not None
        metadata = self.ground.world.template.metadata
        for _ in range(self.scale.resets):
            took = await whole_world(self.ground.cells, self.ground.template, metadata, leftovers.everyday())
            self.found["Wardian"].world.add(took)


async def until_signalled(scale: Scale) -> dict[str, Any] | None:
    """`measure`, or `None` after SIGINT or SIGTERM, with everything removed all the same."""
    found = None
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async for _ in signals:
                    say("interrupted: removing what was made")
                    group.cancel_scope.cancel()

        group.start_soon(watch)
        found = await measure(scale)
        group.cancel_scope.cancel()
    return found


async def measure(scale: Scale) -> dict[str, Any]:
    began = time.perf_counter()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wardian-rivals-")))
        engine = await Engine.open()
        stack.callback(engine.close)
        image = await anyio.to_thread.run_sync(require_agent_image)
        machine = await describe(engine)
        ground = await stack.enter_async_context(open_ground(load_world("billing"), cells=PLACES + 1))
        assert ground.cells is not None, "billing needs cells"
        contestants: list[Contestant] = [await stack.enter_async_context(cells(ground.cells, PLACES))]
        missing: dict[str, str] = {}
        for name, enter in (("NitroBox", _nitrobox), ("SWE-ReX", _swerex)):
            try:
                contestants += await enter(stack, folder, image)
            except RivalFailed as error:
                say(f"{name} is left out: {error}")
                missing[name] = str(error)
        contestants.append(await stack.enter_async_context(containers(engine, ground.cells, SLOW_PLACES)))
        await ground.cells.settle()
        contest = Contest(scale, ground, contestants, missing)
        await contest.run()
        return {
            "machine": machine | {"load_at_end": load()},
            "rounds": scale.rounds,
            "wall_s": round(time.perf_counter() - began, 1),
            "leaks_of_the_pool": len(ground.cells.statistics().leaks),
            "missing": missing,
            "contestants": {one.name: {"places": one.places, **one.about, **contest.found[one.name].numbers()} for one in contestants},
        }


async def _nitrobox(stack: AsyncExitStack, folder: Path, image: str) -> list[Contestant]:
    say("making a root for NitroBox")
    await anyio.to_thread.run_sync(rooms.nitrobox_root, folder, image)
    made: list[Contestant] = []
    for network, name in (("own", "NitroBox, network of its own"), ("shared", "NitroBox, shared network")):
        command = rooms.nitrobox_command(folder, image, network)
        made.append(await stack.enter_async_context(remote(name, command, folder, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, PLACES)))
    return made


async def _swerex(stack: AsyncExitStack, folder: Path, image: str) -> list[Contestant]:
    say("making an image for SWE-ReX")
    built = stack.enter_context(rooms.swerex_image(folder, image))
    command, environment = rooms.swerex_command(folder, built)
    return [await stack.enter_async_context(remote("SWE-ReX", command, folder, environment, SLOW_PLACES))]


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def table(found: dict[str, Any]) -> str:
    """For people: milliseconds as p50 (p95)."""
    rows = ["| | a clean start | after a vandal | with the database | clean starts /s (at once) | `true` | leaks |", "| --- " * 7 + "|"]
    for name, one in found["contestants"].items():
        cells_of = [_spread(one.get(key)) for key in ("reset", "reset_after_vandal", "reset_with_database")]
        rate = one["resets_per_s"]
        leaks = f"{one['leaks']['leaks']} of {one['leaks']['looked']}"
        per_s = "–" if rate is None else f"{rate:.1f} ({one['places']})"
        rows.append("| " + " | ".join([name, *cells_of, per_s, _spread(one.get("true")), leaks]) + " |")
    rows += [f"not measured: {name}: {why}" for name, why in found["missing"].items()]
    rows += [f"left in {name}: {left}" for name, one in found["contestants"].items() for left in one["leaks"]["left"]]
    return "\n".join(rows)


def _spread(numbers: dict[str, Any] | None) -> str:
    return f"{numbers['p50_ms']:.1f} ms ({numbers['p95_ms']:.1f})" if numbers else "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    parser.add_argument("--quick", action="store_true", help="one round, to see that it works; writes nothing")
    options = parser.parse_args()
    found = anyio.run(until_signalled, QUICK if options.quick else Scale())
    if found is None:
        sys.exit(130)
    print(table(found))
    if not options.quick:
        (options.out / "rivals.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
