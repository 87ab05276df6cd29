"""Where imports are kept: a folder per name, put in place by one rename, so that a reader never sees half of one."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from wardian.sandbox.database.imports.report import Manifest, Report
from wardian.sandbox.database.sqlite.template import SqliteTemplate, default_directory
from wardian.sandbox.errors import ImportRefused, TemplateBroken
from wardian.sandbox.fingerprint import digest

if TYPE_CHECKING:
    from wardian.sandbox.database.imports.postgres_recipe import ImportRecipe

MANIFEST = "manifest.json"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_HALF = ".half-"
"""How the name of a folder begins that is being made or removed."""


@dataclass(frozen=True, slots=True)
class Draft:
    """An import that was checked and is not kept yet."""

    manifest: Manifest
    artifact: bytes


@dataclass(frozen=True, slots=True)
class ImportedDatabase:
    """A database of somebody's, kept as a start state under a name."""

    manifest: Manifest
    folder: Path

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def engine(self) -> str:
        """`sqlite` or `postgres`: it runs on that one only."""
        return self.manifest.engine

    @property
    def report(self) -> Report:
        return self.manifest.report

    def artifact(self) -> Path:
        """The file that holds the database, compared with what was sealed.

        Raises:
            TemplateBroken: it is not what was sealed.
        """
        path = self.folder / self.manifest.artifact
        try:
            data = path.read_bytes()
        except OSError as error:
            raise TemplateBroken(f"{path}: cannot be read ({error.strerror}); import it again with --replace") from error
        if digest(data) != self.manifest.artifact_digest:
            raise TemplateBroken(f"{path}: its bytes are not those that were imported; import it again with --replace")
        return path

    def sqlite_template(self) -> SqliteTemplate:
        """The template of an import for SQLite, read and checked. For either engine see `database.choice.open_template`.

        Raises:
            TemplateBroken: it is not what was sealed.
        """
        template = SqliteTemplate.from_file(self.artifact())
        check_sums(self.manifest, dict(template.fingerprint.leaves))
        return template

    def postgres_recipe(self) -> ImportRecipe:
        """What a template of an import for Postgres is made of, for `PostgresTemplate.build`.

        Raises:
            TemplateBroken: it is not what was sealed.
        """
        from wardian.sandbox.database.imports.postgres_recipe import ImportRecipe

        return ImportRecipe(self.manifest, self.artifact().read_bytes())


def check_sums(manifest: Manifest, leaves: dict[str, str]) -> None:
    """Compare the tables of a template with those that the report names.

    Raises:
        TemplateBroken: they differ.
    """
    for table in manifest.report.tables:
        if leaves.get(table.name) != table.fingerprint:
            raise TemplateBroken(
                f"import {manifest.name}: table {table.name} is not as it was imported ({leaves.get(table.name)}, not {table.fingerprint});"
                " import it again with --replace"
            )


def default_imports() -> Path:
    """Where imports are kept when nobody says otherwise."""
    return default_directory() / "imports"


def open_import(name: str, directory: Path | None = None) -> ImportedDatabase:
    """The import of that name.

    Raises:
        ImportRefused: there is none.
        TemplateBroken: its manifest cannot be read.
    """
    folder = (directory or default_imports()) / checked_name(name)
    try:
        text = (folder / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        there = ", ".join(imported_names(directory)) or "none yet"
        raise ImportRefused(f"there is no template {name!r}; there are: {there} (wardian template import SOURCE --name {name})") from None
    except OSError as error:
        raise TemplateBroken(f"{folder / MANIFEST}: cannot be read: {error.strerror}") from error
    try:
        return ImportedDatabase(Manifest.model_validate_json(text), folder)
    except ValidationError as error:
        raise TemplateBroken(f"{folder / MANIFEST}: not as this version writes it; import it again with --replace ({error})") from error


def imported_names(directory: Path | None = None) -> tuple[str, ...]:
    """Names of all imports."""
    place = directory or default_imports()
    try:
        return tuple(sorted(path.name for path in place.iterdir() if (path / MANIFEST).is_file() and _NAME.fullmatch(path.name)))
    except (FileNotFoundError, NotADirectoryError):
        return ()


def remove_import(name: str, directory: Path | None = None) -> None:
    """Remove an import; one whose manifest is damaged, too.

    Raises:
        ImportRefused: there is none, or it may not be removed.
    """
    place = directory or default_imports()
    folder = place / checked_name(name)
    if not folder.is_dir():
        raise ImportRefused(f"there is no template {name!r}")
    with _locked(place):
        _take_away(folder)


def checked_name(name: str) -> str:
    """Give `name` back.

    Raises:
        ImportRefused: it cannot be the name of an import.
    """
    if not _NAME.fullmatch(name):
        raise ImportRefused(f"name: {name!r} cannot be one; use up to 63 of a-z, 0-9, - and _, and begin with a letter or digit")
    return name


def check_free(name: str, replace: bool, directory: Path | None = None) -> None:
    """Look whether an import of that name may be made.

    Raises:
        ImportRefused: it may not.
    """
    folder = (directory or default_imports()) / checked_name(name)
    if folder.exists() and not replace:
        raise ImportRefused(f"name: there is a template {name!r} already; choose another name, or say --replace")


def keep(draft: Draft, replace: bool, directory: Path | None = None) -> ImportedDatabase:
    """Put an import in place: whole, or not at all.

    Raises:
        ImportRefused: the name is taken and `replace` is false, or nothing can be written there.
    """
    place, manifest = directory or default_imports(), draft.manifest
    folder = place / checked_name(manifest.name)
    with _locked(place):
        check_free(manifest.name, replace, directory)
        half = place / f"{_HALF}{secrets.token_hex(8)}"
        try:
            half.mkdir()
            _write(half / manifest.artifact, draft.artifact)
            _write(half / MANIFEST, manifest.model_dump_json(indent=1).encode() + b"\n")
            if folder.exists():
                _take_away(folder)
            os.rename(half, folder)
        except OSError as error:
            raise ImportRefused(f"{place}: the import cannot be kept there: {error.strerror}") from error
        finally:
            shutil.rmtree(half, ignore_errors=True)
    return ImportedDatabase(manifest, folder)


def _write(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _take_away(folder: Path) -> None:
    """Remove a folder so that nobody sees half of it."""
    half = folder.parent / f"{_HALF}{secrets.token_hex(8)}"
    try:
        os.rename(folder, half)
        shutil.rmtree(half)
    except OSError as error:
        raise ImportRefused(f"{folder}: cannot be removed: {error.strerror}") from error


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    """Keep others from writing there, and clear away what a killed one left half made."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        lock = (place / ".lock").open("a")
    except OSError as error:
        raise ImportRefused(f"{place}: imports cannot be kept there ({error.strerror}); set XDG_CACHE_HOME to another folder") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for half in place.glob(f"{_HALF}*"):
            shutil.rmtree(half, ignore_errors=True)
        yield
