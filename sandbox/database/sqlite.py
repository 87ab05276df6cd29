"""Sealed templates on SQLite: built once from named inputs, verified, and kept by content address.

<directory>/<key>.sqlite   the image, as it is deserialised
<directory>/<key>.json     digests and counts; written last, so a half-built template has none and is built again
"""

import fcntl
import importlib
import inspect
import json
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import MetaData
from sqlalchemy.dialects import sqlite as sqlite_dialect
from sqlalchemy.orm import Session
from sqlalchemy.schema import CreateIndex, CreateTable

from wardian.sandbox.database import base, clone, connect, rows, types
from wardian.sandbox.database.base import Template, TemplateSource
from wardian.sandbox.database.clone import SealedImage, SqliteDatabase, problem_of, sums_of
from wardian.sandbox.database.connect import attach, open_image, shared_engine
from wardian.sandbox.database.roles import CHANGE
from wardian.sandbox.database.rows import TableShape, TableSum, fingerprint_of
from wardian.sandbox.errors import TemplateBroken
from wardian.sandbox.fingerprint import digest

HEADER = b"SQLite format 3\0"


class SqliteTemplate(Template):
    """A sealed start state in memory, ready to be cloned."""

    def __init__(self, sealed: SealedImage) -> None:
        self._sealed = sealed
        self.key = sealed.key
        self.size_bytes = len(sealed.image)
        self.fingerprint = fingerprint_of({name: TableSum(*pair) for name, pair in sealed.sums.items()}, {})

    @classmethod
    def build(cls, source: TemplateSource, directory: Path | None = None) -> "SqliteTemplate":
        """Load the template of `source`, building it first where it is not there or not whole.

        Raises:
            TemplateBroken: the sealed image is damaged, or what `seed_rows` made breaks a constraint.
        """
        place = directory if directory is not None else default_directory()
        place.mkdir(parents=True, exist_ok=True)
        key = template_key(source)
        with _locked(place / f"{key}.lock"):
            if not (place / f"{key}.json").exists():
                _seal(place, key, build_image(source), source.metadata)
            return cls(_load(place, key, source.metadata))

    def clone(self) -> SqliteDatabase:
        return SqliteDatabase(self._sealed)


def default_directory() -> Path:
    """Where templates are kept: `$WARDIAN_TEMPLATES`, else below `$XDG_CACHE_HOME` or `~/.cache`."""
    named = os.environ.get("WARDIAN_TEMPLATES")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wardian" / "templates"


def template_key(source: TemplateSource) -> str:
    """Hash of every input: schema, seed, parameters, the builder's source, our own, and the engine's version."""
    modules = [source.seed_rows.__module__, *source.builder_modules]
    sources = [inspect.getsource(importlib.import_module(name)) for name in modules]
    ours = [inspect.getsource(module) for module in (base, clone, connect, rows, types)]
    named: list[Any] = [
        source.name,
        schema_statements(source.metadata),
        source.seed,
        source.parameters,
        sources,
        ours,
        sqlite3.sqlite_version,
    ]
    return digest(json.dumps(named).encode())


def schema_statements(metadata: MetaData) -> list[str]:
    """The tables, strict where SQLite can be, and their indexes."""
    dialect = sqlite_dialect.dialect()
    statements = []
    for table in metadata.sorted_tables:
        statements.append(str(CreateTable(table).compile(dialect=dialect)).strip() + " STRICT")
        statements += [
            str(CreateIndex(index).compile(dialect=dialect)) for index in sorted(table.indexes, key=lambda index: str(index.name))
        ]
    return statements


def trigger_statements(shapes: tuple[TableShape, ...]) -> list[str]:
    """Report every changed row to the connection's own function."""
    statements = []
    for number, shape in enumerate(shapes):
        old, new = (",".join(f'{version}."{column}"' for column in shape.columns) for version in ("OLD", "NEW"))
        for event, letter, values in (("INSERT", "i", new), ("UPDATE", "u", f"{old},{new}"), ("DELETE", "d", old)):
            name = f"wardian_{shape.name}_{letter}"
            statements.append(
                f'CREATE TRIGGER "{name}" AFTER {event} ON "{shape.name}" BEGIN SELECT {CHANGE}({number},\'{letter}\',{values}); END'
            )
    return statements


def build_image(source: TemplateSource) -> bytes:
    """Build and verify the start state in memory.

    Raises:
        TemplateBroken: a statement, a seed row or a constraint failed; says which.
    """
    raw = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    raw.execute("PRAGMA foreign_keys=ON")
    for statement in schema_statements(source.metadata):
        try:
            raw.execute(statement)
        except sqlite3.Error as error:
            raise TemplateBroken(f"template {source.name}: {error} in: {statement}") from error
    connection = attach(shared_engine(), raw)
    try:
        with connection.begin(), Session(connection) as session:
            source.seed_rows(session, source.seed)
            session.flush()
        verify(raw, source.name)
        for statement in trigger_statements(rows.shapes(source.metadata)):
            raw.execute(statement)
        raw.execute("VACUUM")
        return raw.serialize()
    except (sqlite3.Error, ValueError, RuntimeError) as error:
        raise TemplateBroken(f"template {source.name}: {error}") from error
    except Exception as error:
        found = problem_of(error)
        if found is error:
            raise
        raise TemplateBroken(f"template {source.name}: {found}") from error
    finally:
        connection.close()


def verify(raw: sqlite3.Connection, name: str) -> None:
    """Integrity and foreign keys.

    Raises:
        TemplateBroken: either does not hold.
    """
    state = raw.execute("PRAGMA integrity_check").fetchone()[0]
    if state != "ok":
        raise TemplateBroken(f"template {name}: integrity check: {state}")
    broken = raw.execute("PRAGMA foreign_key_check").fetchall()
    if broken:
        raise TemplateBroken(f"template {name}: table {broken[0][0]} row {broken[0][1]} points to no row of {broken[0][2]}")


def check_image(image: bytes, where: str) -> None:
    """Refuse what is no sealed SQLite image.

    Raises:
        TemplateBroken: empty, another format, cut short, or in WAL mode.
    """
    if not image:
        raise TemplateBroken(f"{where}: the file is empty, so it is no database")
    if not image.startswith(HEADER):
        raise TemplateBroken(f"{where}: this is no SQLite database (its header is {image[:16]!r})")
    page = int.from_bytes(image[16:18], "big") or 65536
    page = 65536 if page == 1 else page
    pages = int.from_bytes(image[28:32], "big")
    if len(image) < page * pages:
        raise TemplateBroken(f"{where}: cut short: {len(image)} bytes of {page * pages}")
    if image[18] == 2 or image[19] == 2:
        raise TemplateBroken(f"{where}: in WAL mode, which cannot be sealed; run PRAGMA journal_mode=DELETE on it first")


def _seal(place: Path, key: str, image: bytes, metadata: MetaData) -> None:
    check_image(image, f"template {key}")
    raw = open_image(image)
    sums = sums_of(raw, rows.shapes(metadata))
    raw.close()
    mark = {"image": digest(image), "bytes": len(image), "tables": {name: [found.total, found.rows] for name, found in sums.items()}}
    _write_whole(place / f"{key}.sqlite", image)
    _write_whole(place / f"{key}.json", json.dumps(mark).encode())


def _write_whole(path: Path, data: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as target:
            target.write(data)
            target.flush()
            os.fsync(target.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _load(place: Path, key: str, metadata: MetaData) -> SealedImage:
    path = place / f"{key}.sqlite"
    advice = f"remove {place / key}.* and it is built again"
    try:
        mark = json.loads((place / f"{key}.json").read_bytes())
        image = path.read_bytes()
    except (OSError, ValueError) as error:
        raise TemplateBroken(f"template {key}: {error}; {advice}") from error
    check_image(image, str(path))
    if digest(image) != mark["image"]:
        raise TemplateBroken(f"template {key}: the image is not the one that was sealed; {advice}")
    sums = {name: (int(pair[0]), int(pair[1])) for name, pair in mark["tables"].items()}
    return SealedImage(key, image, metadata, rows.shapes(metadata), sums, shared_engine())


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock file, so that two processes never build one template at once."""
    with open(path, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
