"""The files of an episode as one sealed thing: read whole from one cell, and laid into any other of the same start.

In the `chamber` tier it is the upper layer of the overlay, exactly; in the `fresh` tier what differs from the start. The format is the
supervisor's own (`Sealing` there): a table of entries, and the bytes of the files one after another.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wardian.sandbox.errors import SnapshotRefused
from wardian.sandbox.fingerprint import digest

if TYPE_CHECKING:
    from wardian.sandbox.cell import CellSpec


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What lived in a cell when its files were sealed and is no part of them; at most fifty of each."""

    processes: tuple[str, ...] = ()
    """Processes of the agent: number and command."""
    objects: tuple[str, ...] = ()
    """Shared memory and message queues, by name or kind."""


@dataclass(frozen=True, slots=True)
class SealedFiles:
    start: str
    """What the files stand on; see `start_of`."""
    table: bytes
    data: bytes
    left_out: LeftOut = LeftOut()
    key: str = field(init=False)
    """Content address."""

    def __post_init__(self) -> None:
        lengths = f"{len(self.table)} {len(self.data)} {self.start}\n".encode()
        object.__setattr__(self, "key", digest(lengths + self.table + self.data))

    @property
    def empty(self) -> bool:
        """Whether it holds nothing: then a clean start is as good."""
        return self.table == EMPTY_TABLE

    @property
    def size_bytes(self) -> int:
        return len(self.table) + len(self.data)

    def contents(self, most_bytes: int) -> dict[str, bytes]:
        """Bytes by path of the regular files that it holds whole, those of more than `most_bytes` left out."""
        found: dict[str, bytes] = {}
        by_entry: dict[int, bytes] = {}
        parents, at = [""], 0
        for number, (depth, name, kind, _, _, _, _, content, _) in enumerate(json.loads(self.table)):
            path = f"{parents[depth - 1]}/{name}"
            parents[depth:] = [path]
            if kind == "file":
                size, extents = content
                if size <= most_bytes:
                    by_entry[number] = found[path] = self._filled(size, extents, at)
                at += sum(length for _, length in extents)
            elif kind == "hard" and content in by_entry:
                found[path] = by_entry[content]
        return found

    def _filled(self, size: int, extents: list[tuple[int, int]], at: int) -> bytes:
        """One file from its extents, whose bytes begin at `at`; what lies between them is holes."""
        body = bytearray(size)
        for start, length in extents:
            body[start : start + length] = self.data[at : at + length]
            at += length
        return bytes(body)

    @property
    def laid_digest(self) -> str:
        """What a cell must report after it has laid them and read them back."""
        hasher = hashlib.blake2b(self.data, digest_size=16)
        hasher.update(self.table)
        return hasher.hexdigest()


EMPTY_TABLE = b"[]"


def start_of(spec: CellSpec) -> str:
    """What the start state of a cell's files depends on, in readable words."""
    layers = ",".join(layer.key for layer in spec.layers)
    return json.dumps({"tier": spec.tier.value, "image": spec.image, "layers": layers, "workdir": spec.workdir}, sort_keys=True)


def check_start(files: SealedFiles, spec: CellSpec) -> None:
    """Look whether `files` stand on what cells of `spec` start from.

    Raises:
        SnapshotRefused: they do not; names what differs.
    """
    theirs, ours = json.loads(files.start), json.loads(start_of(spec))
    wrong = [f"{name}: {theirs.get(name)!r}, and here it is {value!r}" for name, value in ours.items() if theirs.get(name) != value]
    if wrong:
        raise SnapshotRefused(f"files of a snapshot stand on something else: {'; '.join(wrong)}")
