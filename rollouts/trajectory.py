"""Trajectory files: one JSON line per record, written by one writer, readable after any crash.

The writer appends whole lines with one write each and flushes them; at the end of an episode it also syncs them to disk. It
locks its file, so two runs cannot interleave. A killed run leaves at most one torn line at the end. A writer that opens such a file begins
on a new line, and a reader skips what is torn and says so.

Lines are ASCII, and strict JSON (see `lines`). A lone surrogate is written as the text of its escape.
"""

import errno
import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio.to_thread
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from wardian.rollouts.blobs import BlobBroken, Blobs
from wardian.rollouts.coherence import AnyLine, Coherence
from wardian.rollouts.errors import EpisodeUnknown, LogBroken, LogInUse, LogMissing
from wardian.rollouts.lines import Finding, LineBroken, Place, decode, is_strict, may_be_torn, well_formed_json
from wardian.rollouts.records import ADAPTER, SCHEMA_VERSION, EpisodeEnd, EpisodeStart, Json, RunRecord, StepRecord
from wardian.rollouts.rules import COPY
from wardian.rollouts.torn import Torn

FILE = "trajectories.jsonl"

_KIND = re.compile(rb'"record": "(run|episode_start|step|episode_end)"')
_EPISODE = re.compile(rb'\{"episode_id": "((?:[^"\\]|\\.)*)"')


def dump(record: AnyLine, blobs: Blobs | None = None) -> str:
    """One record as one line of JSON, without its end of line; its large texts go into `blobs`, where there are some.

    Raises:
        ValueError: a number is NaN or infinite.
        OSError: a blob cannot be stored.
    """
    fields = ordered(record.model_dump())
    if blobs is not None:
        fields = blobs.put_away(fields)
    text = json.dumps(fields, ensure_ascii=True, allow_nan=False)
    # Surrogates in pairs are ordinary characters; only then is it worth a closer look.
    return json.dumps(well_formed_json(fields), ensure_ascii=True, allow_nan=False) if "\\ud" in text else text


def ordered(fields: dict[str, Json]) -> dict[str, Json]:
    """Put the fields that trainers read first."""
    first = [name for name in StepRecord.model_fields if name in fields] if "episode_id" in fields else []
    return {name: fields[name] for name in first} | fields


def load(line: str | bytes, blobs: Blobs | None = None) -> AnyLine:
    """Read one line; its large texts come out of `blobs`.

    Raises:
        ValueError: it is no JSON (`json.JSONDecodeError`, `LineBroken`) or not of the schema (`pydantic.ValidationError`).
        BlobBroken: a blob is missing, or was altered.
    """
    return _of(decode(line), blobs)


def _of(value: Json, blobs: Blobs | None) -> AnyLine:
    return ADAPTER.validate_python(blobs.take_back(value) if blobs and isinstance(value, dict) else value)


