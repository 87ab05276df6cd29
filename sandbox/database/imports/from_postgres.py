"""Imports for Postgres: whatever the source, a script is run on a server in a container, tidied, described, and dumped again."""

import gzip
import re
import secrets
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio.to_thread
import psycopg

from wardian.sandbox.database.imports import live
from wardian.sandbox.database.imports.postgres_inventory import inventory, number_rows, prove_constraints, tidy
from wardian.sandbox.database.imports.postgres_recipe import ImportRecipe, load
from wardian.sandbox.database.imports.postgres_script import check_whole
from wardian.sandbox.database.imports.postgres_session import AS_CLONES, powerless
from wardian.sandbox.database.imports.report import LeftOut, Manifest, Note, Report, Source
from wardian.sandbox.database.imports.sniff import Form, Found
from wardian.sandbox.database.imports.store import Draft
from wardian.sandbox.database.imports.workshop import Workshop
from wardian.sandbox.database.postgres.links import connected
from wardian.sandbox.database.postgres.server import PREFIX
from wardian.sandbox.database.postgres.template import PostgresTemplate
from wardian.sandbox.errors import ImportRefused, TemplateBroken
from wardian.sandbox.fingerprint import digest

_RESTRICT = re.compile(rb"^\\(?:un)?restrict .*\n", re.MULTILINE)
_MADE_BY = re.compile(r"^-- Dumped (?:from|by) (.*)$", re.MULTILINE)


async def draft_of_archive(workshop: Workshop, found: Found, name: str, schema: str, kind: str = "") -> Draft:
    """The import of an archive of pg_dump.

    Raises:
        ImportRefused: it cannot be taken.
        SandboxError: the engine or the server failed.
    """
    try:
        script = await workshop.program(["pg_restore", "-f", "-", "in"], found.path)
    except ImportRefused as error:
        raise ImportRefused(f"{found.name}: cut short or damaged: pg_restore says: {' '.join(str(error).split())}") from error
    return await draft_of_script(workshop, found, script.decode("latin-1"), "", name, schema, kind)


async def draft_of_url(workshop: Workshop, url: str, name: str, schema: str) -> Draft:
    """The import of a database that is served; it is only read.

    Raises:
        ImportRefused: it cannot be reached, or cannot be taken.
        SandboxError: the engine or the server failed.
    """
    with TemporaryDirectory(prefix="wardian-import-") as folder:
        path = Path(folder) / "archive"
        path.write_bytes(await live.dumped(workshop, url))
        return await draft_of_archive(workshop, Found(Form.ARCHIVE, path, live.named(url)), name, schema, "Postgres database")


async def draft_of_script(workshop: Workshop, found: Found, script: str, note: str, name: str, schema: str, kind: str = "") -> Draft:
    """The import of what a script makes; `note` says how it was read.

    Raises:
        ImportRefused: it cannot be run whole, or what it makes cannot be taken.
        SandboxError: the engine or the server failed.
    """
    check_whole(script, found.name)
    server, database = workshop.server, f"{PREFIX}b_{secrets.token_hex(8)}"
    await anyio.to_thread.run_sync(server.create, database, "template0")
    try:
        report, left_out = await anyio.to_thread.run_sync(_described, workshop, database, script, found.name, schema)
        dump = await workshop.dump(database)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(server.drop, database)
    notes = (Note(where="script", text=note),) if note else ()
    made_by = "; ".join(_MADE_BY.findall(script[:4096]))
    shown = found.name if kind else Path(found.name).name
    source = Source(kind=kind or found.form, name=shown, bytes=_size(found.path), version=made_by)
    artifact = gzip.compress(_RESTRICT.sub(b"", dump), mtime=0)
    manifest = Manifest(
        name=name,
        engine="postgres",
        engine_version=f"{server.version // 10000}.{server.version % 10000}",
        source=source,
        artifact="dump.sql.gz",
        artifact_bytes=len(artifact),
        artifact_digest=digest(artifact),
        template_bytes=0,
        report=report,
    )
    return await anyio.to_thread.run_sync(_checked, workshop, manifest, artifact, left_out, notes)


def _described(workshop: Workshop, database: str, script: str, name: str, schema: str) -> tuple[Report, tuple[LeftOut, ...]]:
    server = workshop.server
    loaded = load(server, database, script, name)
    try:
        with connected(server.url_of(database)) as link:
            left_out = (*loaded.left_out, *tidy(link, schema))
        with powerless(server, database) as link:
            prove_constraints(link)
            number_rows(link)
            link.execute(AS_CLONES)
            return inventory(link, loaded.trimmed), left_out
    except ImportRefused as error:
        raise ImportRefused(f"{name}: {error}") from error
    except psycopg.Error as error:
        raise ImportRefused(f"{name}: {' '.join(str(error).split())}") from error


def _checked(workshop: Workshop, manifest: Manifest, artifact: bytes, left_out: tuple[LeftOut, ...], notes: tuple[Note, ...]) -> Draft:
    """Make a template and a clone of it, as a run will: what cannot be one is refused now."""
    try:
        template = PostgresTemplate.build(ImportRecipe(manifest, artifact), workshop.server, spares=0)
        try:
            clone = template.clone()
            found = clone.recompute()
            clone.close()
            if found != template.fingerprint:
                raise TemplateBroken(f"a clone is not as its template: {'; '.join(found.differences(template.fingerprint))}")
            report = manifest.report.complete(dict(template.fingerprint.leaves), left_out, notes)
            return Draft(manifest.model_copy(update={"template_bytes": template.size_bytes, "report": report}), artifact)
        finally:
            template.close()
    except TemplateBroken as error:
        raise ImportRefused(f"{manifest.source.name}: {error}") from error


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) if path.is_dir() else path.stat().st_size
