"""What kind of source a file is, by its first bytes, and why some are none."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from wardian.sandbox.database.imports.sqlite_file import HEADER
from wardian.sandbox.errors import ImportRefused

HEAD = 4096
LFS = b"version https://git-lfs.github.com/spec/"


class Form(StrEnum):
    SQLITE = "SQLite file"


@dataclass(frozen=True, slots=True)
class Found:
    """A source, and what it is."""

    form: Form
    path: Path


def sniff(path: Path) -> Found:
    """Look at the file at `path`.

    Raises:
        ImportRefused: it is nothing that can be imported; says what it seems to be.
    """
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
    except IsADirectoryError:
        raise ImportRefused(f"{path}: a folder, and no dump in pg_dump's directory format; name the database's file") from None
    except OSError as error:
        raise ImportRefused(f"{path}: cannot be read: {error.strerror}") from error
    check_head(head, str(path))
    if head.startswith(HEADER):
        return Found(Form.SQLITE, path)
    raise ImportRefused(f"{path}: no database that can be read: it begins with {head[:16]!r}; a SQLite file is wanted")


def check_head(head: bytes, name: str) -> None:
    """Refuse what only stands for a database.

    Raises:
        ImportRefused: it is empty, or a pointer to a file that was not fetched.
    """
    if not head:
        raise ImportRefused(f"{name}: the file is empty")
    if head.startswith(LFS):
        raise ImportRefused(f"{name}: a pointer of git-lfs and not the file itself; fetch it: git lfs pull")
    if head.lstrip(b"./").startswith(b"git/annex/objects/") or head.startswith(b"/annex/objects/"):
        raise ImportRefused(f"{name}: a pointer of git-annex and not the file itself; fetch it: git annex get {name}")
    if not head.strip(b"\x00"):
        raise ImportRefused(f"{name}: nothing but zeros; the file was never written, or its disk lost it")
