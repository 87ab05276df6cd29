"""A cell in memory, for tests of whatever stands on cells: no engine, no container, the same contract.

Files are real as far as the contract goes; commands answer what the `FakeScript` says; latencies and failures come from it as
well. Its reset is honest: it proves the state as the others do, so something that is made to survive is caught as a leak.
"""

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import anyio

from wardian.sandbox.cell import MOST_SEALED_BYTES, Captured, Cell, CellSpec, Command, ExecOutcome, ExecResult, ResetReceipt
from wardian.sandbox.errors import CellDied, DeathCause, FileProblem, FileProblemKind, LeakDetected, SandboxError, SnapshotTooLarge
from wardian.sandbox.files import FileChange, FileChanges, FileContent, FileEntry, FileInfo, FileKind, FileLayer
from wardian.sandbox.fingerprint import Fingerprint, digest
from wardian.sandbox.sealed import SealedFiles, check_start, start_of

AGENT_UID_SHOWN = 1000
"""What changes show for the agent's uid, whatever it is: as other cells do, so that digests agree between cells."""


def exited(code: int = 0, stdout: bytes = b"", stderr: bytes = b"") -> ExecResult:
    """The result of a command that ran to its end."""
    kept = (Captured(stdout, total_bytes=len(stdout)), Captured(stderr, total_bytes=len(stderr)))
    return ExecResult(ExecOutcome.EXITED, code, None, *kept, elapsed_ms=0.0)


def _succeed(command: Command) -> ExecResult:
    return exited()


@dataclass(slots=True)
class FakeScript:
    """What cells are to do. One script may serve many cells; each list is used up from its front, `None` for success."""

    commands: Callable[[Command], ExecResult] = _succeed
    """Answers a command, or raises one of the cell's errors."""
    starts: list[SandboxError | None] = field(default_factory=list)
    restores: list[SandboxError | None] = field(default_factory=list)
    start_s: float = 0.0
    restore_s: float = 0.0
    exec_s: float = 0.0
    stop_s: float = 0.0


