"""A Postgres server in a container of our own: for one run, on memory alone, and gone with whoever started it.

Every database on it is disposable, so nothing waits for a disk: no fsync, no full-page writes, data on a tmpfs. The server follows its
standard input, which the engine closes when the owner's process ends, SIGKILL included; its labels let `wardian reap` find it as well.
"""

import logging
import re
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.to_thread
import psycopg
from anyio.abc import TaskStatus

from wardian.sandbox.beside import beside
from wardian.sandbox.engine import Engine
from wardian.sandbox.errors import CellUnavailable, EngineUnavailable
from wardian.sandbox.labels import labels_for

_log = logging.getLogger(__name__)
PORT = "5432/tcp"
DATA, WAL = "/var/lib/postgresql/data", "/var/lib/postgresql/wal"
DATA_MIB = 2048
"""Room for databases at least; see `room_mib`."""
WAL_MIB = 768
"""Room for the log of changes; `max_wal_size` is what it comes back to."""
MEMORY_MIB = 1024
"""For processes, beside both."""
START_S = 60.0
POLL_S = 0.05
LOOK_S = 1.0
"""How often a server is looked after; one that ended has a successor within two of these."""
BACKEND_BYTES = 256 << 20
"""Memory of its own that one connection may have."""
SAID_BYTES = 4096
SHOWN = 400
"""Characters of its last words that are told."""
PRINTABLE = re.compile(r"[^\x20-\x7e]+")
ANSWERS = 2
"""So many answers over TCP in a row make it ready."""
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "256MB",
    "checkpoint_timeout": "1h",
    "autovacuum": "off",
    "max_connections": "400",
    "shared_buffers": "128MB",
    "password_encryption": "md5",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_messages": "fatal",
    "log_min_error_statement": "panic",
    # Each connection would load it anew for the first row that it writes, which the triggers report: 2 ms of a reset.
    "shared_preload_libraries": "plpgsql",
}


@asynccontextmanager
async def lasting_server(engine: Engine, image: str) -> AsyncIterator["Lasting"]:
    """Start a server, and another one whenever it ends, as long as the block lasts.

    Raises:
        EngineUnavailable, CellUnavailable: as `managed_server`, for the first one.
    """
    lasting = Lasting()
    async with beside() as group:
        await group.start(lasting.keep, engine, image)
        yield lasting


@dataclass(slots=True)
class Lasting:
    """A managed server and its successors."""

    url: str = ""
    """Of the superuser of the one that runs now."""
    name: str = ""
    """Of its container."""
    room_bytes: int = 0
    """Of all its databases together."""
    ends: list[str] = field(default_factory=list)
    """How each that ended by itself did."""
    moved: Callable[[str], None] = lambda url: None
    """Told the URL of each successor, in a thread: it may wait for a statement that the last one did not answer."""

    async def keep(self, engine: Engine, image: str, *, task_status: TaskStatus[None]) -> None:
        """Run one server after the other; what becomes of the first is told by `task_status`."""
        first = True
        while True:
            try:
                data_mib = room_mib(int((await engine.info()).get("MemTotal", 0)) >> 20)
                async with managed_server(engine, image, data_mib=data_mib) as served:
                    self.url, self.name, self.room_bytes = served.url, served.name, data_mib << 20
                    if first:
                        task_status.started()
                    else:
                        await anyio.to_thread.run_sync(self.moved, served.url)
                    first = False
                    await served.end()
                    self.ends.append(f"{served.name} ended: {await served.why()}")
                    _log.warning("the database server %s; another one takes its place", self.ends[-1])
            except (EngineUnavailable, CellUnavailable):
                if first:
                    raise
                await anyio.sleep(LOOK_S)  # clones say meanwhile that the server is gone


