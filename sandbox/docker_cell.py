"""Cells on a container engine: both restore tiers.

`ChamberCell` keeps one container for its whole life and has its supervisor end and make a chamber at each `restore`.
`FreshCell` takes a pre-started container in place of the used one; its supervisor needs no SYS_ADMIN and no NET_ADMIN.
Both speak the same frames, so commands and files are the same code.
"""

import json
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

import anyio

from wardian.sandbox.cell import (
    BASH,
    MOST_SEALED_BYTES,
    Captured,
    Cell,
    CellSpec,
    Command,
    ExecOutcome,
    ExecResult,
    ResetReceipt,
    Tier,
)
from wardian.sandbox.container import Container, start_container
from wardian.sandbox.engine import Engine
from wardian.sandbox.errors import (
    CellDied,
    CellTimeout,
    DeathCause,
    FileProblem,
    FileProblemKind,
    LeakDetected,
    SnapshotRefused,
    SnapshotTooLarge,
)
from wardian.sandbox.files import FileChange, FileChanges, FileContent, FileInfo, FileKind, FileLayer
from wardian.sandbox.fingerprint import Fingerprint
from wardian.sandbox.frames import ConnectionLost, Reply
from wardian.sandbox.options import HEADROOM_MIB
from wardian.sandbox.sealed import LeftOut, SealedFiles, check_start, start_of

SCRIPT_AS_ARGUMENT_BYTES = 32 * 1024
"""Scripts that are longer as JSON go to bash by descriptor instead of by argument; to another shell they cannot go."""
REQUEST_BYTES = 48 * 1024
"""Room for arguments and environment of one command."""
READ_BYTES = 1 << 20


def agreed(leaves: Mapping[str, str], baseline: Mapping[str, str] | None, tier: Tier, laid: str = "") -> dict[str, str]:
    """What the leaves of a clean start must read: absolute where that is known, else as in the cell's first chamber.

    `laid` is the digest of the files that it begins with.
    """
    absolute = {"processes": "", "shm": "", "mqueue": "", "strangers": "", "ipc": json.dumps({"msg": 0, "sem": 0, "shm": 0})}
    if tier is Tier.CHAMBER or laid:
        absolute["upper"] = laid
    expected = dict(baseline if baseline is not None else leaves)
    if not laid and tier is Tier.FRESH:
        expected.pop("upper", None)
    expected.update({name: value for name, value in absolute.items() if name in leaves or name in expected})
    return expected


