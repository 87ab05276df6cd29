"""One running container with its attached supervisor: made, laid out, ended."""

import json
import secrets
import time

import anyio

from wardian.sandbox.cell import CellSpec, Tier
from wardian.sandbox.engine import Engine
from wardian.sandbox.errors import CellUnavailable, DeathCause, EngineUnavailable
from wardian.sandbox.files import FileLayer
from wardian.sandbox.frames import READY, Connection, ConnectionLost
from wardian.sandbox.labels import labels_for
from wardian.sandbox.options import cell_config

PING_S = 10.0
NOTED_TRIES, NOTED_S = 4, 0.15
"""The engine hears of want of memory a moment after it happened."""


class Container:
    """A started container. `connection` answers until `stop` or its death."""

    def __init__(self, engine: Engine, container_id: str, name: str, connection: Connection) -> None:
        self.engine = engine
        self.container_id = container_id
        self.name = name
        self.connection = connection
        self.since_s = time.time()
        """When the running episode began, in seconds since the Unix epoch."""

    async def cause_of_death(self) -> DeathCause:
        """Whose doing a death was that the supervisor could not explain: the policy's when memory ran out in the container, else ours.

        By the engine's events since the episode began: they outlive the container, which is removed within a moment, and an earlier
        episode's want of memory explains nothing.
        """
        for _ in range(NOTED_TRIES):
            try:
                if await self.engine.ran_out_of_memory(self.container_id, self.since_s):
                    return DeathCause.POLICY
            except EngineUnavailable:
                break
            await anyio.sleep(NOTED_S)
        return DeathCause.INFRASTRUCTURE

    def begin(self) -> None:
        """An episode begins here."""
        self.since_s = time.time()

    async def busy_with_the_agent(self) -> bool:
        """Whether the supervisor still answers while something that it was asked does not end: then the agent's load is why.

        Nothing but the agent's processes uses the cell's processors and memory.
        """
        try:
            with anyio.fail_after(PING_S):
                await self.connection.request("ping")
        except (TimeoutError, ConnectionLost):
            return await self.cause_of_death() is DeathCause.POLICY
        return True

    async def stop(self) -> None:
        """End it and wait until the engine has removed it. Idempotent; never raises for a container that is gone."""
        await abandon(self.engine, self.container_id, self.connection)


async def lay(connection: Connection, layer: FileLayer) -> None:
    """Give the supervisor one of the world's sealed file layers."""
    table = json.dumps([[path, entry.mode, len(entry.data)] for path, entry in layer.entries.items()]).encode()
    data = b"".join(entry.data for entry in layer.entries.values())
    reply = await connection.request("layer", (table, data), key=layer.key)
    if "failed" in reply.result:
        raise CellUnavailable(f"layer {layer.key}: {reply.result['failed']}")


async def start_container(engine: Engine, spec: CellSpec, tier: Tier, uid: int) -> Container:
    """Create, attach, start, wait for the supervisor, and lay the world's files.

    Raises:
        EngineUnavailable: an engine call failed; its step is named.
        CellUnavailable: the supervisor did not come up, with the last that it said.
    """
    name = f"wardian-{tier.value}-{secrets.token_hex(6)}"
    config = cell_config(spec, uid=uid, tier=tier, labels=labels_for("cell"))
    container_id = await engine.create(options=config, name=name)
    connection: Connection | None = None
    try:
        connection = await Connection.open(await engine.attach(container_id))
        ready = connection.expect(READY)
        await engine.start(container_id)
        with anyio.fail_after(spec.timeouts.start_s):
            report = (await ready).result
            if "failed" in report:
                raise CellUnavailable(f"cell {name}: the supervisor cannot work here: {report['failed']}")
            for layer in spec.layers:
                await lay(connection, layer)
        return Container(engine, container_id, name, connection)
    except (TimeoutError, ConnectionLost) as error:
        said = connection.stderr if connection is not None else ""
        await abandon(engine, container_id, connection)
        raise CellUnavailable(
            f"cell {name}: no answer from the supervisor within {spec.timeouts.start_s:g} s: {error} {said}".rstrip()
        ) from None
    except BaseException:
        await abandon(engine, container_id, connection)
        raise


async def abandon(engine: Engine, container_id: str, connection: Connection | None) -> None:
    """Take back a container, half made or not, whatever is going on around."""
    if connection is not None:
        connection.close()
    await engine.discard(container_id)
