"""Reap removes what nobody owns any more, and nothing else."""

import os
import resource
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import anyio
import pytest
from docker import APIClient
from typer.testing import CliRunner

from wardian.cli import build_app
from wardian.sandbox import labels as owners
from wardian.sandbox.engine import Engine
from wardian.sandbox.labels import BOOT, CREATED, PID, STARTED, age_s, is_ours, labels_for, owner_is_alive
from wardian.sandbox.reap import is_orphan, reap

pytestmark = pytest.mark.anyio


def orphaned() -> dict[str, str]:
    """Labels of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return {**labels_for("cell"), PID: str(ended.pid), STARTED: "1"}


def elsewhere(age_s: float) -> dict[str, str]:
    labels = labels_for("cell")
    return {**labels, BOOT: "another boot", CREATED: str(float(labels[CREATED]) - age_s)}


@asynccontextmanager
async def container(engine: Engine, image: str, labels: dict[str, str]) -> AsyncIterator[str]:
    """A container that was made and never started: the engine does not remove such a one by itself."""
    made = await engine.create({"Image": image, "Labels": labels}, f"wardian-test-{secrets.token_hex(6)}")
    try:
        yield made
    finally:
        await engine.remove(made)


async def exists(engine: Engine, container_id: str) -> bool:
    return bool(await engine.inspect(container_id))


def test_this_process_is_alive_and_owns_what_it_labels() -> None:
    labels = labels_for("cell")
    assert owner_is_alive(labels)
    assert is_ours(labels)
    assert age_s(labels) < 60
    assert not is_orphan(labels, older_than_s=0)


def test_a_recycled_pid_is_not_the_owner() -> None:
    assert not owner_is_alive({**labels_for("cell"), STARTED: "1"})


def test_a_dead_owner_that_nobody_waited_for_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    with open(f"/proc/{child.pid}/stat") as stat:
        started = stat.read().rpartition(")")[2].split()[19]
    labels = {**labels_for("cell"), PID: str(child.pid), STARTED: started}
    assert owner_is_alive(labels)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not owner_is_alive(labels)
    child.wait()


def test_an_owner_that_cannot_be_looked_up_is_not_taken_for_dead() -> None:
    labels = labels_for("cell")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            owners._start_ticks(int(labels[PID]))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_where_a_system_shows_no_processes_no_owner_counts_as_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners, "_boot_id", lambda: owners.UNKNOWN)  # as on macOS
    made = labels_for("cell") | {STARTED: ""}
    assert owner_is_alive(made)
    assert not is_orphan(made)


def test_everything_goes_only_when_somebody_says_so() -> None:
    answered = CliRunner().invoke(build_app(), ["reap", "--everything"])
    assert (answered.exit_code, "add --yes, or --dry-run" in answered.stderr) == (2, True), answered.output


def test_an_owner_elsewhere_is_judged_by_age_and_only_when_asked() -> None:
    old = elsewhere(age_s=1000)
    assert (is_orphan(old), is_orphan(old, older_than_s=2000), is_orphan(old, older_than_s=500)) == (False, False, True)


async def test_only_orphans_go(engine: Engine, image: str) -> None:
    """Whatever starts on this host reaps too, other tests beside this one among it: where one was faster, this is tried again."""
    foreign = {"com.example.run": "x"}
    for _ in range(10):
        async with AsyncExitStack() as stack:
            several = (orphaned(), labels_for("cell"), foreign, elsewhere(1000))
            made = [await stack.enter_async_context(container(engine, image, labels)) for labels in several]
            would = await reap(engine, dry_run=True)
            still = await exists(engine, made[0])
            report = await reap(engine)
            left = [await exists(engine, one) for one in made]
        assert left == [False, True, True, True]
        assert len(report.kept) >= 2
        assert report.problems == ()
        if still and would.removed and report.removed:
            break
    assert (still, len(would.removed), len(report.removed)) == (True, 1, 1)


async def test_two_reapers_at_once_agree(engine: Engine, image: str) -> None:
    async with container(engine, image, orphaned()) as first, container(engine, image, orphaned()) as second:
        async with anyio.create_task_group() as both:
            both.start_soon(reap, engine)
            both.start_soon(reap, engine)
        assert not await exists(engine, first)
        assert not await exists(engine, second)


async def test_networks_and_volumes_go_as_well(engine: Engine) -> None:
    removed = 0
    for _ in range(10):  # as above
        labels, name = orphaned(), f"wardian-test-{secrets.token_hex(6)}"
        await engine.run("create volume", partial(APIClient.create_volume, name=name, labels=labels))
        await engine.run("create network", partial(APIClient.create_network, name=name, labels=labels, internal=True))
        report = await reap(engine)
        removed = sum(name in line for line in report.removed)
        if removed == 2:
            break
    assert removed == 2


async def test_a_killed_owners_cell_is_gone(engine: Engine, image: str) -> None:
    code = """
import os, signal, sys, anyio
from wardian.sandbox.cell import CellSpec
from wardian.sandbox.pool import CellPool
async def main():
    async with CellPool(CellSpec(sys.argv[1]), 1) as pool, pool.lease() as lease:
        print(lease.cell.id, flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""
    async with await anyio.open_process([sys.executable, "-c", code, image]) as owner:
        assert owner.stdout is not None
        cell = (await owner.stdout.receive()).decode().strip()
        assert await exists(engine, cell)
        owner.kill()
    with anyio.fail_after(10):
        while await exists(engine, cell):
            await reap(engine)
