"""A private copy of somebody's SQLite file, with what stands in its logs. Only the copy is opened, which changes files."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from wardian.sandbox.errors import ImportRefused

HEADER = b"SQLite format 3\x00"
HEADER_BYTES = 100
ATTEMPTS = 3
_FRACTIONS = bytes((64, 32, 32))
"""Stand in every header from the 22nd byte on."""
_LOGGED = 2
"""Stands 18 bytes into the header of a database with a write-ahead log."""
_LOGS = ("-wal", "-journal")
_PART_OF_MORE = bytes.fromhex("d9d505f920a163d7")
"""A journal that ends so belongs to a transaction over several files."""


@contextmanager
def private_copy(path: Path, name: str) -> Iterator[Path]:
    """A copy of the database at `path`, in one file, as of its last commit.

    Raises:
        ImportRefused: it cannot be read, is cut short, too new, or is being written.
    """
    with TemporaryDirectory(prefix="wardian-import-") as folder:
        copy = Path(folder) / "database.sqlite"
        _copy_all(path, copy)
        head, logged = copy.read_bytes()[:HEADER_BYTES], Path(f"{copy}-wal").exists()
        check_header(head, copy.stat().st_size, name, logged=logged)
        try:
            with closing(sqlite3.connect(copy, isolation_level=None)) as raw:
                mode = raw.execute("PRAGMA journal_mode = DELETE").fetchone()[0]
                (objects,) = raw.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.Error as error:
            raise ImportRefused(f"{name}: SQLite {sqlite3.sqlite_version} cannot read it: {error}") from error
        if not objects and head[18] == _LOGGED and not logged:
            raise ImportRefused(f"{name}: empty, and it had a log ({name}-wal), which is not beside it; copy both")
        if mode != "delete":
            raise ImportRefused(f"{name}: its log could not be taken in; copy it with: sqlite3 {path} '.backup copy.sqlite'")
        yield copy


def _copy_all(path: Path, copy: Path) -> None:
    """Copy the file and its logs, all of one moment."""
    for _ in range(ATTEMPTS):
        before = _stamps(path)
        try:
            shutil.copyfile(path, copy)
            for log in _LOGS:
                Path(f"{copy}{log}").unlink(missing_ok=True)
                if Path(f"{path}{log}").exists():
                    shutil.copyfile(f"{path}{log}", f"{copy}{log}")
        except OSError as error:
            raise ImportRefused(f"{error.filename or path}: cannot be read: {error.strerror}") from error
        if _stamps(path) == before:
            break
    else:
        raise ImportRefused(f"{path}: it is being written just now; stop its writer, or copy it with: sqlite3 {path} '.backup copy.sqlite'")
    journal = Path(f"{copy}-journal")
    if journal.exists() and journal.read_bytes().endswith(_PART_OF_MORE):
        raise ImportRefused(f"{path}: a transaction over several database files was broken off; open it once with sqlite3, then import it")


def _stamps(path: Path) -> list[tuple[int, int, int]]:
    found = []
    for one in (path, *(Path(f"{path}{log}") for log in _LOGS)):
        try:
            stat = one.stat()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ImportRefused(f"{one}: cannot be read: {error.strerror}") from error
        found.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
    return found


def check_header(head: bytes, size: int, name: str, *, logged: bool = False) -> None:
    """Look at what the first 100 bytes say of the file. `logged`: a write-ahead log may hold pages that the file lacks.

    Raises:
        ImportRefused: it is cut short or of a newer format.
    """
    if len(head) < HEADER_BYTES:
        raise ImportRefused(f"{name}: cut short: {size} bytes are less than the header of a SQLite database; copy it again, whole")
    if head[21:24] != _FRACTIONS:
        raise ImportRefused(
            f"{name}: damaged: its header is not SQLite's; it was copied as text, or its disk lost it; copy it again, as bytes"
        )
    writes, reads = head[18], head[19]
    if max(writes, reads) > 2 or int.from_bytes(head[44:48], "big") > 4:
        raise ImportRefused(
            f"{name}: of a newer format of SQLite (write {writes}, read {reads}, schema {int.from_bytes(head[44:48], 'big')}) than"
            f" SQLite {sqlite3.sqlite_version} reads; dump it with the newer sqlite3 (.dump) and import the script"
        )
    page = int.from_bytes(head[16:18], "big")
    pages = int.from_bytes(head[28:32], "big")
    should = pages * (65536 if page == 1 else page)
    says_so = head[24:28] == head[92:96]
    if says_so and size < should and not logged:
        raise ImportRefused(f"{name}: cut short: its header tells of {should} bytes, the file has {size}; copy it again, whole")
