"""Sealed SQLite templates, and where they are kept.

A template is two files: the image, and a mark that says what the image must be. The mark is written last, so an image without one
is half built and is built again. Both are put in place by renaming, so a reader never sees half a file.
"""

import fcntl
import json
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

from wardian.sandbox.database.base import Template, TemplateSource, check_template
from wardian.sandbox.database.journal import Journal
from wardian.sandbox.database.keys import template_key
from wardian.sandbox.database.rows import SEQUENCES, TableShape, fingerprint_of, shapes_of
from wardian.sandbox.database.sealed import SealedDatabase
from wardian.sandbox.database.sqlite.building import Built, build_image, image_of_file, schema_text
from wardian.sandbox.database.sqlite.clone import Sealed, SqliteDatabase
from wardian.sandbox.database.sqlite.dialect import SqliteEngine
from wardian.sandbox.database.sqlite.frozen import FrozenImage, Moment
from wardian.sandbox.database.sqlite.sealing import applied
from wardian.sandbox.errors import TemplateBroken
from wardian.sandbox.fingerprint import digest


def default_directory() -> Path:
    """Where templates are kept when nobody says otherwise: `wardian/templates` in the user's cache directory."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(cache) if cache.startswith("/") else Path.home() / ".cache") / "wardian" / "templates"


class SqliteTemplate(Template):
    """A sealed start state. It holds its image in memory; closing is not needed."""

    engine = "sqlite"

    def __init__(self, key: str, built: Built, engine: SqliteEngine, timed: bool = False) -> None:
        """`timed`: the database may fill in the world's time by itself."""
        self.key = key
        self.size_bytes = len(built.image)
        self.fingerprint = fingerprint_of(built.shapes, zip(built.counts, built.totals, strict=True))
        self._sealed = Sealed(key, built.image, built.shapes, built.tables, built.counts, built.totals, engine, timed)

    @classmethod
    def build(cls, source: TemplateSource, directory: Path | None = None) -> "SqliteTemplate":
        """The template of `source`: from `directory` when it is there, else built and kept there. Processes wait for each other.

        Raises:
            TemplateBroken: the source cannot be kept exactly, what is kept is not what was sealed, or the directory is unusable.
        """
        engine = SqliteEngine()
        key = template_key(source, schema_text(source.metadata, engine), f"sqlite {sqlite3.sqlite_version}")
        place = _Place(directory or default_directory(), key)
        built = place.load(source)
        if built is None:
            with place.locked():
                built = place.load(source)
                if built is None:
                    built = build_image(source, engine)
                    place.keep(built)
        return cls(key, built, engine)

    @classmethod
    def from_file(cls, path: Path) -> "SqliteTemplate":
        """A template of the database file at `path`, read as of now; nothing is kept. Its tables have no declared types.

        Raises:
            TemplateBroken: it is no sound database, or changes of its tables cannot be captured.
        """
        built = image_of_file(path)
        return cls(digest(built.image), built, SqliteEngine(), timed=True)

    @property
    def shapes(self) -> tuple[TableShape, ...]:
        """Of all tables, with `SEQUENCES` last."""
        return self._sealed.shapes

    def clone(self) -> SqliteDatabase:
        return SqliteDatabase(self._sealed)

    def restore(self, sealed: SealedDatabase) -> tuple[SqliteDatabase, tuple[FrozenImage, ...]]:
        check_template(self, sealed)
        own = self._sealed
        images = [applied(state.body, own.image) for state in (*sealed.copies, sealed.present)]
        moments = [Moment(None, RLock(), image) for image in images[:-1]]
        copies = tuple(
            FrozenImage(moment, own.engine, own.tables, state.fingerprint) for moment, state in zip(moments, sealed.copies, strict=True)
        )
        return SqliteDatabase(own, images[-1], Journal.restored(own.shapes, sealed.journal)), copies


class _Place:
    """The files of one template."""

    def __init__(self, directory: Path, key: str) -> None:
        self._directory = directory
        self._image = directory / f"{key}.sqlite"
        self._mark = directory / f"{key}.json"
        self._lock = directory / f"{key}.lock"
        self._key = key

    def load(self, source: TemplateSource) -> Built | None:
        """What is kept; `None` when it is not there or half built."""
        try:
            mark = json.loads(self._mark.read_bytes())
            image = self._image.read_bytes()
            sums = {name: (count, int(total, 16)) for name, (count, total) in mark["tables"].items()}
            expected = mark["digest"]
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._broken(f"it cannot be read: {error}") from error
        shapes = (*shapes_of(source.metadata), SEQUENCES)
        if digest(image) != expected or sorted(sums) != sorted(shape.name for shape in shapes):
            raise self._broken("its bytes are not those that were sealed")
        counts, totals = (tuple(sums[shape.name][i] for shape in shapes) for i in (0, 1))
        return Built(image, shapes, frozenset(shape.name for shape in shapes[:-1]), counts, totals)

    def keep(self, built: Built) -> None:
        """Write the image, then the mark."""
        tables = zip(built.shapes, built.counts, built.totals, strict=True)
        mark = {
            "key": self._key,
            "digest": digest(built.image),
            "sqlite": sqlite3.sqlite_version,
            "tables": {shape.name: [count, f"{total:032x}"] for shape, count, total in tables},
        }
        self._write(self._image, built.image)
        self._write(self._mark, json.dumps(mark, indent=1, sort_keys=True).encode() + b"\n")

    def _write(self, path: Path, data: bytes) -> None:
        handle, name = tempfile.mkstemp(prefix=f"{path.name}.", dir=self._directory)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from building the same template."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            file = self._lock.open("a")
        except OSError as error:
            raise TemplateBroken(f"{self._directory}: templates cannot be kept there ({error.strerror}); name another directory") from error
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _broken(self, what: str) -> TemplateBroken:
        return TemplateBroken(f"template {self._image}: {what}; remove it and {self._mark.name} to have it built again")
