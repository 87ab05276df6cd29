"""A Postgres server and the programs of its image, in containers that end with the import: whatever a dump does, it does it there."""

import io
import secrets
import tarfile
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from wardian.sandbox.database.postgres.managed import Served, managed_server
from wardian.sandbox.database.postgres.server import Server
from wardian.sandbox.engine import Engine
from wardian.sandbox.errors import ImportRefused
from wardian.sandbox.images import ensure_postgres_image
from wardian.sandbox.labels import labels_for

PROGRAM_S = 900.0
POLL_S = 0.05
SAID_BYTES = 4000
_RUN = 'cd "$0" && "$@" >out 2>err'


@dataclass(frozen=True, slots=True)
class Workshop:
    engine: Engine
    image: str
    served: Served
    """The server's container, whose programs are used too."""
    server: Server

    async def program(
        self, argv: Sequence[str], source: Path | None = None, environment: Mapping[str, str] | None = None, container: str = ""
    ) -> bytes:
        """Run a program with `source`, a file or folder, as `in` in its working directory; gives what it wrote.

        Raises:
            ImportRefused: it failed; with the last that it said.
            EngineUnavailable: the engine failed.
        """
        container = container or self.served.container
        place = f"/tmp/{secrets.token_hex(8)}"
        with tempfile.TemporaryFile() as packed:
            await anyio.to_thread.run_sync(_pack, packed, place.removeprefix("/tmp/"), source)
            await self.engine.run("copy in", lambda api: api.put_archive(container, "/tmp", packed))
        try:
            code = await self._execute(container, ["sh", "-c", _RUN, place, *argv], environment or {})
            if code:
                said = await self._fetch(container, f"{place}/err")
                raise ImportRefused(said[-SAID_BYTES:].decode("utf-8", "replace").strip() or f"{argv[0]} ended with {code}")
            return await self._fetch(container, f"{place}/out")
        finally:
            with anyio.CancelScope(shield=True):
                await self._execute(container, ["rm", "-rf", place], {})

    async def dump(self, database: str) -> bytes:
        """A database of the server as a script, without owners and grants."""
        options = ["--no-owner", "--no-privileges", "--no-tablespaces", "--no-publications", "--no-subscriptions", "--no-security-labels"]
        return await self.program(["pg_dump", "-U", "postgres", "-h", "/var/run/postgresql", *options, "-d", database])

    async def dump_elsewhere(self, environment: Mapping[str, str]) -> bytes:
        """The database that libpq's variables name, as an archive, read in one read-only transaction. The engine's host must reach it.

        Raises:
            ImportRefused: it cannot be read; with pg_dump's words.
        """
        async with _with_network(self.engine, self.image) as container:
            return await self.program(["pg_dump", "-Fc", "--no-password", "--no-blobs"], None, environment, container)

    async def _execute(self, container: str, argv: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run a command to its end; gives its exit code."""

        def begin(api: Any) -> str:
            made = str(
                api.exec_create(container, list(argv), user="postgres", environment=dict(environment), stdout=False, stderr=False)["Id"]
            )
            api.exec_start(made, detach=True)
            return made

        started = await self.engine.run("exec", begin)
        until = time.monotonic() + PROGRAM_S
        while (state := await self.engine.run("exec", lambda api: api.exec_inspect(started)))["Running"]:
            if time.monotonic() > until:
                raise ImportRefused(f"{argv[0]}: it did not end within {PROGRAM_S:g} s")
            self.served.listen()
            await anyio.sleep(POLL_S)
        return int(state["ExitCode"])

    async def _fetch(self, container: str, path: str) -> bytes:
        def call(api: Any) -> bytes:
            stream, _ = api.get_archive(container, path)
            with tempfile.TemporaryFile() as packed:
                for block in stream:
                    packed.write(block)
                packed.seek(0)
                with tarfile.open(fileobj=packed) as tar:
                    member = tar.next()
                    file = tar.extractfile(member) if member is not None else None
                    return file.read() if file is not None else b""

        return await self.engine.run("copy out", call)


@asynccontextmanager
async def open_workshop() -> AsyncIterator[Workshop]:
    """Start one; it is gone when the block ends.

    Raises:
        SandboxError: the engine or the server failed.
    """
    image = await anyio.to_thread.run_sync(ensure_postgres_image)
    engine = await Engine.open()
    try:
        async with managed_server(engine, image) as served:
            server = await anyio.to_thread.run_sync(Server.open, served.url)
            try:
                yield Workshop(engine, image, served, server)
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(server.close)
    finally:
        engine.close()


@asynccontextmanager
async def _with_network(engine: Engine, image: str) -> AsyncIterator[str]:
    """A container that has the host's network and runs nothing but what is asked of it. It ends with its standard input."""
    options = {
        "Image": image,
        "Entrypoint": ["cat"],
        "Labels": labels_for("import"),
        "OpenStdin": True,
        "StdinOnce": True,
        "HostConfig": {
            "NetworkMode": "host",
            "SecurityOpt": ["no-new-privileges"],
            "CapDrop": ["ALL"],
            "PidsLimit": 32,
            "LogConfig": {"Type": "none"},
            "AutoRemove": True,
        },
    }
    async with engine.held(options) as (container, _):
        await engine.start(container)
        yield container


def _pack(to: Any, place: str, source: Path | None) -> None:
    """A tar with a folder that the user `postgres` may write to, and `source` in it, readable."""

    def owned(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = 0
        info.mode = 0o777 if info.isdir() else 0o644
        return info

    with tarfile.open(fileobj=to, mode="w", format=tarfile.PAX_FORMAT) as tar:
        folder = tarfile.TarInfo(place)
        folder.type, folder.mode = tarfile.DIRTYPE, 0o777
        tar.addfile(folder, io.BytesIO())
        if source is not None:
            tar.add(source, f"{place}/in", filter=owned)
    to.seek(0)
