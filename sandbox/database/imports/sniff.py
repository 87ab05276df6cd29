"""What kind of source a file is, by its first bytes, and why some are none."""

import bz2
import gzip
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from wardian.sandbox.database.imports.sqlite_file import HEADER
from wardian.sandbox.errors import ImportRefused

Packed: TypeAlias = gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile
HEAD = 4096
MAX_UNPACKED_BYTES = 2 << 30
MAX_SCRIPT_BYTES = 512 << 20
MAX_SQLITE_BYTES = 2 << 30
"""A clone lies in memory."""
NEWEST_ARCHIVE = (1, 14)
"""Of archives of pg_dump, as Postgres 15 writes and reads them."""
ARCHIVE = b"PGDMP"
_TAR_END = bytes(1024)
_ARCHIVES_OF = {(1, 15): "16", (1, 16): "17"}
_PACKED: dict[bytes, Callable[[Path], Packed]] = {
    b"\x1f\x8b": gzip.GzipFile,
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
_OTHER = {
    b"PK\x03\x04": "a zip file; unpack it and import what is in it",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; unpack it: zstd -d",
    b"7z\xbc\xaf": "a 7z file; unpack it and import what is in it",
    b"\x00\x01\x00\x00Standard": "a Microsoft Access database, which cannot be read; export it as SQL or to SQLite",
    b"-- MySQL dump": "a dump of MySQL; SQLite and Postgres can be read",
    b"-- MariaDB dump": "a dump of MariaDB; SQLite and Postgres can be read",
}
_POINTERS = (
    (b"version https://git-lfs.github.com/spec/", "git-lfs", "git lfs pull"),
    (b"/annex/objects/", "git-annex", "git annex get ."),
)


class Form(StrEnum):
    SQLITE = "SQLite file"
    SCRIPT = "SQL script"
    ARCHIVE = "pg_dump archive"


@dataclass(frozen=True, slots=True)
class Found:
    """A source, and what it is."""

    form: Form
    path: Path
    name: str
    """As the user gave it, for messages."""


@contextmanager
def found_at(path: Path) -> Iterator[Found]:
    """The source at `path`, unpacked for the length of the block.

    Raises:
        ImportRefused: it is nothing that can be imported; says what it seems to be.
    """
    with TemporaryDirectory(prefix="wardian-import-") as folder:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ImportRefused(f"{path}: neither a file nor a folder")
        unpacked = path
        if not path.is_dir() and (opened := _unpacker(_head(path, str(path)))):
            unpacked = Path(folder) / "unpacked"
            _unpack(opened, path, unpacked)
        yield Found(_form(unpacked, str(path)), unpacked, str(path))


def _head(path: Path, name: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(HEAD)
    except OSError as error:
        raise ImportRefused(f"{name}: cannot be read: {error.strerror}") from error


def _unpacker(head: bytes) -> Callable[[Path], Packed] | None:
    return next((opened for magic, opened in _PACKED.items() if head.startswith(magic)), None)


def _unpack(opened: Callable[[Path], Packed], path: Path, to: Path) -> None:
    size = 0
    try:
        with opened(path) as source, to.open("wb") as target:
            while block := source.read(1 << 20):
                size += len(block)
                if size > MAX_UNPACKED_BYTES:
                    raise ImportRefused(f"{path}: more than {MAX_UNPACKED_BYTES >> 30} GiB when unpacked; a template that large is no use")
                target.write(block)
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise ImportRefused(f"{path}: cut short or damaged: it cannot be unpacked ({error}); get it again") from error


def _form(path: Path, name: str) -> Form:
    if path.is_dir():
        if (path / "toc.dat").is_file():
            _check_archive(_head(path / "toc.dat", f"{name}/toc.dat"), name)
            return Form.ARCHIVE
        raise ImportRefused(f"{name}: a folder, and no dump in pg_dump's directory format (it lacks toc.dat); name the database's file")
    head = _head(path, name)
    _check_head(head, name)
    if head.startswith(HEADER):
        if path.stat().st_size > MAX_SQLITE_BYTES:
            raise ImportRefused(f"{name}: more than {MAX_SQLITE_BYTES >> 30} GiB; each clone lies in memory, so import a smaller excerpt")
        return Form.SQLITE
    if head.startswith(ARCHIVE):
        _check_archive(head, name)
        return Form.ARCHIVE
    if head[257:262] == b"ustar":
        _check_tar(path, name)
        return Form.ARCHIVE
    if (b"\x00" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff"))) or not _is_texty(head):
        if any(not any(half) for half in (head[::2], head[1::2])):
            raise ImportRefused(f"{name}: it seems to be UTF-16 without a mark; convert it: iconv -f UTF-16LE -t UTF-8")
        hint = "it may be encrypted (decrypt it first, with SQLCipher: sqlcipher_export), or of another program"
        raise ImportRefused(f"{name}: no database that can be read: it begins with {head[:12]!r}; {hint}")
    if path.stat().st_size > MAX_SCRIPT_BYTES:
        raise ImportRefused(f"{name}: a script of more than {MAX_SCRIPT_BYTES >> 20} MiB; make an archive instead: pg_dump -Fc")
    return Form.SCRIPT


def _is_texty(head: bytes) -> bool:
    """Whether it may be text in some encoding: hardly any control characters."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return True
    controls = sum(byte < 32 and byte not in b"\t\n\r\f\v\b\x1b" for byte in head)
    return controls * 50 <= len(head)


def _check_head(head: bytes, name: str) -> None:
    if not head:
        raise ImportRefused(f"{name}: the file is empty")
    for begins, of, fix in _POINTERS:
        if head.startswith(begins):
            raise ImportRefused(f"{name}: a pointer of {of} and not the file itself; fetch it: {fix}")
    if not head.strip(b"\x00"):
        raise ImportRefused(f"{name}: nothing but zeros; the file was never written, or its disk lost it")
    if head.startswith(HEADER[:-1]) and not head.startswith(HEADER):
        raise ImportRefused(f"{name}: a SQLite file that was copied as text: its zero bytes are gone; copy it again, as bytes")
    if _unpacker(head):
        raise ImportRefused(f"{name}: packed twice; unpack it once and import what is in it")
    for magic, what in _OTHER.items():
        if head.startswith(magic):
            raise ImportRefused(f"{name}: {what}")


def _check_archive(head: bytes, name: str) -> None:
    if not head.startswith(ARCHIVE) or len(head) < 11:
        raise ImportRefused(f"{name}: cut short or no archive of pg_dump; make it again: pg_dump -Fc")
    version = (head[5], head[6])
    if version > NEWEST_ARCHIVE:
        made = f" (by pg_dump {_ARCHIVES_OF[version]})" if version in _ARCHIVES_OF else ""
        newest = ".".join(map(str, NEWEST_ARCHIVE))
        raise ImportRefused(
            f"{name}: an archive of the newer format {version[0]}.{version[1]}{made}; up to {newest} can be read;"
            f" turn it into a script with the newer program and import that: pg_restore -f dump.sql {name}"
        )


def _check_tar(path: Path, name: str) -> None:
    try:
        with tarfile.open(path) as tar:
            member = tar.next()
            file = tar.extractfile(member) if member is not None and member.name == "toc.dat" else None
            if file is None:
                raise ImportRefused(f"{name}: a tar file that pg_dump did not make; unpack it and import what is in it")
            _check_archive(file.read(HEAD), name)
        with path.open("rb") as packed:
            packed.seek(-len(_TAR_END), 2)
            if packed.read() != _TAR_END:
                raise ImportRefused(f"{name}: cut short: the end of the tar file is missing; get it again")
    except (tarfile.TarError, OSError) as error:
        raise ImportRefused(f"{name}: cut short or damaged: {error}") from error