class TrajectoryWriter:
    """Appends to one file. Use it as a context; not from several threads at once."""

    def __init__(self, path: Path) -> None:
        """Open `path`, which may exist, and its folder, which is made.

        Raises:
            LogInUse: another writer has it open.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._blobs = Blobs.beside(path)
        self._file = path.open("a+b", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.close()
            raise LogInUse(f"{path}: another run is writing to it; choose another folder") from error
        if self._is_torn():
            self._append(b"\n")

    def write(self, record: AnyLine) -> None:
        """Append one line; whole in the kernel's hands when this returns.

        Raises:
            OSError: the disk is full, or the like; nothing of the line stands there then.
        """
        self._append(dump(record, self._blobs).encode("ascii") + b"\n")

    async def sync(self) -> None:
        """Bring all that was written onto the disk."""
        await anyio.to_thread.run_sync(self._sync)

    def close(self) -> None:
        """Sync and close. Idempotent."""
        if not self._file.closed:
            try:
                self._sync()
            finally:
                self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _sync(self) -> None:
        self._blobs.sync()
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            if error.errno != errno.EINVAL:  # a pipe or device, which has nothing to sync
                raise

    def _is_torn(self) -> bool:
        size = self._file.seek(0, os.SEEK_END)
        if size == 0:
            return False
        self._file.seek(size - 1)
        return self._file.read(1) != b"\n"

    def _append(self, data: bytes) -> None:
        rest, whole = memoryview(data), os.fstat(self._file.fileno()).st_size
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            with suppress(OSError):  # of a pipe or device, which takes nothing back
                self._file.truncate(whole)
            raise


@dataclass(slots=True)
class TrajectoryLog:
    """The trajectories in a folder (every `*.jsonl` of it) or in one file, by episode."""

    runs: list[tuple[Place, RunRecord]] = field(default_factory=list)
    episodes: dict[str, list[Place]] = field(default_factory=dict)
    """Places of each episode's lines, all attempts, in order. A step's line is not read before it is asked for."""
    ends: dict[str, list[Place]] = field(default_factory=dict)
    """Those of them that may be an attempt's last line."""
    warnings: list[str] = field(default_factory=list)
    """Torn lines that were skipped."""

    @classmethod
    def open(cls, where: Path) -> "TrajectoryLog":
        """Find the lines of all episodes. Of each no more is kept than its place; whether it is of the schema is seen when it is read.

        Raises:
            LogBroken: there is no trajectory, a `run` line is not readable, or a line is no JSON where no crash can have left it; names
                file and line.
        """
        log = cls()
        for file in files_of(where):
            torn = Torn()
            for place, line in lines_of(file):
                log._take(place, line, torn)
            if torn.held is not None:
                log.warnings.append(str(torn.held))
        if not log.episodes and not log.runs:
            raise LogBroken(f"{where}: holds no whole line of a trajectory")
        return log

    def find(self, name: str) -> str:
        """The id of the episode that `name` means: an id, the end of one, or its number within the run.

        Raises:
            EpisodeUnknown: none, or several.
        """
        if name in self.episodes:
            return name
        ending = f"-{int(name):05d}" if name.isascii() and name.isdigit() else name
        found = [known for known in self.episodes if known.endswith(ending)]
        if len(found) == 1:
            return found[0]
        some = ", ".join(list(self.episodes)[:3])
        raise EpisodeUnknown(
            f"episode: {'several are' if found else 'none is'} named {name!r}; there are {len(self.episodes)}, such as {some}"
        )

    def last_end(self, episode_id: str) -> EpisodeEnd | None:
        """The last line of the highest attempt that has one.

        Raises:
            LogBroken: as `records`.
        """
        read = (self._read(place) for place in self.ends.get(episode_id, ()))
        return max((record for record in read if isinstance(record, EpisodeEnd)), key=lambda end: end.attempt, default=None)

    def records(self, episode_id: str) -> list[EpisodeStart | StepRecord | EpisodeEnd]:
        """All readable lines of an episode.

        Raises:
            LogBroken: a line is not of the schema; names file, line and field.
        """
        read = [self._read(place) for place in self.episodes[episode_id]]
        return [record for record in read if not isinstance(record, RunRecord)]

    def attempts(self, episode_id: str) -> "list[AttemptLog]":
        """The episode's attempts, in order.

        Raises:
            LogBroken: as `records`.
        """
        found: dict[int, AttemptLog] = {}
        for record in self.records(episode_id):
            attempt = found.setdefault(record.attempt, AttemptLog(episode_id, record.attempt))
            match record:
                case EpisodeStart():
                    attempt.start = record
                case StepRecord():
                    attempt.steps.append(record)
                case EpisodeEnd():
                    attempt.end = record
        return [found[number] for number in sorted(found)]

    @staticmethod
    def _read(place: Place) -> AnyLine:
        record, findings = check(place, place.read())
        if findings:
            raise LogBroken(str(findings[0]))
        assert record is not None, "a line without findings is a record"
        return record

    def _take(self, place: Place, line: bytes, torn: Torn) -> None:
        """Take the next line of a file."""
        named = _EPISODE.match(line)
        if named and place.ended and torn.held is None and is_strict(line):
            self._keep(json.loads(b'"' + named[1] + b'"'), place, line)
            return
        record, findings = check(place, line)
        if (before := torn.settle(record)) is not None:
            if not before.torn:
                raise LogBroken(str(before))
            self.warnings.append(str(before))
        if torn.hold(findings):
            return
        if findings:
            raise LogBroken(str(findings[0]))
        if isinstance(record, RunRecord):
            self.runs.append((place, record))
        elif record is not None:
            self._keep(record.episode_id, place, line)

    def _keep(self, episode_id: str, place: Place, line: bytes) -> None:
        self.episodes.setdefault(episode_id, []).append(place)
        if kind_of(line) == "episode_end":
            self.ends.setdefault(episode_id, []).append(place)


@dataclass(slots=True)
class AttemptLog:
    """One attempt at an episode, as far as it was written."""

    episode_id: str
    number: int
    start: EpisodeStart | None = None
    steps: list[StepRecord] = field(default_factory=list)
    end: EpisodeEnd | None = None


