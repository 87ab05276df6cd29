"""Which engine holds a world's database, and a template on it for the length of a block."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from wardian.sandbox.database.base import Template, TemplateSource
from wardian.sandbox.database.imports.store import ImportedDatabase
from wardian.sandbox.database.sqlite import SqliteTemplate
from wardian.sandbox.engine import Engine
from wardian.sandbox.errors import DatabaseLost, ImportRefused
from wardian.sandbox.images import ensure_postgres_image
from wardian.sandbox.reap import reap

if TYPE_CHECKING:
    from wardian.sandbox.database.postgres.managed import Lasting

EXTRA = (
    "Postgres needs the driver psycopg: install Wardian with its extra, in a checkout by "
    ".venv/bin/pip install -c constraints/dev.txt -e '.[postgres]', elsewhere by pip install 'wardian[postgres]'"
)


class DatabaseEngine(StrEnum):
    SQLITE = "sqlite"
    POSTGRES = "postgres"


@dataclass(frozen=True, slots=True)
class DatabaseChoice:
    """An engine; for Postgres the URL of a server, or `None` for one in a container of our own."""

    engine: DatabaseEngine = DatabaseEngine.SQLITE
    url: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.engine, DatabaseEngine):
            known = " or ".join(f"DatabaseEngine.{one.name}" for one in DatabaseEngine)
            raise ValueError(f"engine: give {known}, not {self.engine!r}")
        if self.url is not None and self.engine is not DatabaseEngine.POSTGRES:
            raise ValueError("url: SQLite has no server; give the engine DatabaseEngine.POSTGRES, or no url")


def driver_missing(choice: DatabaseChoice) -> bool:
    """Whether the choice needs a driver that is not installed."""
    return choice.engine is DatabaseEngine.POSTGRES and importlib.util.find_spec("psycopg") is None


@asynccontextmanager
async def open_template(
    source: TemplateSource | ImportedDatabase, choice: DatabaseChoice, spares: int = 1, directory: Path | None = None
) -> AsyncIterator[Template]:
    """Make the template of `source` on the chosen engine: for SQLite in `directory`, or where templates are kept by default.

    On Postgres, `spares` clones are kept ready where connections and room allow it, and all is dropped at the end.

    An import runs on its own engine only.

    Raises:
        DatabaseLost: the driver is not installed, or the server cannot be had.
        TemplateBroken: the source cannot be kept exactly, or an import is not as it was.
        ImportRefused: an import is for the other engine.
        SandboxError: the container engine failed.
    """
    if isinstance(source, ImportedDatabase) and source.engine != choice.engine:
        raise ImportRefused(f"template {source.name}: it was imported for {source.engine} and cannot run on {choice.engine.value}")
    if choice.engine is DatabaseEngine.SQLITE:
        yield await anyio.to_thread.run_sync(_embedded, source, directory)
        return
    if driver_missing(choice):
        raise DatabaseLost(EXTRA)
    async with AsyncExitStack() as stack:
        lasting = await stack.enter_async_context(_own_server()) if choice.url is None else None
        yield await stack.enter_async_context(_on_server(source, choice.url or "", lasting, spares))


def _embedded(source: TemplateSource | ImportedDatabase, directory: Path | None) -> Template:
    return source.sqlite_template() if isinstance(source, ImportedDatabase) else SqliteTemplate.build(source, directory)


@asynccontextmanager
async def _own_server() -> AsyncIterator[Lasting]:
    from wardian.sandbox.database.postgres.managed import lasting_server

    image = await anyio.to_thread.run_sync(ensure_postgres_image)
    engine = await Engine.open()
    try:
        await reap(engine)
        async with lasting_server(engine, image) as lasting:
            yield lasting
    finally:
        engine.close()


@asynccontextmanager
async def _on_server(source: TemplateSource | ImportedDatabase, url: str, lasting: Lasting | None, spares: int) -> AsyncIterator[Template]:
    from wardian.sandbox.database.postgres.server import Server
    from wardian.sandbox.database.postgres.template import PostgresTemplate

    server = await anyio.to_thread.run_sync(Server.open, lasting.url if lasting else url, lasting.room_bytes if lasting else None)
    if lasting is not None:
        lasting.moved = server.moved
    template = None
    try:
        made_of = source.postgres_recipe() if isinstance(source, ImportedDatabase) else source
        template = await anyio.to_thread.run_sync(PostgresTemplate.build, made_of, server, spares)
        yield template
    finally:
        with anyio.CancelScope(shield=True):
            if template is not None:
                await anyio.to_thread.run_sync(template.close)
            await anyio.to_thread.run_sync(server.close)