class DockerCell(Cell):
    """What both tiers share: everything but where a clean start comes from."""

    def __init__(self, spec: CellSpec, engine: Engine, uid: int) -> None:
        self.spec = spec
        self.agent_uid = uid
        self.id = ""
        self._engine = engine
        self._container: Container | None = None
        self._epoch = 0
        self._baseline: dict[str, str] | None = None
        self._stopped = False

    async def start(self) -> None:
        self._container = await self._new_container()
        self.id = self._container.name

    async def _new_container(self) -> Container:
        return await start_container(self._engine, self.spec, self.tier, self.agent_uid)

    @abstractmethod
    async def _prepare(self, clean_is_enough: bool) -> Container:
        """Give the container in which the next start state is to be made; one that nothing was done in since, where that is enough."""

    async def restore(self, files: SealedFiles | None = None) -> ResetReceipt:
        laid = files if files is not None and not files.empty else None
        if laid is not None:
            check_start(laid, self.spec)
            if laid.size_bytes > self._staging_bytes:
                raise SnapshotRefused(f"files of a snapshot: {laid.size_bytes} bytes do not fit this cell's memory: {self._staging_bytes}")
        container = await self._prepare(clean_is_enough=laid is not None)
        container.begin()
        blobs = (laid.table, laid.data) if laid is not None else ()
        reply = await self._ask(container, "restore", self.spec.timeouts.restore_s, blobs)
        result = reply.result
        if "unfit" in result:
            raise SnapshotRefused(f"cell {self.id}: files of a snapshot: {result['unfit']}")
        if "failed" in result:
            raise await self._death(container, f"no chamber could be made: {result['failed']}", result)
        began = time.perf_counter()
        leaves: dict[str, str] = result["leaves"]
        expected = Fingerprint(agreed(leaves, self._baseline, self.tier, laid.laid_digest if laid is not None else ""))
        found = Fingerprint(leaves)
        if found.root != expected.root:
            raise LeakDetected(f"cell {self.id}", found.differences(expected))
        if self._baseline is None:
            self._baseline = dict(leaves)
        self._epoch += 1
        verified_ms = result["verified_ms"] + (time.perf_counter() - began) * 1e3
        changes = file_changes(reply.data) if laid is not None else None
        return ResetReceipt(self.id, self.tier, self._epoch, found, result["ended_ms"], result["made_ms"], verified_ms, changes)

    async def seal_files(self, most_bytes: int = MOST_SEALED_BYTES) -> SealedFiles:
        container = self._running()
        most = min(most_bytes, self._staging_bytes)
        reply = await self._ask(container, "seal", self.spec.timeouts.files_s, most_bytes=most)
        result = reply.result
        if "failed" in result:
            raise await self._death(container, str(result["failed"]), result)
        if "too_much" in result:
            raise SnapshotTooLarge(f"cell {self.id}: {result['too_much']}; nothing was sealed")
        if "unfit" in result:
            raise SnapshotRefused(f"cell {self.id}: a file cannot be sealed: {result['unfit']}")
        at = len(reply.data) - result["table"]
        left = LeftOut(*(tuple(result["left_out"][name]) for name in ("processes", "objects")))
        return SealedFiles(start_of(self.spec), reply.data[at:], reply.data[:at], left)

    async def exec(self, command: Command) -> ExecResult:
        try:
            request, blobs = self._encode(command)
        except UnicodeEncodeError as error:
            return not_started(f"the script is not valid text: {error.reason}")
        if problem := self._refused(command, request, blobs):
            return not_started(problem)
        timeouts = self.spec.timeouts
        container = self._running()
        reply = await self._ask(container, "exec", command.timeout_s + timeouts.exec_grace_s + 6, blobs, **request)
        if "failed" in reply.result:
            raise await self._death(container, str(reply.result["failed"]), reply.result)
        if not reply.result["confirmed"]:
            raise CellDied(self.id, DeathCause.POLICY, "the processes of a command could not be ended within 5 s")
        return decode_result(reply)

    def _refused(self, command: Command, request: dict[str, Any], blobs: Sequence[bytes]) -> str:
        """Why a command cannot be sent; empty when it can."""
        if command.script is not None and not self.spec.shell:
            return f"the image {self.spec.image} has no shell that could run a script"
        if len(json.dumps(request)) > REQUEST_BYTES:
            return f"arguments and environment are larger than {REQUEST_BYTES} bytes: pass the data by stdin or a file"
        if sum(map(len, blobs)) > self._staging_bytes:
            return f"stdin and script are larger than {self._staging_bytes} bytes: pass the data by files"
        return ""

    @property
    def _staging_bytes(self) -> int:
        """What may wait in the container's memory on its way to a command or a file."""
        return (self.spec.limits.memory_mib + HEADROOM_MIB) << 19

    def _encode(self, command: Command) -> tuple[dict[str, Any], list[bytes]]:
        blobs: list[bytes] = []
        argv = list(command.argv)
        by_descriptor = False
        if command.stdin:
            blobs.append(command.stdin)
        if command.script is not None:
            script = command.script.encode("utf-8", "surrogateescape")
            too_long = len(json.dumps(command.script)) > SCRIPT_AS_ARGUMENT_BYTES or b"\0" in script
            by_descriptor = too_long and self.spec.shell == BASH
            if by_descriptor:
                blobs.append(script)
            else:
                argv = [self.spec.shell, "-c", command.script]
        request = {
            "argv": argv,
            "stdin": bool(command.stdin),
            "script": by_descriptor,
            "workdir": command.workdir or self.spec.workdir,
            "environment": {**dict(self.spec.environment), **dict(command.environment)},
            "timeout_s": command.timeout_s,
            "grace_s": min(0.25, self.spec.timeouts.exec_grace_s),
            "cap": command.output_cap_bytes,
        }
        return request, blobs

    async def read_file(self, path: str, offset: int = 0, max_bytes: int = READ_BYTES) -> FileContent:
        if offset < 0 or max_bytes < 0 or offset + max_bytes >= 1 << 63:
            raise FileProblem(FileProblemKind.INVALID_PATH, path, "offset and max_bytes must not be negative, nor beyond 63 bits")
        reply = await self._file("read", path, offset=offset, limit=max_bytes)
        return FileContent(reply.data, reply.result["size"], offset)

    async def write_files(self, layer: FileLayer, at: datetime | None = None) -> None:
        for path in layer.entries:
            if len(path.encode("utf-8", "surrogatepass")) >= 4096:
                raise FileProblem(FileProblemKind.NAME_TOO_LONG, path[:100], "the path is too long")
        table = json.dumps([[path, entry.mode, len(entry.data)] for path, entry in layer.entries.items()]).encode()
        data = b"".join(entry.data for entry in layer.entries.values())
        most = min(self.spec.limits.disk_mib << 20, self._staging_bytes)
        if len(data) > most:
            first = next(iter(layer.entries), "")
            raise FileProblem(FileProblemKind.TOO_LARGE, first, f"{len(data)} bytes are more than may be written at once: {most} bytes")
        time_ms = round(at.timestamp() * 1000) if at is not None else None
        await self._file("write", "/", blobs=(table, data), time_ms=time_ms)

    async def list_dir(self, path: str) -> tuple[FileInfo, ...]:
        reply = await self._file("list", path)
        return tuple(file_info(row) for row in json.loads(reply.data))

    async def stat(self, path: str) -> FileInfo:
        return file_info((await self._file("stat", path)).result)

    async def changes(self) -> FileChanges:
        container = self._running()
        reply = await self._ask(container, "changes", self.spec.timeouts.files_s)
        if "failed" in reply.result:
            raise await self._death(container, str(reply.result["failed"]), reply.result)
        return file_changes(reply.data)

    async def deep_check(self) -> Mapping[str, str]:
        container = self._running()
        reply = await self._ask(container, "deep", self.spec.timeouts.deep_s)
        if "failed" in reply.result:
            raise await self._death(container, str(reply.result["failed"]), reply.result)
        digests: dict[str, str] = reply.result["digests"]
        # These hold the agent's uid, which is another one in each cell.
        own = f"of uid {self.agent_uid}: "
        return {own + name if name == "builtin" or self.tier is Tier.FRESH else name: digest for name, digest in digests.items()}

    async def stop(self) -> None:
        self._stopped = True
        container, self._container = self._container, None
        if container is not None:
            await container.stop()

    def _running(self) -> Container:
        if self._container is None:
            raise CellDied(self.id or "(not started)", DeathCause.INFRASTRUCTURE, "the cell is not running")
        return self._container

    async def _file(self, operation: str, path: str, blobs: Sequence[bytes] = (), **fields: Any) -> Reply:
        if not path or "\0" in path:
            raise FileProblem(FileProblemKind.INVALID_PATH, path, "a path must not be empty or hold a NUL byte")
        full = path if path.startswith("/") else f"{self.spec.workdir}/{path}"
        if len(full.encode("utf-8", "surrogatepass")) >= 4096:  # PATH_MAX; JSON may write it six times as long
            raise FileProblem(FileProblemKind.NAME_TOO_LONG, path[:100], "the path is too long")
        container = self._running()
        reply = await self._ask(container, operation, self.spec.timeouts.files_s, blobs, path=full, **fields)
        result = reply.result
        if "failed" in result:
            raise await self._death(container, str(result["failed"]), result)
        if "problem" in result:
            raise FileProblem(FileProblemKind(result["problem"]), str(result["path"]), str(result["message"]))
        return reply

    async def _ask(self, container: Container, operation: str, deadline_s: float, blobs: Sequence[bytes] = (), **fields: Any) -> Reply:
        """One bounded request; a cut stream is a death of the cell, and its cause is looked up."""
        try:
            with anyio.fail_after(deadline_s):
                return await container.connection.request(operation, blobs, **fields)
        except TimeoutError:
            if await container.busy_with_the_agent():
                raise CellDied(
                    self.id, DeathCause.POLICY, f"{operation} did not finish within {deadline_s:g} s: the agent's load"
                ) from None
            raise CellTimeout(self.id, operation, deadline_s) from None
        except ConnectionLost as lost:
            raise await self._death(container, str(lost)) from None

    async def _death(self, container: Container, detail: str, result: Mapping[str, Any] = MappingProxyType({})) -> CellDied:
        """`result` is what the supervisor said, where it could: it knows best whose doing a failure is."""
        told = result.get("cause") == DeathCause.POLICY.value
        return CellDied(self.id, DeathCause.POLICY if told else await container.cause_of_death(), detail)


