"""From a source to a kept import: read it aside, check it by making a template of it, describe it, and keep all of it or nothing."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from wardian.sandbox.database.imports import from_sqlite
from wardian.sandbox.database.imports.script_text import ENGINES, decoded, dialect_of
from wardian.sandbox.database.imports.sniff import Form, Found, found_at
from wardian.sandbox.database.imports.store import Draft, ImportedDatabase, check_free, keep
from wardian.sandbox.errors import ImportRefused

if TYPE_CHECKING:
    from wardian.sandbox.database.imports.workshop import Workshop


async def import_database(
    source: str,
    name: str,
    *,
    engine: str | None = None,
    schema: str = "public",
    replace: bool = False,
    directory: Path | None = None,
    workshop: Workshop | None = None,
) -> ImportedDatabase:
    """Take in the database at `source`, a path or URL, and keep it under `name`. The source is only read.

    `engine`: for which one a script is written, `sqlite` or `postgres`; `None`: as it shows. `schema`: the one of a Postgres database
    that comes. `workshop`: where Postgres works; `None`: one is opened when it is needed.

    Raises:
        ImportRefused: it cannot be taken; with the reason and the fix. Nothing was written.
    """
    check_free(name, replace, directory)
    if engine not in (None, *ENGINES):
        raise ImportRefused(f"engine: no {engine!r}; there are {', '.join(ENGINES)}")
    scheme = re.match(r"([a-z][a-z0-9]*)(?:\+\w+)?://", source)
    if scheme is None or source.startswith("sqlite"):
        path = Path(source if scheme is None else re.sub(r"^sqlite(\+\w+)?:///", "", source))
        draft = await _from_file(path, name, engine, schema, workshop)
    elif scheme.group(1) in ("postgres", "postgresql"):
        draft = await _on_postgres(source, None, "", name, schema, workshop)
    else:
        raise ImportRefused(f"source: {scheme.group(1)}:// cannot be read; files can, and URLs of postgresql:// and sqlite:///")
    return keep(draft, replace, directory)


async def _from_file(path: Path, name: str, engine: str | None, schema: str, workshop: Workshop | None) -> Draft:
    with found_at(path) as found:
        if found.form is Form.SQLITE:
            return await anyio.to_thread.run_sync(from_sqlite.draft_of_file, found, name)
        if found.form is Form.ARCHIVE:
            return await _on_postgres(found, None, "", name, schema, workshop)
        script, note = await anyio.to_thread.run_sync(_read, found)
        if (engine or dialect_of(script, found.name)) == "sqlite":
            return await anyio.to_thread.run_sync(from_sqlite.draft_of_script, found, script, note, name)
        return await _on_postgres(found, script, note, name, schema, workshop)


async def _on_postgres(found: Found | str, script: str | None, note: str, name: str, schema: str, workshop: Workshop | None) -> Draft:
    if importlib.util.find_spec("psycopg") is None:
        raise ImportRefused("Postgres needs the driver psycopg: install Wardian with its extra, pip install 'wardian[postgres]'")
    from wardian.sandbox.database.imports import from_postgres

    async with _at_work(workshop) as place:
        if isinstance(found, str):
            return await from_postgres.draft_of_url(place, found, name, schema)
        if script is None:
            return await from_postgres.draft_of_archive(place, found, name, schema)
        return await from_postgres.draft_of_script(place, found, script, note, name, schema)


def _read(found: Found) -> tuple[str, str]:
    return decoded(found.path.read_bytes(), found.name)


@asynccontextmanager
async def _at_work(workshop: Workshop | None) -> AsyncIterator[Workshop]:
    if workshop is not None:
        yield workshop
        return
    from wardian.sandbox.database.imports.workshop import open_workshop

    async with open_workshop() as opened:
        yield opened
