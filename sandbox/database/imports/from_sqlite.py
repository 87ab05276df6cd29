"""Imports for SQLite: of a database file, and of a script."""

import sqlite3
from contextlib import closing
from pathlib import Path

from wardian.sandbox.database.imports import sqlite_inventory
from wardian.sandbox.database.imports.report import LeftOut, Manifest, Note, Source
from wardian.sandbox.database.imports.sniff import Found
from wardian.sandbox.database.imports.sqlite_file import private_copy
from wardian.sandbox.database.imports.sqlite_script import database_of_script
from wardian.sandbox.database.imports.store import Draft
from wardian.sandbox.database.sqlite.template import SqliteTemplate
from wardian.sandbox.errors import ImportRefused, TemplateBroken
from wardian.sandbox.fingerprint import digest


def draft_of_file(found: Found, name: str) -> Draft:
    """The import of a database file.

    Raises:
        ImportRefused: it cannot be taken.
    """
    try:
        with private_copy(found.path, found.name) as path:
            return _draft(path, name, _source(found), ())
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise ImportRefused(f"{found.name}: damaged: {error}; get it again, or mend it: sqlite3 FILE .recover") from error


def draft_of_script(found: Found, script: str, note: str, name: str) -> Draft:
    """The import of what a script makes; `note` says how it was read.

    Raises:
        ImportRefused: it cannot be run whole, or what it makes cannot be taken.
    """
    with database_of_script(script, found.name) as (path, left_out):
        return _draft(path, name, _source(found), left_out, (Note(where="script", text=note),) if note else ())


def _source(found: Found) -> Source:
    return Source(kind=found.form, name=Path(found.name).name, bytes=found.path.stat().st_size)


def _draft(path: Path, name: str, source: Source, left_out: tuple[LeftOut, ...], notes: tuple[Note, ...] = ()) -> Draft:
    try:
        template = SqliteTemplate.from_file(path)
    except TemplateBroken as error:
        said = " ".join(str(error).removeprefix(f"{path}: ").replace(str(path), source.name).split())
        raise ImportRefused(f"{source.name}: {said}") from error
    with closing(sqlite3.connect(path)) as raw:
        report = sqlite_inventory.inventory(raw, template.shapes[:-1])
        left_out = (*left_out, *sqlite_inventory.left_out_of(raw))
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
        report=report.complete(dict(template.fingerprint.leaves), left_out, notes),
    )
    return Draft(manifest, artifact)
