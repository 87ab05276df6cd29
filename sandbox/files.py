"""Files as data: what a world puts into a chamber, and what an episode changed there.

Paths are absolute, POSIX, and kept as `str` with `surrogateescape`, so that any byte but NUL survives.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from wardian.sandbox.fingerprint import digest


@dataclass(frozen=True, slots=True)
class FileEntry:
    data: bytes
    mode: int = 0o644
    """Permission bits. Parents that are missing are made with 0o755."""


@dataclass(frozen=True, slots=True)
class FileLayer:
    """A sealed, content-addressed set of files, owned by the agent's user unless a cell says otherwise."""

    entries: Mapping[str, FileEntry]
    key: str = field(init=False)

    def __post_init__(self) -> None:
        for path in self.entries:
            if not path.startswith("/") or "\0" in path or ".." in path.split("/") or path.endswith("/"):
                raise ValueError(f"entries: {path!r} is not an absolute, normal file path")
            try:
                path.encode("utf-8", "surrogateescape")
            except UnicodeEncodeError:
                raise ValueError(f"entries: {path!r} holds a lone surrogate, which no file name can") from None
        body = b"".join(
            b"%s\0%o\0%s\n" % (path.encode("utf-8", "surrogateescape"), entry.mode, digest(entry.data).encode())
            for path, entry in sorted(self.entries.items())
        )
        object.__setattr__(self, "key", digest(body))


class FileKind(StrEnum):
    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    OTHER = "other"
    """Fifo, socket or device."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    path: str
    kind: FileKind
    mode: int
    uid: int
    size_bytes: int
    link_target: str | None = None


@dataclass(frozen=True, slots=True)
class FileContent:
    data: bytes
    size_bytes: int
    """True size of the whole file, whatever part `data` is."""
    offset: int = 0


@dataclass(frozen=True, slots=True)
class FileChange:
    """One path that is not as it was when the chamber was made."""

    kind: FileKind | None
    """`None`: the path was removed."""
    mode: int = 0
    uid: int = 0
    size_bytes: int = 0
    content: str = ""
    """Digest of a file's bytes, or a link's target."""


@dataclass(frozen=True, slots=True)
class FileChanges:
    """All changed paths since the chamber was made, apart from declared debris."""

    changes: Mapping[str, FileChange]
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        body = "\n".join(repr((path, change)) for path, change in sorted(self.changes.items()))
        object.__setattr__(self, "digest", digest(body.encode("utf-8", "surrogateescape")))