class ChamberCell(DockerCell):
    """One long-lived container; each `restore` ends its chamber and makes a new one."""

    tier = Tier.CHAMBER

    async def _prepare(self, clean_is_enough: bool) -> Container:
        return self._running()


class FreshCell(DockerCell):
    """A container per epoch: `restore` ends the used one and starts the next. A pool does it in the background."""

    tier = Tier.FRESH

    def __init__(self, spec: CellSpec, engine: Engine, uid: int) -> None:
        super().__init__(spec, engine, uid)
        self._restored = False
        self._touched = False
        """Whether anything may have been changed in the container."""

    async def _prepare(self, clean_is_enough: bool) -> Container:
        clean = not self._touched and (clean_is_enough or not self._restored)
        self._restored, self._touched = True, clean_is_enough
        if clean:
            return self._running()
        old, self._container = self._container, None
        if old is not None:
            await old.stop()
        self._container = fresh = await self._new_container()
        self.id = fresh.name
        return fresh

    async def _ask(self, container: Container, operation: str, deadline_s: float, blobs: Sequence[bytes] = (), **fields: Any) -> Reply:
        self._touched = self._touched or operation in ("exec", "write")
        return await super()._ask(container, operation, deadline_s, blobs, **fields)


def make_cell(spec: CellSpec, engine: Engine, uid: int) -> DockerCell:
    """The cell class of the spec's tier."""
    return ChamberCell(spec, engine, uid) if spec.tier is Tier.CHAMBER else FreshCell(spec, engine, uid)


