"""Snapshots on disk: content-addressed parts, and a manifest that is written last.

    DIR/snapshot.json   format, key, and the digest of each part
    DIR/parts/DIGEST    the state as JSON; files and database as they were sealed

The key is the digest of the manifest's list, so it names every byte. It guards against damage and mix-ups, not against somebody who
writes a whole snapshot of his own: whoever may write the folder may do that. Nothing in it is code.
"""

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from wardian.envs.codec import made, plain
from wardian.envs.snapshot import Snapshot
from wardian.sandbox.database.sealed import SealedDatabase, SealedState
from wardian.sandbox.errors import SnapshotRefused, SnapshotTooLarge
from wardian.sandbox.fingerprint import Fingerprint, digest
from wardian.sandbox.sealed import LeftOut, SealedFiles

FORMAT = 1
MANIFEST, PARTS, STATE = "snapshot.json", "parts", "state"
MOST_BYTES = 256 << 20
"""Of a saved snapshot."""


def key_of(snapshot: Snapshot) -> str:
    """The content address of a snapshot. The epoch is part of it, and what was left out."""
    return _key({name: digest(body) for name, body in _parts(snapshot)})


def save(snapshot: Snapshot, directory: Path, most_bytes: int = MOST_BYTES) -> str:
    """Write a snapshot to `directory`, which is not there yet; gives its key. It is there whole or not at all.

    Raises:
        FileExistsError: something is there.
        SnapshotTooLarge: it would be more than `most_bytes`; nothing was written.
        OSError: it cannot be written.
    """
    if directory.exists():
        raise FileExistsError(f"{directory} is there already; name a folder that is not, each snapshot has one of its own")
    parts = dict(_parts(snapshot))
    size = sum(map(len, parts.values()))
    if size > most_bytes:
        raise SnapshotTooLarge(f"a snapshot of {snapshot.task_id} takes {size} bytes, and {most_bytes} are allowed")
    names = {name: digest(body) for name, body in parts.items()}
    directory.parent.mkdir(parents=True, exist_ok=True)
    beside = directory.parent / f".{directory.name}.{secrets.token_hex(4)}"
    try:
        (beside / PARTS).mkdir(parents=True)
        for name, body in parts.items():
            _write(beside / PARTS / names[name], body)
        manifest = {"format": FORMAT, "key": _key(names), "parts": names}
        _write(beside / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True).encode() + b"\n")
        beside.rename(directory)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return _key(names)


def load(directory: Path, key: str | None = None, most_bytes: int = MOST_BYTES) -> Snapshot:
    """Read a snapshot that `save` wrote, in any process. With `key`, no other one is taken.

    Raises:
        SnapshotRefused: there is none, a part is missing, damaged or changed, or it is of another format or key.
    """
    try:
        manifest = json.loads((directory / MANIFEST).read_bytes())
        found, names = manifest["format"], manifest["parts"]
        if found != FORMAT:
            raise SnapshotRefused(f"{directory}: format {found}, and this version reads {FORMAT}: take the snapshot again")
        if not isinstance(names, dict) or manifest["key"] != _key(names):
            raise SnapshotRefused(f"{directory}: {MANIFEST} was changed: its key is not that of its parts")
        if key not in (None, manifest["key"]):
            raise SnapshotRefused(f"{directory}: it is the snapshot {manifest['key']}, and {key} was asked for")
        return _snapshot(_read(directory / PARTS, names, most_bytes))
    except OSError as error:
        raise SnapshotRefused(f"{directory}: no whole snapshot: {error.filename}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SnapshotRefused(f"{directory}: no whole snapshot: {MANIFEST} or a part is damaged; take the snapshot again") from error


def _key(names: Mapping[str, str]) -> str:
    return digest(json.dumps({"format": FORMAT, "parts": dict(names)}, sort_keys=True).encode("utf-8", "surrogatepass"))


def _write(path: Path, body: bytes) -> None:
    with path.open("wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())


def _read(folder: Path, names: Mapping[str, str], most_bytes: int) -> dict[str, bytes]:
    parts, left = {}, most_bytes
    for name, expected in names.items():
        if not expected.isalnum():
            raise SnapshotRefused(f"{folder}: {expected!r} is no name of a part")
        with (folder / expected).open("rb") as file:
            body = file.read(left + 1)
        left -= len(body)
        if left < 0:
            raise SnapshotRefused(f"{folder}: it holds more than {most_bytes} bytes")
        if digest(body) != expected:
            raise SnapshotRefused(f"{folder}: the part {name} is not what was saved: torn, or changed")
        parts[name] = body
    return parts


def _parts(snapshot: Snapshot) -> Iterator[tuple[str, bytes]]:
    database, files = snapshot.database, snapshot.sealed_files
    state = plain(replace(snapshot, database=None, sealed_files=None))
    if database is not None:
        states = (database.present, *database.copies)
        state["database"] = {"template_key": database.template_key, "leaves": [dict(one.fingerprint.leaves) for one in states]}
        yield "database/journal", database.journal
        for number, one in enumerate(states):
            yield f"database/{number}", one.body
    if files is not None:
        state["sealed_files"] = {"start": files.start, "left_out": asdict(files.left_out)}
        yield "files/table", files.table
        yield "files/data", files.data
    yield STATE, json.dumps(state, ensure_ascii=True, sort_keys=True).encode()


def _snapshot(parts: Mapping[str, bytes]) -> Snapshot:
    state = json.loads(parts[STATE])
    database, files = state["database"], state["sealed_files"]
    bare = made(Snapshot, {**state, "database": None, "sealed_files": None})
    return replace(
        bare,
        database=_database(database, parts) if database is not None else None,
        sealed_files=_files(files, parts) if files is not None else None,
    )


def _database(state: Mapping[str, Any], parts: Mapping[str, bytes]) -> SealedDatabase:
    states = [
        SealedState(made(Fingerprint, {"leaves": leaves}), parts[f"database/{number}"]) for number, leaves in enumerate(state["leaves"])
    ]
    return SealedDatabase(state["template_key"], states[0], tuple(states[1:]), parts["database/journal"])


def _files(state: Mapping[str, Any], parts: Mapping[str, bytes]) -> SealedFiles:
    return SealedFiles(state["start"], parts["files/table"], parts["files/data"], made(LeftOut, state["left_out"]))