def files_of(where: Path) -> list[Path]:
    """The trajectory files that `where` means.

    Raises:
        LogMissing: there is none.
        LogBroken: one is empty.
    """
    found = [where] if where.is_file() else sorted(where.glob("*.jsonl")) if where.is_dir() else []
    if not found:
        what = "holds no *.jsonl file" if where.is_dir() else "is neither a file nor a folder" if where.exists() else "is not there"
        raise LogMissing(f"{where}: {what}; give the folder that `wardian run --out` made")
    for file in found:
        if not file.stat().st_size:
            raise LogBroken(f"{file}: is empty; a trajectory begins with a run line")
    return found


def lines_of(file: Path) -> Iterator[tuple[Place, bytes]]:
    """Every line that is not empty, with its place."""
    offset = 0
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            body = line.rstrip(b"\n")
            if body:
                yield Place(file, number, offset, len(body), ended=line.endswith(b"\n")), body
            offset += len(line)


def check(place: Place, line: bytes) -> tuple[AnyLine | None, list[Finding]]:
    """Read a line, or say all that is wrong with it."""
    try:
        value = decode(line)
    except json.JSONDecodeError as error:
        if may_be_torn(line):
            return None, [Finding(place, "", f"torn by a crash, skipped: {error.msg} at column {error.colno}", torn=True)]
        return None, [Finding(place, "", f"is no JSON: {error.msg} at column {error.colno}", fix=COPY)]
    except LineBroken as error:
        return None, [Finding(place, error.field, str(error), record=kind_of(line), fix=error.fix)]
    except RecursionError:
        return None, [Finding(place, "", "nested too deeply to be read", record=kind_of(line), fix="delete the line")]
    kind = str(value.get("record", "")) if isinstance(value, dict) else ""
    if kind and isinstance(other := value.get("schema_version"), int) and other != SCHEMA_VERSION:
        says = f"this log is of format {other}, and this Wardian reads {SCHEMA_VERSION}"
        return None, [Finding(place, "schema_version", says, record=kind, fix="use the version of Wardian that wrote it")]
    try:
        return _of(value, Blobs.beside(place.file)), []
    except BlobBroken as error:
        return None, [Finding(place, error.path, str(error), record=kind, fix="copy the folder with its blobs")]
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        if any(not problem["loc"] for problem in problems):
            return None, [Finding(place, "", NO_RECORD, fix="delete the line, or name the right file")]
        return None, [
            Finding(place, _path(problem["loc"]), _says(problem), record=kind, fix=FIXES.get(problem["type"], FIX)) for problem in problems
        ]


def _says(problem: ErrorDetails) -> str:
    """What pydantic found, in the words of a finding."""
    return {"missing": "is missing", "extra_forbidden": "is no field of this record"}.get(
        problem["type"], problem["msg"].removeprefix("Value error, ").replace("Input should", "should")
    )


NO_RECORD = "is no record of ours: `record` must be run, episode_start, step or episode_end"
FIX = "write what `wardian schema` says"
FIXES = {"missing": "add it", "extra_forbidden": "delete it"}
"""By pydantic's name of the error."""


def kind_of(line: bytes) -> str:
    """The kind of a line that cannot be read."""
    found = _KIND.search(line)
    return found[1].decode() if found else ""


def validate(where: Path) -> Iterator[tuple[AnyLine | None, list[Finding]]]:
    """Check every line, and all lines against each other. What is no JSON is torn, and a warning, only where a crash can leave it: at the
    end of a file, or before the `run` line of a later writer.

    Raises:
        LogMissing: there is no trajectory.
        LogBroken: a file is empty, or not one line is whole.
    """
    log, whole = Coherence(), 0
    for file in files_of(where):
        log.begin_file()
        torn = Torn()
        for place, line in lines_of(file):
            record, findings = check(place, line)
            whole += record is not None or not findings[0].torn
            if (before := torn.settle(record)) is not None:
                yield None, [before]
            if record is None and (named := _EPISODE.match(line)) and not findings[0].torn:
                log.skip(named[1].decode("ascii", "replace"))
            if not torn.hold(findings):
                yield record, findings if record is None else list(log.take(place, record))
        if torn.held is not None:
            yield None, [torn.held]
    yield from ((None, [finding]) for finding in log.close())
    if not whole:
        raise LogBroken(f"{where}: holds no whole line of a trajectory")


def damage(where: Path) -> Finding | None:
    """The first thing that `validate` refuses, as no crash leaves it; `None` where there is none.

    Raises:
        LogMissing, LogBroken: as `validate`.
    """
    return next((finding for _, findings in validate(where) for finding in findings if not finding.torn), None)


def _path(location: tuple[int | str, ...]) -> str:
    """A field's path in words; the first part is the kind of record that the line said it is."""
    parts = location[1:] if location and location[0] in ("run", "episode_start", "step", "episode_end") and len(location) > 1 else location
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")