def not_started(why: str) -> ExecResult:
    """The result of a command of which nothing ran."""
    return ExecResult(ExecOutcome.COULD_NOT_START, None, None, Captured(), Captured(), 0.0, detail=why)


def decode_result(reply: Reply) -> ExecResult:
    """Cut the reply's bytes into the four kept pieces."""
    result, at, streams = reply.result, 0, []
    for head, tail, total in result["streams"]:
        streams.append(Captured(reply.data[at : at + head], reply.data[at + head : at + head + tail], total))
        at += head + tail
    return ExecResult(
        outcome=ExecOutcome(result["outcome"]),
        exit_code=result["exit_code"],
        signal=result["signal"],
        stdout=streams[0],
        stderr=streams[1],
        elapsed_ms=result["elapsed_ms"],
        left_behind=result["left_behind"],
        detail=result["detail"],
    )


def file_info(row: Mapping[str, Any]) -> FileInfo:
    return FileInfo(row["path"], FileKind(row["kind"]), row["mode"], row["uid"], row["size"], row["target"])


def file_changes(manifest: bytes) -> FileChanges:
    return FileChanges({path: file_change(entry) for path, entry in json.loads(manifest).items()})


def file_change(entry: Sequence[Any] | None) -> FileChange:
    if entry is None:
        return FileChange(None)
    return FileChange(FileKind(entry[0]), entry[1], entry[2], entry[3], entry[4])
