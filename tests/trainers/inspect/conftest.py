"""Inspect as its users run it, without a display and without a log to keep."""

import os
import sys
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from inspect_ai import Task, eval
from inspect_ai.log import EvalLog
from inspect_ai.util import SandboxEnvironment

from wardian.rollouts import ground
from wardian.sandbox.lease import Lease
from wardian.sandbox.pool import CellPool
from wardian.trainers.inspect import CellConfig, CellSandbox, cells

sys.path.insert(0, str(Path(__file__).parent.parent))  # for `worlds:faulty`

CELLS = CellConfig(cells=2)


def pytest_configure(config: pytest.Config) -> None:
    """What Inspect itself is warned of is not ours."""
    config.addinivalue_line("filterwarnings", "ignore:Unclosed <MemoryObject:ResourceWarning")
    warnings.filterwarnings("ignore", "Unclosed <MemoryObject", ResourceWarning)  # those that are collected after the last test
    config.addinivalue_line("filterwarnings", "ignore:The 'initial' parameter is deprecated:DeprecationWarning")


@pytest.fixture(scope="session", autouse=True)
def quiet() -> Iterator[None]:
    os.environ["INSPECT_DISPLAY"] = "none"
    yield
    del os.environ["INSPECT_DISPLAY"]


@pytest.fixture(scope="module")
async def pool() -> AsyncIterator[None]:
    await CellSandbox.task_init("startup", CELLS)
    yield
    await CellSandbox.task_cleanup("shutdown", CELLS, True)


@pytest.fixture
async def sandbox_env(pool: None) -> AsyncIterator[SandboxEnvironment]:
    environments = await CellSandbox.sample_init("test", CELLS, {})
    yield environments["default"]
    await CellSandbox.sample_cleanup("test", CELLS, environments, False)


class CountedPool(CellPool):
    """Keeps what was given out and taken back, beyond its end."""

    made: list["CountedPool"]

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.leased: list[Lease] = []
        self.returned: list[Lease] = []
        self.made.append(self)

    async def acquire(self, uid: int | None = None) -> Lease:
        lease = await super().acquire(uid)
        self.leased.append(lease)
        return lease

    def release(self, lease: Lease, *, lost: bool = False) -> None:
        self.returned.append(lease)
        super().release(lease, lost=lost)


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[CountedPool]]:
    """Every pool that a test opens; each lease of it must have been given back once."""
    CountedPool.made = []
    for module in (cells, ground):
        monkeypatch.setattr(module, "CellPool", CountedPool)
    yield CountedPool.made
    for pool in CountedPool.made:
        assert sorted(map(id, pool.leased)) == sorted(map(id, pool.returned))


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., EvalLog]:
    """Evaluate one task."""

    def one(task: Task, **options: object) -> EvalLog:
        return eval(task, model=options.pop("model", "mockllm/model"), log_dir=str(tmp_path), **options)[0]

    return one
