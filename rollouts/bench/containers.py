"""The usual way, for comparison: a container per episode, and `docker exec`, through the same SDK, image and limits."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from docker.api.client import APIClient

from wardian.rollouts.bench.samples import Rate, Samples
from wardian.sandbox.cell import CellSpec, Tier
from wardian.sandbox.engine import Engine
from wardian.sandbox.errors import EngineUnavailable
from wardian.sandbox.labels import labels_for
from wardian.sandbox.options import cell_config

AT_ONCE = 4
"""More do not make an engine faster."""
TRUE = ["true"]


def plain_config(spec: CellSpec) -> dict[str, Any]:
    """A container of the same image and limits that only waits, as an ordinary sandbox has it."""
    config = cell_config(spec, uid=1000, tier=Tier.FRESH, labels=labels_for("bench"))
    config |= {"Entrypoint": ["sleep", "infinity"], "Cmd": [], "OpenStdin": False, "StdinOnce": False}
    config |= {"AttachStdin": False, "AttachStdout": False, "AttachStderr": False}
    config["HostConfig"] |= {"AutoRemove": False, "CapAdd": []}
    return config


async def docker_exec(engine: Engine, container_id: str) -> None:
    """Run `true` as `docker exec` does: create, start, wait for the end of its output, ask for its code.

    Raises:
        EngineUnavailable: the engine failed, or the command did.
    """

    def call(api: APIClient) -> int:
        made = api.exec_create(container_id, TRUE)
        api.exec_start(made["Id"])
        return int(api.exec_inspect(made["Id"])["ExitCode"])

    code = await engine.run("exec", call)
    if code:
        raise EngineUnavailable("exec", f"`true` ended with {code}")


@asynccontextmanager
async def plain_container(engine: Engine, spec: CellSpec) -> AsyncIterator[str]:
    """A started container, removed when the block ends, however it ends."""
    container_id = await engine.create(plain_config(spec), name=f"wardian-bench-{secrets.token_hex(6)}")
    try:
        await engine.start(container_id)
        yield container_id
    finally:
        await engine.discard(container_id)


@dataclass(slots=True)
class ContainerBench:
    engine: Engine
    spec: CellSpec
    one: Samples = field(default_factory=Samples)
    """Create, start, exec `true`, remove: alone."""
    rate: Rate = field(default_factory=Rate)
    """The same, several at once."""
    exec: Samples = field(default_factory=Samples)

    async def episodes(self, count: int) -> None:
        """`count` containers one after another, then as many batches at once."""
        for _ in range(count):
            with self.one.timed():
                await self._episode()
        with self.rate.timed(AT_ONCE):
            async with anyio.create_task_group() as group:
                for _ in range(AT_ONCE):
                    group.start_soon(self._episode)

    async def execs(self, container_id: str, count: int) -> None:
        """`count` times `docker exec true` in a running container."""
        for _ in range(count):
            with self.exec.timed():
                await docker_exec(self.engine, container_id)

    async def _episode(self) -> None:
        async with plain_container(self.engine, self.spec) as container_id:
            await docker_exec(self.engine, container_id)
