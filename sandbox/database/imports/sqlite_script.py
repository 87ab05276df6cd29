"""Runs a SQL script for SQLite on a database in memory, where it can reach nothing else."""

import re
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from wardian.sandbox.database.imports.report import LeftOut
from wardian.sandbox.database.imports.script import Command, Copy, Statement, parts_of
from wardian.sandbox.errors import ImportRefused

TIME_S = 600.0
MAX_BYTES = 4 << 30
"""Of the database, and again of its temporary tables."""
_STEPS = 1_000_000
_OTHERS_FILES = (".import", ".read", ".restore", ".load", ".open", ".archive")
_SKIPPED = re.compile(r"(CREATE|DROP|ALTER) DATABASE\b|USE\b|GRANT\b|REVOKE\b")
_DENIED = {
    sqlite3.SQLITE_ATTACH: "ATTACH (or VACUUM INTO)",
    sqlite3.SQLITE_DETACH: "DETACH",
    sqlite3.SQLITE_CREATE_VTABLE: "CREATE VIRTUAL TABLE",
}
_PRAGMAS = frozenset(
    {"foreign_keys", "encoding", "user_version", "application_id", "auto_vacuum"}
    | {"legacy_file_format", "foreign_key_check", "integrity_check", "quick_check", "defer_foreign_keys", "ignore_check_constraints"}
)
_INERT = frozenset({"journal_mode", "synchronous", "locking_mode", "cache_size", "temp_store", "page_size"})
"""Pragmas about a file; there is none. They do nothing here, however they are written: a larger page would be a larger database."""


@contextmanager
def database_of_script(script: str, name: str) -> Iterator[tuple[Path, tuple[LeftOut, ...]]]:
    """A database file that the script has made, and what of the script was not run.

    Raises:
        ImportRefused: a statement failed or may not be run, or the script is cut short; with its line.
    """
    with TemporaryDirectory(prefix="wardian-import-") as folder:
        path = Path(folder) / "database.sqlite"
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as raw:
            left_out = _Run(raw, name).all(script)
            with closing(sqlite3.connect(path)) as file:
                raw.backup(file)
        yield path, left_out


class _Run:
    def __init__(self, raw: sqlite3.Connection, name: str) -> None:
        self._raw, self._name = raw, name
        self._denied = ""
        self._skipped: Counter[tuple[str, str]] = Counter()
        self._lines: dict[tuple[str, str], int] = {}
        self._until = time.monotonic() + TIME_S
        for schema in ("main", "temp"):
            (page_bytes,) = raw.execute(f"PRAGMA {schema}.page_size").fetchone()
            raw.execute(f"PRAGMA {schema}.max_page_count = {MAX_BYTES // page_bytes}")
        raw.set_authorizer(self._authorize)
        raw.set_progress_handler(lambda: time.monotonic() > self._until, _STEPS)

    def all(self, script: str) -> tuple[LeftOut, ...]:
        line = 0
        try:
            for part in parts_of(script, "sqlite"):
                line = part.statement.line if isinstance(part, Copy) else part.line
                self._one(part)
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise ImportRefused(f"{self._name}: line {line}: {self._denied or error}") from error
        except UnicodeDecodeError as error:
            raise ImportRefused(f"{self._name}: line {line}: no UTF-8; convert it: iconv -f LATIN1 -t UTF-8") from error
        except ImportRefused as error:
            raise ImportRefused(f"{self._name}: {error}") from error
        if self._raw.in_transaction:
            raise ImportRefused(f"{self._name}: cut short: it ends inside a transaction; get the whole script, or end it with COMMIT;")
        return tuple(LeftOut(what=what, name=name, count=n, line=self._lines[what, name]) for (what, name), n in self._skipped.items())

    def _one(self, part: Statement | Copy | Command) -> None:
        if isinstance(part, Copy):
            raise ImportRefused(f"line {part.statement.line}: COPY is Postgres'; say --engine postgres")
        if isinstance(part, Command):
            if part.name in _OTHERS_FILES:
                raise ImportRefused(f"line {part.line}: {part.name} reads another file; import a script or database that holds everything")
            self._skip("command", part.name, part.line)
        elif _SKIPPED.match(" ".join(part.words)):
            self._skip("statement", " ".join(part.words[:2]), part.line)
        else:
            self._denied = ""
            cursor = self._raw.execute(part.text.encode("latin-1").decode())
            while cursor.fetchmany(1000):
                pass
            cursor.close()

    def _skip(self, what: str, name: str, line: int) -> None:
        self._skipped[what, name] += 1
        self._lines.setdefault((what, name), line)

    def _authorize(self, action: int, first: str | None, second: str | None, database: str | None, source: str | None) -> int:
        if action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in _INERT:
            return sqlite3.SQLITE_IGNORE
        if action in _DENIED:
            self._denied = f"{_DENIED[action]} cannot be done in an import"
        elif action == sqlite3.SQLITE_PRAGMA and (first or "").lower() not in _PRAGMAS:
            self._denied = f"PRAGMA {first} cannot be done in an import; take it out"
        elif action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in ("load_extension", "fts3_tokenizer", "writefile", "readfile"):
            self._denied = f"{second}() cannot be used in an import"
        else:
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY
