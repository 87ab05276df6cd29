"""A Postgres server in a container of our own: for one run, on memory alone, and gone with whoever started it.

Every database on it is disposable, so nothing waits for a disk: no fsync, no full-page writes, data on a tmpfs. The server follows its
standard input, which the engine closes when the owner's process ends, SIGKILL included; its labels let `wardian reap` find it as well.
"""

import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.to_thread
import psycopg
from anyio.abc import TaskStatus

from wardian.sandbox.engine import Engine
from wardian.sandbox.errors import CellUnavailable, EngineUnavailable
from wardian.sandbox.labels import labels_for

PORT = "5432/tcp"
START_S = 30.0
POLL_S = 0.05
LOOK_S = 1.0
"""How often a server is looked after; one that ended has a successor within two of these."""
BACKEND_BYTES = 256 << 20
"""Memory of its own that one connection may have."""
ANSWERS = 2
"""So many answers over TCP in a row make it ready."""
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "1GB",
    "checkpoint_timeout": "1h",
    "autovacuum": "off",
    "max_connections": "400",
    "shared_buffers": "128MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_messages": "fatal",
    "log_min_error_statement": "panic",
    "temp_file_limit": "256MB",
}


@asynccontextmanager
async def lasting_server(engine: Engine, image: str) -> AsyncIterator["Lasting"]:
    """Start a server, and another one whenever it ends, as long as the block lasts.

    Raises:
        EngineUnavailable, CellUnavailable: as `managed_server`, for the first one.
    """
    lasting = Lasting()
    async with anyio.create_task_group() as group:
        lasting.url = await group.start(lasting.keep, engine, image)
        try:
            yield lasting
        finally:
            group.cancel_scope.cancel()


@dataclass(slots=True)
class Lasting:
    """A managed server and its successors."""

    url: str = ""
    """Of the superuser of the one that runs now."""
    moved: Callable[[str], None] = lambda url: None
    """Told the URL of each successor."""

    async def keep(self, engine: Engine, image: str, *, task_status: TaskStatus[str]) -> None:
        """Run one server after the other; what becomes of the first is told by `task_status`."""
        first = True
        while True:
            try:
                async with managed_server(engine, image) as (url, container):
                    if first:
                        task_status.started(url)
                    else:
                        self.url = url
                        self.moved(url)
                    first = False
                    while (await engine.inspect(container)).get("State", {}).get("Running"):  # noqa: ASYNC110 - the engine tells nobody
                        await anyio.sleep(LOOK_S)
            except (EngineUnavailable, CellUnavailable):
                if first:
                    raise
                await anyio.sleep(LOOK_S)  # clones say meanwhile that the server is gone


@asynccontextmanager
async def managed_server(engine: Engine, image: str, *, data_mib: int = 2048, memory_mib: int = 1024) -> AsyncIterator[tuple[str, str]]:
    """Start a server and give the URL of its superuser, and its container; the server is gone when the block ends.

    Raises:
        EngineUnavailable: the engine failed; the step is named.
        CellUnavailable: the server did not answer in time; with the last that it said.
    """
    name, password = f"wardian-postgres-{secrets.token_hex(6)}", secrets.token_urlsafe(24)
    config = server_config(image, password, data_mib=data_mib, memory_mib=memory_mib)
    container = await engine.create(config, name)
    hold: socket.socket | None = None
    try:
        hold = await engine.attach(container, output=False)
        await engine.start(container)
        ports = (await engine.inspect(container)).get("NetworkSettings", {}).get("Ports", {}).get(PORT)
        if not ports:
            raise CellUnavailable(f"{name}: the server ended at once: {await _said(engine, container)}")
        url = f"postgresql://postgres:{password}@{ports[0]['HostIp']}:{ports[0]['HostPort']}/postgres"
        await _await_answers(engine, container, name, url)
        yield url, container
    finally:
        with anyio.CancelScope(shield=True):
            if hold is not None:
                hold.close()
            try:
                await engine.remove(container)
            except EngineUnavailable:
                engine.remove_now(container)


def server_config(image: str, password: str, *, data_mib: int, memory_mib: int) -> dict[str, Any]:
    """The engine's options: loopback only, no capability beyond those that giving up root takes, bounded memory and processes."""
    settings = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
    limit = (data_mib + memory_mib) << 20
    return {
        "Image": image,
        "Cmd": ["postgres", *settings],
        "Env": [f"POSTGRES_PASSWORD={password}", "POSTGRES_INITDB_ARGS=--no-sync --locale=C.UTF-8", "WARDIAN_FOLLOW_STDIN=1"],
        "Labels": labels_for("database"),
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "Tty": False,
        "ExposedPorts": {PORT: {}},
        "HostConfig": {
            "PortBindings": {PORT: [{"HostIp": "127.0.0.1", "HostPort": ""}]},
            "SecurityOpt": ["no-new-privileges"],
            "CapDrop": ["ALL"],
            "CapAdd": ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID", "KILL"],
            "Memory": limit,
            "MemorySwap": limit,
            "PidsLimit": 1024,
            "ShmSize": 256 << 20,
            "Tmpfs": {"/var/lib/postgresql/data": f"mode=700,size={data_mib}m"},
            # One statement that grows ends with an error; without it the kernel would end the server, and every episode with it.
            "Ulimits": [{"Name": "data", "Soft": BACKEND_BYTES, "Hard": BACKEND_BYTES}],
            "LogConfig": {"Type": "json-file", "Config": {"max-size": "1m", "max-file": "1"}},
            "AutoRemove": True,
        },
    }


async def _await_answers(engine: Engine, container: str, name: str, url: str) -> None:
    """Wait for a query over TCP, twice: while a cluster is filled its server listens on a socket alone, and is then started again."""
    answers, last = 0, "it was not asked yet"
    with anyio.move_on_after(START_S):
        while answers < ANSWERS:
            try:
                await anyio.to_thread.run_sync(_ask, url)
                answers += 1
            except psycopg.OperationalError as error:
                answers, last = 0, str(error).strip()
                if not (await engine.inspect(container)).get("State", {}).get("Running"):
                    break
                await anyio.sleep(POLL_S)
    if answers < ANSWERS:
        raise CellUnavailable(f"{name}: the database server gave no answer within {START_S:g} s: {last}")


def _ask(url: str) -> None:
    with psycopg.connect(url, connect_timeout=2) as connection:
        connection.execute("SELECT 1")


async def _said(engine: Engine, container: str) -> str:
    try:
        return (await engine.run("logs", lambda api: api.logs(container, tail=5))).decode("utf-8", "replace").strip()
    except EngineUnavailable:
        return "(it is gone)"
