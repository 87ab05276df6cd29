"""`sandbox="wardian"` in whole evaluations."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import docker
import pytest
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import Score, Scorer, Target, accuracy, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import sandbox

from wardian.sandbox.labels import RUN, run_id
from wardian.trainers.inspect import CellConfig, CellSandbox

Act = Callable[[TaskState], Awaitable[None]]


@solver
def acting(act: Act) -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        await act(state)
        return state

    return solve


@scorer(metrics=[accuracy()])
def clean_and_complete() -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        found = (await sandbox().exec(["ls"])).stdout.split()
        return Score(value=found == ["given.txt", "made.txt", "mine.txt"], explanation=str(found))

    return score


async def leave_a_mark(state: TaskState) -> None:
    await sandbox().write_file("mine.txt", str(state.sample_id))
    assert (await sandbox().read_file("given.txt")) == "given"


def samples(number: int, **options: Any) -> list[Sample]:
    return [Sample(input="?", id=index + 1, **options) for index in range(number)]


def test_parallel_samples_share_one_pool_and_never_a_state(play: Any, pools: Any) -> None:
    dataset = samples(6, files={"given.txt": "given"}, setup="echo made > made.txt")
    log = play(Task(dataset, solver=acting(leave_a_mark), scorer=clean_and_complete(), sandbox=("wardian", CellConfig(cells=2))))
    assert log.status == "success", log.error
    assert log.results.scores[0].metrics["accuracy"].value == 1.0
    assert [(pool.size, len(pool.leased)) for pool in pools] == [(2, 6)]


def test_samples_that_nobody_cleans_up_after_give_their_cells_back_too(play: Any, pools: Any) -> None:
    log = play(Task(samples(3), solver=acting(touch), sandbox=("wardian", CellConfig(cells=1))), sandbox_cleanup=False)
    assert (log.status, [len(pool.leased) for pool in pools]) == ("success", [3])


async def touch(state: TaskState) -> None:
    await sandbox().write_file("mine.txt", "")


async def end_the_container(state: TaskState) -> None:
    if state.sample_id == 1:
        name = (await sandbox().exec(["cat", "/etc/hostname"])).stdout  # every cell's is the same: the name is the engine's
        assert name.strip() == "world"
        await anyio.to_thread.run_sync(kill_a_cell_of_this_run)
    await sandbox().exec(["true"])


def kill_a_cell_of_this_run() -> None:
    client = docker.from_env()
    for container in client.containers.list(filters={"label": f"{RUN}={run_id()}"}):
        container.kill()
    client.close()


def test_a_cell_that_is_lost_through_us_is_an_error_of_its_sample_and_no_score(play: Any, pools: Any) -> None:
    dataset = samples(3, files={"given.txt": "", "made.txt": "", "mine.txt": ""})
    task = Task(dataset, solver=acting(end_the_container), scorer=clean_and_complete(), sandbox=("wardian", CellConfig(cells=1)))
    log = play(task, fail_on_error=False, max_samples=1)
    assert [(one.id, bool(one.error), one.scores is not None and bool(one.scores)) for one in log.samples] == [
        (1, True, False),
        (2, False, True),
        (3, False, True),
    ]
    assert "infrastructure" in log.samples[0].error.message
    assert log.results.scores[0].scored_samples == 2


def test_under_trio_it_is_told_at_once() -> None:
    with pytest.raises(RuntimeError, match="asyncio"):
        anyio.run(CellSandbox.task_init, "startup", None, backend="trio")


def test_a_configuration_is_read_from_a_file_and_checked(play: Any, pools: Any, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("cells: 1\nworld: billing\n")
    bad.write_text("cels: 1\n")

    async def look(state: TaskState) -> None:
        assert (await sandbox().exec(["ls", "-A"])).stdout.split(), "the world's files"

    assert play(Task(samples(1), solver=acting(look), sandbox=("wardian", str(good)))).status == "success"
    with pytest.raises(ValueError, match="cels"):
        play(Task(samples(1), solver=acting(look), sandbox=("wardian", str(bad))))
