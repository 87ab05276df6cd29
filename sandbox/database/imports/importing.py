"""From a source to a kept import: read it aside, check it by making a template of it, describe it, and keep all of it or nothing."""

import sqlite3
from contextlib import closing
from pathlib import Path

import anyio.to_thread

from wardian.sandbox.database.imports import sqlite_inventory
from wardian.sandbox.database.imports.report import Manifest, Source
from wardian.sandbox.database.imports.sniff import sniff
from wardian.sandbox.database.imports.sqlite_file import private_copy
from wardian.sandbox.database.imports.store import ImportedDatabase, check_free, keep
from wardian.sandbox.database.sqlite.building import image_of_file
from wardian.sandbox.database.sqlite.template import SqliteTemplate
from wardian.sandbox.errors import ImportRefused, TemplateBroken
from wardian.sandbox.fingerprint import digest


async def import_database(source: str, name: str, *, replace: bool = False, directory: Path | None = None) -> ImportedDatabase:
    """Take in the database at `source`, a path, and keep it under `name`. The source is only read.

    Raises:
        ImportRefused: it cannot be taken; with the reason and the fix. Nothing was written.
    """
    check_free(name, replace, directory)
    manifest, artifact = await anyio.to_thread.run_sync(_from_sqlite_file, Path(source), name)
    return keep(manifest, artifact, replace, directory)


def _from_sqlite_file(path: Path, name: str) -> tuple[Manifest, bytes]:
    found = sniff(path)
    with private_copy(found.path) as copy:
        return _from_sqlite(copy, name, Source(kind=found.form, name=path.name, bytes=path.stat().st_size))


def _from_sqlite(path: Path, name: str, source: Source) -> tuple[Manifest, bytes]:
    """The import of a SQLite file of our own."""
    try:
        built = image_of_file(path)
        template = SqliteTemplate.from_file(path)
    except TemplateBroken as error:
        raise ImportRefused(str(error).replace(str(path), source.name)) from error
    with closing(sqlite3.connect(path)) as raw:
        report = sqlite_inventory.inventory(raw, built.shapes[:-1])
        left_out = sqlite_inventory.left_out_of(raw)
    artifact = path.read_bytes()
    manifest = Manifest(
        name=name,
        engine="sqlite",
        engine_version=sqlite3.sqlite_version,
        source=source,
        artifact="database.sqlite",
        artifact_bytes=len(artifact),
        artifact_digest=digest(artifact),
        template_bytes=template.size_bytes,
        report=report.with_sums(dict(template.fingerprint.leaves), left_out),
    )
    return manifest, artifact
