"""From a source to a kept import: read it aside, check it by making a template of it, describe it, and keep all of it or nothing."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from wardian.sandbox.database.imports import from_sqlite
from wardian.sandbox.database.imports.report import printable
from wardian.sandbox.database.imports.script_text import ENGINES, decoded, dialect_of
from wardian.sandbox.database.imports.sniff import Form, Found, found_at
from wardian.sandbox.database.imports.store import Draft, ImportedDatabase, check_free, keep
from wardian.sandbox.errors import ImportRefused

if TYPE_CHECKING:
    from wardian.sandbox.database.imports.workshop import Workshop

_SCHEME = re.compile(r"([a-z][a-z0-9]*)(?:\+\w+)?://")


async def import_database(
    source: str,
    name: str,
    *,
    engine: str | None = None,
    schema: str = "public",
    replace: bool = False,
    directory: Path | None = None,
    workshop: Workshop | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> ImportedDatabase:
    """Take in the database at `source`, a path or URL, and keep it under `name`. The source is only read.

    `engine`: for which one a script is written, `sqlite` or `postgres`; `None`: as it shows. `schema`: the one of a Postgres database
    that comes. `workshop`: where Postgres works; `None`: one is opened when it is needed, which `progress` is told.

    Raises:
        ImportRefused: it cannot be taken; with the reason and the fix. Nothing was written.
    """
    check_free(name, replace, directory)
    if engine not in (None, *ENGINES):
        raise ImportRefused(f"engine: no {engine!r}; there are {', '.join(ENGINES)}")
    try:
        draft = await _Import(name, engine, schema, workshop, progress).of(source)
    except ImportRefused as error:
        raise ImportRefused(printable(str(error))) from error
    return keep(draft, replace, directory)


@dataclass(frozen=True, slots=True)
class _Import:
    """What is wanted; see `import_database`."""

    name: str
    engine: str | None
    schema: str
    workshop: Workshop | None
    progress: Callable[[str], None]

    async def of(self, source: str) -> Draft:
        scheme = _SCHEME.match(source)
        if scheme is None:
            return await self._of_file(Path(source))
        if scheme.group(1) == "sqlite":
            return await self._of_file(Path(source[scheme.end() :].removeprefix("/")))
        if scheme.group(1) in ("postgres", "postgresql"):
            return await self._on_postgres(lambda work, place: work.draft_of_url(place, source, self.name, self.schema))
        raise ImportRefused(f"source: {scheme.group(1)}:// cannot be read; files can, and URLs of postgresql:// and sqlite:///")

    async def _of_file(self, path: Path) -> Draft:
        with found_at(path) as found:
            only = {Form.SQLITE: "sqlite", Form.ARCHIVE: "postgres"}.get(found.form)
            if only and self.engine not in (None, only):
                raise ImportRefused(f"engine: {found.name} is of {only}, and no script; leave the engine out")
            if found.form is Form.SQLITE:
                return await anyio.to_thread.run_sync(from_sqlite.draft_of_file, found, self.name)
            if found.form is Form.ARCHIVE:
                return await self._on_postgres(lambda work, place: work.draft_of_archive(place, found, self.name, self.schema))
            script, note = await anyio.to_thread.run_sync(_read, found)
            if (self.engine or dialect_of(script, found.name)) == "sqlite":
                return await anyio.to_thread.run_sync(from_sqlite.draft_of_script, found, script, note, self.name)
            return await self._on_postgres(lambda work, place: work.draft_of_script(place, found, script, note, self.name, self.schema))

    async def _on_postgres(self, draft: Callable[[Any, Workshop], Awaitable[Draft]]) -> Draft:
        """`draft` gets the module `from_postgres`, which needs a driver, and a workshop."""
        from wardian.sandbox.database.choice import EXTRA, DatabaseChoice, DatabaseEngine, driver_missing

        if driver_missing(DatabaseChoice(DatabaseEngine.POSTGRES)):
            raise ImportRefused(EXTRA)
        from wardian.sandbox.database.imports import from_postgres
        from wardian.sandbox.database.imports.workshop import open_workshop

        if self.workshop is not None:
            return await draft(from_postgres, self.workshop)
        self.progress("starting a Postgres server for the import")
        async with open_workshop() as opened:
            return await draft(from_postgres, opened)


def _read(found: Found) -> tuple[str, str]:
    return decoded(found.path.read_bytes(), found.name)
