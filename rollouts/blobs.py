"""Large texts of a trajectory, stored once each beside it: in `blobs/`, each file named by the BLAKE3 digest of its bytes.

A line holds `{"blob": digest, "size_bytes": n}` in the place of such a text. Writers put them there and readers take them back, so that
nothing else knows of it. A blob is whole before a line names it, and is synced to disk before the lines are.
"""

import os
import tempfile
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from blake3 import blake3
from pydantic import WithJsonSchema

from wardian.rollouts.lines import well_formed

FOLDER = "blobs"
LARGE_BYTES = 16 * 1024
"""A text whose UTF-8 is longer than this becomes a blob."""

_DIGITS = set("0123456789abcdef")
REFERENCE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"blob": {"type": "string", "pattern": "^[0-9a-f]{64}$"}, "size_bytes": {"type": "integer", "minimum": 0}},
    "required": ["blob", "size_bytes"],
    "additionalProperties": False,
}
LargeText: TypeAlias = Annotated[str, WithJsonSchema({"anyOf": [{"type": "string"}, REFERENCE_SCHEMA]})]
"""A text that stands in a line itself, or as a reference to a blob."""


class BlobBroken(Exception):
    """A blob is not there, or not what its name says."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path
        """Of the field that names it, such as `observation.rendered`."""


@dataclass(slots=True)
class Blobs:
    """The blobs beside the trajectories of one folder. Several writers may share it."""

    folder: Path
    _unsynced: deque[Path] = field(default_factory=deque)
    """Filled by the writer's thread while another one may sync."""
    _known: set[str] = field(default_factory=set)

    @classmethod
    def beside(cls, file: Path) -> "Blobs":
        """Those of a trajectory's file. Nothing is made before there is one to store."""
        return cls(file.parent / FOLDER)

    def put_away(self, line: dict[str, Any]) -> dict[str, Any]:
        """Give the fields of a line with its large texts stored and replaced; `line` stays as it is.

        Raises:
            OSError: one cannot be stored.
        """
        return _changed(line, lambda path, value: self._put(value) if isinstance(value, str) else value)

    def take_back(self, line: dict[str, Any]) -> dict[str, Any]:
        """Give the fields of a line with its large texts in their places.

        Raises:
            BlobBroken: one is missing, or was altered; names the field.
        """
        return _changed(line, lambda path, value: self._get(path, value) if isinstance(value, dict) else value)

    def sync(self) -> None:
        """Bring all that was stored onto the disk; before the lines that name it."""
        if self._unsynced:
            while self._unsynced:
                _sync(self._unsynced.popleft())
            _sync(self.folder)

    def _put(self, text: str) -> str | dict[str, Any]:
        if len(text) * 4 <= LARGE_BYTES:
            return text
        data = well_formed(text).encode()
        if len(data) <= LARGE_BYTES:
            return text
        name = blake3(data).hexdigest()
        if name not in self._known:
            self._store(self.folder / name, data)
            self._known.add(name)
        return {"blob": name, "size_bytes": len(data)}

    def _store(self, path: Path, data: bytes) -> None:
        if path.is_file() and path.stat().st_size == len(data):
            return
        self.folder.mkdir(exist_ok=True)
        handle, unfinished = tempfile.mkstemp(prefix=".", dir=self.folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.chmod(unfinished, 0o644)
            os.replace(unfinished, path)
        except BaseException:
            Path(unfinished).unlink(missing_ok=True)
            raise
        self._unsynced.append(path)

    def _get(self, path: str, reference: dict[str, Any]) -> str:
        name, size_bytes = reference.get("blob"), reference.get("size_bytes")
        if not isinstance(name, str) or len(name) != 64 or not set(name) <= _DIGITS:
            raise BlobBroken(path, "is neither text nor a reference to a blob")
        try:
            data = (self.folder / name).read_bytes()
        except OSError as error:
            raise BlobBroken(path, f"blob {name} cannot be read: {error.strerror}") from error
        if len(data) != size_bytes or blake3(data).hexdigest() != name:
            raise BlobBroken(path, f"blob {name} was altered: its bytes are not those that it is named by")
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise BlobBroken(path, f"blob {name} is no text: byte {error.start} is not UTF-8") from error


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _changed(line: dict[str, Any], change: Callable[[str, Any], Any]) -> dict[str, Any]:
    """A line with each of its texts that may be large as `change` gives it: renderings, and attachments of events."""
    found = dict(line)
    observation = line.get("observation")
    if isinstance(observation, dict) and "rendered" in observation:
        found["observation"] = {**observation, "rendered": change("observation.rendered", observation["rendered"])}
    events = line.get("events")
    if isinstance(events, list):
        found["events"] = [_event(f"events[{number}].attachments", event, change) for number, event in enumerate(events)]
    return found


def _event(path: str, event: Any, change: Callable[[str, Any], Any]) -> Any:
    attachments = event.get("attachments") if isinstance(event, dict) else None
    if not isinstance(attachments, dict) or not attachments:
        return event
    return {**event, "attachments": {name: change(f"{path}.{name}", value) for name, value in attachments.items()}}