class FakeCell(Cell):
    """See the module. `survivors` is for tests: names put there are still there after a reset, which is what a leak is."""

    def __init__(self, spec: CellSpec, uid: int = 20000, script: FakeScript | None = None) -> None:
        self.id = f"fake-{secrets.token_hex(4)}"
        self.tier = spec.tier
        self.spec = spec
        self.agent_uid = uid
        self.script = script or FakeScript()
        self.survivors: set[str] = set()
        self.image = "as built"
        """What a deep pass finds of the image; another text is a change that no reset sees."""
        self.deep_passes = 0
        self.running = False
        self.lost = False
        """After an error that a cell does not come back from."""
        self.epoch = 0
        self._files: dict[str, FileEntry] = {}

    async def start(self) -> None:
        await anyio.sleep(self.script.start_s)
        self._next(self.script.starts)
        self.running = True

    async def restore(self, files: SealedFiles | None = None) -> ResetReceipt:
        self._require_running()
        if files is not None and not files.empty:
            check_start(files, self.spec)
        await anyio.sleep(self.script.restore_s)
        self._next(self.script.restores)
        self._files = self._laid(files) if files is not None and not files.empty else dict(self._start_files())
        found, expected = Fingerprint({"survivors": ",".join(sorted(self.survivors))}), Fingerprint({"survivors": ""})
        if found.root != expected.root:
            self.lost = True
            raise LeakDetected(f"cell {self.id}", found.differences(expected))
        self.epoch += 1
        changes = await self.changes() if files is not None and not files.empty else None
        return ResetReceipt(self.id, self.tier, self.epoch, found, 0.0, self.script.restore_s * 1e3, 0.0, changes)

    async def seal_files(self, most_bytes: int = MOST_SEALED_BYTES) -> SealedFiles:
        self._require_chamber()
        if self._files == self._start_files():
            return SealedFiles(start_of(self.spec), b"[]", b"")
        data = b"".join(entry.data for entry in self._files.values())
        if len(data) > most_bytes:
            raise SnapshotTooLarge(f"cell {self.id}: the files hold more than {most_bytes} bytes; nothing was sealed")
        rows = [[path, entry.mode, len(entry.data)] for path, entry in self._files.items()]
        return SealedFiles(start_of(self.spec), json.dumps(rows).encode(), data)

    def _laid(self, files: SealedFiles) -> dict[str, FileEntry]:
        found, at = {}, 0
        for path, mode, size in json.loads(files.table):
            found[path] = FileEntry(files.data[at : at + size], mode)
            at += size
        return found

    async def exec(self, command: Command) -> ExecResult:
        self._require_chamber()
        await anyio.sleep(self.script.exec_s)
        return self.script.commands(command)

    async def read_file(self, path: str, offset: int = 0, max_bytes: int = 1 << 20) -> FileContent:
        self._require_chamber()
        full = self._absolute(path)
        if self._is_directory(full):
            raise FileProblem(FileProblemKind.IS_DIRECTORY, path, "is a directory")
        entry = self._files.get(full)
        if entry is None:
            raise self._absent(path, full)
        return FileContent(entry.data[offset : offset + max_bytes], len(entry.data), offset)

    async def write_files(self, layer: FileLayer, at: datetime | None = None) -> None:
        self._require_chamber()
        for path in layer.entries:
            if self._is_directory(path):
                raise FileProblem(FileProblemKind.IS_DIRECTORY, path, "is a directory")
            if any(parent in self._files for parent in _parents(path)):
                raise FileProblem(FileProblemKind.NOT_A_DIRECTORY, path, "a part of the path is a file")
        written = {**self._files, **layer.entries}
        if sum(len(entry.data) for entry in written.values()) > self.spec.limits.disk_mib << 20:
            raise FileProblem(FileProblemKind.DISK_FULL, next(iter(layer.entries)), "no space is left")
        self._files = written

    async def list_dir(self, path: str) -> tuple[FileInfo, ...]:
        self._require_chamber()
        full = self._absolute(path)
        if full in self._files:
            raise FileProblem(FileProblemKind.NOT_A_DIRECTORY, path, "is a file")
        if not self._is_directory(full):
            raise self._absent(path, full)
        below = full.rstrip("/") + "/"
        names = {name[len(below) :].partition("/")[0] for name in self._known() if name.startswith(below)}
        return tuple([replace(await self.stat(below + name), path=name) for name in sorted(names - {""})])

    async def stat(self, path: str) -> FileInfo:
        self._require_chamber()
        full = self._absolute(path)
        if self._is_directory(full):
            return FileInfo(full, FileKind.DIRECTORY, 0o755, self.agent_uid, 0)
        entry = self._files.get(full)
        if entry is None:
            raise self._absent(path, full)
        return FileInfo(full, FileKind.FILE, entry.mode, self.agent_uid, len(entry.data))

    async def changes(self) -> FileChanges:
        self._require_chamber()
        before = self._start_files()
        removed = {path: FileChange(None) for path in before if path not in self._files}
        written = {
            path: FileChange(FileKind.FILE, entry.mode, AGENT_UID_SHOWN, len(entry.data), digest(entry.data))
            for path, entry in self._files.items()
            if before.get(path) != entry
        }
        return FileChanges({**removed, **written})

    async def deep_check(self) -> Mapping[str, str]:
        self._require_chamber()
        self.deep_passes += 1
        return {"image": self.image}

    async def stop(self) -> None:
        if self.running:
            await anyio.sleep(self.script.stop_s)
        self.running = False

    def die(self) -> None:
        """End as a container ends that is removed from outside: whatever is asked of it next raises `CellDied`."""
        self.running = False

    def _next(self, outcomes: list[SandboxError | None]) -> None:
        error = outcomes.pop(0) if outcomes else None
        if error is not None:
            self.lost = True
            raise error

    def _require_running(self) -> None:
        if not self.running or self.lost:
            raise CellDied(self.id, DeathCause.INFRASTRUCTURE, "the cell is not running")

    def _require_chamber(self) -> None:
        self._require_running()
        if self.epoch == 0:
            raise CellDied(self.id, DeathCause.INFRASTRUCTURE, "there is no chamber: restore the cell first")

    def _start_files(self) -> Mapping[str, FileEntry]:
        return {path: entry for layer in self.spec.layers for path, entry in layer.entries.items()}

    def _known(self) -> set[str]:
        return {*self._files, self.spec.workdir}

    def _is_directory(self, path: str) -> bool:
        below = path.rstrip("/") + "/"
        return path in ("/", self.spec.workdir) or any(name.startswith(below) for name in self._known())

    def _absolute(self, path: str) -> str:
        if not path or "\0" in path:
            raise FileProblem(FileProblemKind.INVALID_PATH, path, "a path must not be empty or hold a NUL byte")
        parts: list[str] = []
        for part in (path if path.startswith("/") else f"{self.spec.workdir}/{path}").split("/"):
            if len(part.encode("utf-8", "surrogateescape")) > 255:
                raise FileProblem(FileProblemKind.NAME_TOO_LONG, path, "a name has more than 255 bytes")
            if part == "..":
                parts = parts[:-1]
            elif part not in ("", "."):
                parts.append(part)
        return "/" + "/".join(parts)

    def _absent(self, path: str, full: str) -> FileProblem:
        if any(parent in self._files for parent in _parents(full)):
            return FileProblem(FileProblemKind.NOT_A_DIRECTORY, path, "a part of the path is a file")
        if not self._is_directory(full.rpartition("/")[0] or "/"):
            return FileProblem(FileProblemKind.PARENT_NOT_FOUND, path, "its directory does not exist")
        return FileProblem(FileProblemKind.NOT_FOUND, path, "does not exist")


def _parents(path: str) -> tuple[str, ...]:
    parts = path.split("/")
    return tuple("/".join(parts[:count]) for count in range(2, len(parts)))
