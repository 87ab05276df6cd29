"""Paths as an agent writes and reads them."""

import posixpath

from wardian.sandbox.cell import Cell
from wardian.sandbox.errors import FileProblem, FileProblemKind

NOT_UTF8 = "Bytes of a name that are not UTF-8 stand as \\x.. in it; these tools cannot reach such a file."


def resolved(cell: Cell, path: str) -> str:
    """The absolute, normal path that an agent means.

    Raises:
        FileProblem: it is empty or holds a NUL.
    """
    if not path or "\0" in path:
        raise FileProblem(FileProblemKind.INVALID_PATH, path, "a path is text without NUL, and not empty")
    whole = posixpath.normpath(posixpath.join(cell.spec.workdir, path))
    return "/" + whole.lstrip("/")


def as_text(name: str) -> str:
    """A name of the file system for people and models; what is not UTF-8 in it stands as `\\xff`."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def is_text(name: str) -> bool:
    """Whether a name of the file system is UTF-8, so that an agent can write it."""
    return name.isascii() or as_text(name) == name