@dataclass(slots=True)
class Served:
    """A managed server that runs."""

    url: str
    """Of its superuser."""
    name: str
    container: str
    engine: Engine
    hold: socket.socket
    """Its standard input, and what it says; it ends when this is closed."""
    said: bytes = b""
    """The last of that."""

    async def end(self) -> None:
        """Return when it has ended. An engine that does not answer says nothing of it."""
        while await self._runs():
            self.listen()
            await anyio.sleep(LOOK_S)
        self.listen()

    async def _runs(self) -> bool:
        try:
            return bool((await self.engine.inspect(self.container)).get("State", {}).get("Running"))
        except EngineUnavailable:
            return True

    def listen(self) -> None:
        """Take in what it said: nobody else reads it, and it waits for a reader. Blocks never."""
        with suppress(OSError):
            while part := self.hold.recv(1 << 16):
                self.said = (self.said + part)[-SAID_BYTES:]

    async def why(self) -> str:
        """How it ended, in the engine's and its own words; best effort."""
        try:
            ends = await self.engine.ends(self.container)
        except EngineUnavailable as error:
            ends = str(error)
        last = PRINTABLE.sub(" ", self.said.decode("utf-8", "replace")).strip()
        return f"{ends}; it said last: {last[-SHOWN:]}" if last else ends


def room_mib(total_mib: int) -> int:
    """How much of an engine's memory all databases of a managed server may take: half, but `DATA_MIB` at least."""
    return max(DATA_MIB, total_mib // 2)


@asynccontextmanager
async def managed_server(engine: Engine, image: str, *, data_mib: int = DATA_MIB, memory_mib: int = MEMORY_MIB) -> AsyncIterator[Served]:
    """Start a server; it is gone when the block ends.

    Raises:
        EngineUnavailable: the engine failed; the step is named.
        CellUnavailable: the server did not answer in time; with the last that it said.
    """
    name, password = f"wardian-postgres-{secrets.token_hex(6)}", secrets.token_urlsafe(24)
    config = server_config(image, password, data_mib=data_mib, memory_mib=memory_mib)
    async with engine.held(config, name) as (container, hold):
        served = Served("", name, container, engine, hold)
        await engine.start(container)
        ports = (await engine.inspect(container)).get("NetworkSettings", {}).get("Ports", {}).get(PORT)
        if not ports:
            served.listen()
            raise CellUnavailable(f"{name}: the server ended at once: {await served.why()}")
        served.url = f"postgresql://postgres:{password}@{ports[0]['HostIp']}:{ports[0]['HostPort']}/postgres"
        await _await_answers(served)
        yield served


def server_config(image: str, password: str, *, data_mib: int, memory_mib: int) -> dict[str, Any]:
    """The engine's options: loopback only, no capability beyond those that giving up root takes, bounded memory and processes."""
    settings = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
    limit = (data_mib + WAL_MIB + memory_mib) << 20
    return {
        "Image": image,
        "Cmd": ["postgres", *settings],
        "Env": [
            f"POSTGRES_PASSWORD={password}",
            "POSTGRES_INITDB_ARGS=--no-sync --locale=C.UTF-8",
            f"POSTGRES_INITDB_WALDIR={WAL}",
            # Enough for a random password on the loopback; its successor makes each connection twice as dear.
            "POSTGRES_HOST_AUTH_METHOD=md5",
            "WARDIAN_FOLLOW_STDIN=1",
        ],
        "Labels": labels_for("database"),
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
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
            # Its log of changes has room of its own: databases that fill theirs then end statements, and not the server.
            "Tmpfs": {DATA: f"mode=700,size={data_mib}m", WAL: f"mode=700,size={WAL_MIB}m"},
            # One statement that grows ends with an error; without it the kernel would end the server, and every episode with it.
            "Ulimits": [{"Name": "data", "Soft": BACKEND_BYTES, "Hard": BACKEND_BYTES}],
            "LogConfig": {"Type": "none"},
            "AutoRemove": True,
        },
    }


async def _await_answers(served: Served) -> None:
    """Wait for a query over TCP, twice: while a cluster is filled its server listens on a socket alone, and is then started again."""
    answers, last = 0, "it was not asked yet"
    with anyio.move_on_after(START_S):
        while answers < ANSWERS:
            served.listen()
            try:
                await anyio.to_thread.run_sync(_ask, served.url)
                answers += 1
            except psycopg.OperationalError as error:
                answers, last = 0, str(error).strip()
                if not (await served.engine.inspect(served.container)).get("State", {}).get("Running"):
                    last = await served.why()
                    break
                await anyio.sleep(POLL_S)
    if answers < ANSWERS:
        raise CellUnavailable(f"{served.name}: the database server gave no answer within {START_S:g} s: {last}")


def _ask(url: str) -> None:
    with psycopg.connect(url, connect_timeout=2) as connection:
        connection.execute("SELECT 1")
