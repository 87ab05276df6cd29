"""Measure snapshot, restore and fork of billing episodes: `python bench/snapshots.py [sqlite|postgres] [rounds]`.

Each round resets an episode, plays nine calls of an ordinary one under the profile `harsh` (some twenty changed rows, and files by a
shell), then takes a snapshot, goes on from it in the same environment, once when nothing is left to do in the background and then again
at once, and forks it eight times into cells that are ready. Prints p50 and p95 in milliseconds, of each part too. Needs an engine; for
Postgres its extra.
"""

import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable
from typing import TypeVar

import anyio

from wardian.envs.action import call
from wardian.envs.environment import ToolEnvironment
from wardian.envs.registry import cell_spec, load_world, profile
from wardian.sandbox.database.base import Template
from wardian.sandbox.database.choice import DatabaseChoice, DatabaseEngine, open_template
from wardian.sandbox.pool import CellPool

T = TypeVar("T")
FORKS = 8
TASK = "billing-dispute/easy/seed-1"
FILES = "mkdir -p notes/a; for i in $(seq 75); do echo note $i > notes/a/$i; done"


async def play(env: ToolEnvironment, seed: int) -> None:
    """Nine calls of an ordinary episode."""
    first = await env.reset(TASK, seed=seed)
    ticket = int(first.rendered.split("ticket ")[1].split()[0].strip(".,:"))
    await env.step(call("shell", command=FILES))
    for number in range(4):
        await env.step(call("reply_to_ticket", ticket_id=ticket, body=f"We look into it, {number}."))
        await env.step(call("list_messages", ticket_id=ticket))


async def measure(engine: DatabaseEngine, rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = defaultdict(list)
    world = load_world("billing")
    async with (
        open_template(world.template, DatabaseChoice(engine), spares=FORKS + 1) as template,
        CellPool(cell_spec(world), size=FORKS + 1) as cells,
        ToolEnvironment(world, template=template, cells=cells, faults=profile("harsh")) as env,
    ):
        for seed in range(rounds):
            await play(env, seed)
            await settled(template, cells)
            snapshot = await timed(times, "snapshot", env.snapshot())
            await timed(times, "restore", env.restore(snapshot))
            await timed(times, "restore again at once", env.restore(snapshot))
            await settled(template, cells)
            forks = await timed(times, f"fork of {FORKS}", env.fork(FORKS))
            for one in forks:
                await one.close()
            await timed(times, "reset beside it", env.reset(TASK, seed=seed))
            times["bytes held"].append(snapshot.held_bytes)
            times["changed rows"].append(len(snapshot.rows))
            times["older copies"].append(len(snapshot.copy_steps))
    return times


async def settled(template: Template, cells: CellPool) -> None:
    """Wait until cells and spares are ready, and used clones dropped: what one sample leaves behind is not the next one's."""
    await cells.settle()
    while not template.settled:  # noqa: ASYNC110 - measured is what comes after
        await anyio.sleep(0.002)


async def timed(times: dict[str, list[float]], name: str, act: Awaitable[T]) -> T:
    started = time.perf_counter()
    found = await act
    times[name].append(1000 * (time.perf_counter() - started))
    return found


def main() -> None:
    engine = DatabaseEngine(sys.argv[1] if len(sys.argv) > 1 else "sqlite")
    times = anyio.run(measure, engine, int(sys.argv[2]) if len(sys.argv) > 2 else 40)
    for name, found in times.items():
        ordered = sorted(found)
        p95 = ordered[int(0.95 * (len(ordered) - 1))]
        print(f"{engine.value} {name}: p10 {ordered[len(ordered) // 10]:.1f}, p50 {statistics.median(ordered):.1f}, p95 {p95:.1f}")


if __name__ == "__main__":
    main()
