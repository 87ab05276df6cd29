"""The cell: where an episode's commands and files live, and nothing else of it.

`Cell` is what the rest of Wardian sees; one backend class per restore tier fills in the underscored methods. The public
methods hold the policy (deadlines, caps, error mapping), so no backend can forget it. A cell serves one episode at a time,
and its methods are not called concurrently except where said.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from wardian.sandbox.files import FileChanges, FileContent, FileInfo, FileLayer
from wardian.sandbox.fingerprint import Fingerprint
from wardian.sandbox.sealed import SealedFiles
from wardian.sandbox.timeouts import Timeouts

BASH = "/bin/bash"
MOST_SEALED_BYTES = 64 << 20


class Tier(StrEnum):
    CHAMBER = "chamber"
    """Fresh namespaces and a fresh overlay inside one long-lived container."""
    FRESH = "fresh"
    """A pre-started container takes the place of the used one."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Per cell. The container's own memory limit is derived: agent + every tmpfs + headroom for the supervisor."""

    memory_mib: int = 256
    """What the agent's processes may use together."""
    disk_mib: int = 64
    """Files that an episode may write (the upper layer)."""
    shm_mib: int = 16
    processes: int = 128
    cpus: float = 1.0
    open_files: int = 1024
    file_size_mib: int = 64


@dataclass(frozen=True, slots=True)
class CellSpec:
    image: str
    """An image that holds the supervisor, by reference."""
    tier: Tier = Tier.CHAMBER
    layers: tuple[FileLayer, ...] = ()
    """The world's files, below everything an episode writes; the last one wins."""
    limits: Limits = field(default_factory=Limits)
    timeouts: Timeouts = field(default_factory=Timeouts)
    workdir: str = "/workspace"
    hostname: str = "world"
    agent_uid: int | None = None
    """`None`: the pool gives each cell a uid of its own, from 20000 up."""
    deep_checks: bool = False
    """Whether the pool has every file of a cell's root hashed when the cell is made, after a leak anywhere, and when asked to."""
    shell: str = BASH
    """What runs scripts; empty where the image has no shell, and then a script could not start."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables of the image, between the pinned base environment and a command's own."""
    runtime: str | None = None
    """An engine runtime such as `runsc`; `None` is the engine's default."""


@dataclass(frozen=True, slots=True)
class Command:
    """What to run in the chamber, as the agent. `argv`, or `script` passed as data to the image's shell, never spliced."""

    argv: tuple[str, ...] = ()
    script: str | None = None
    stdin: bytes = b""
    """Given to the command, then end-of-file."""
    timeout_s: float = 30.0
    workdir: str | None = None
    environment: tuple[tuple[str, str], ...] = ()
    """On top of the pinned base environment."""
    output_cap_bytes: int = 64 * 1024
    """For each of stdout and stderr: half is kept of the head, half of the tail."""

    def __post_init__(self) -> None:
        if bool(self.argv) == (self.script is not None):
            raise ValueError("argv, script: give exactly one of them")
        if not 0 < self.timeout_s <= 3600:
            raise ValueError(f"timeout_s: must be above 0 and at most 3600, got {self.timeout_s}")


class ExecOutcome(StrEnum):
    EXITED = "exited"
    """The command ran to its own end; `exit_code` is set, zero or not."""
    COULD_NOT_START = "could_not_start"
    """No such program, not executable, or no such working directory; nothing ran."""
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    KILLED = "killed"
    """Ended by a signal that was not ours; `signal` is set."""


@dataclass(frozen=True, slots=True)
class Captured:
    """One output stream. When it was cut, `head` and `tail` are its two ends."""

    head: bytes = b""
    tail: bytes = b""
    total_bytes: int = 0

    @property
    def truncated(self) -> bool:
        return self.total_bytes > len(self.head) + len(self.tail)

    @property
    def data(self) -> bytes:
        """All that was kept."""
        return self.head + self.tail

    def text(self) -> str:
        """For the model: U+FFFD for what is not UTF-8, and a notice with the true size where it was cut."""
        if not self.truncated:
            return self.data.decode("utf-8", "replace")
        missing = self.total_bytes - len(self.head) - len(self.tail)
        notice = f"\n[... {missing} of {self.total_bytes} bytes left out ...]\n"
        return self.head.decode("utf-8", "replace") + notice + self.tail.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class ExecResult:
    outcome: ExecOutcome
    exit_code: int | None
    """The command's own code when it exited; 128 + signal when it was killed; `None` when it did not start."""
    signal: int | None
    stdout: Captured
    stderr: Captured
    elapsed_ms: float
    """The command's own time; never start-up or queueing."""
    left_behind: int = 0
    """Processes of the call that outlived the direct child and were ended."""
    detail: str = ""
    """Why it could not start; else empty."""


@dataclass(frozen=True, slots=True)
class ResetReceipt:
    """Proof that a cell was given in the promised state. Never made for a reset that was not verified."""

    cell_id: str
    tier: Tier
    epoch: int
    """How many times this cell was restored; 1 is the first."""
    fingerprint: Fingerprint
    ended_ms: float
    """Ending what was there, as far as it took longer than making the new start state, which happens beside it."""
    made_ms: float
    """Making the new start state; what the chamber itself measures of it is part of this."""
    verified_ms: float
    """The supervisor's own measurements, and the comparison. Time in queues of the host is in none of the three."""
    changes: FileChanges | None = None
    """What `changes` would find, where sealed files were laid and the cell has looked already; else `None`."""

    @property
    def total_ms(self) -> float:
        return self.ended_ms + self.made_ms + self.verified_ms


class Cell(ABC):
    """One hardened container and what belongs to it.

    Life: `start` once; `restore` before each episode; `exec` and the file methods during it; `stop` at the end (idempotent,
    safe after any failure). After `CellDied`, `CellTimeout` or `LeakDetected` only `stop` is allowed.
    """

    id: str
    tier: Tier
    spec: CellSpec
    agent_uid: int

    @abstractmethod
    async def start(self) -> None:
        """Make the container and wait for its supervisor.

        Raises:
            EngineUnavailable: the engine failed; the step is named.
            CellUnavailable: the container started but its supervisor did not answer, or the tier does not work here.
        """

    @abstractmethod
    async def restore(self, files: SealedFiles | None = None) -> ResetReceipt:
        """End what was, make the start state anew, with `files` laid into it where they are given, and prove it.

        Raises:
            SnapshotRefused: `files` stand on another image, layers or tier, and the cell is as it was; or they are damaged, and the cell
                is to be restored once more.
            LeakDetected: the state is not the promised one; the cell is to be quarantined.
            CellDied, CellTimeout: the cell is lost.
        """

    @abstractmethod
    async def seal_files(self, most_bytes: int = MOST_SEALED_BYTES) -> SealedFiles:
        """Read all that was made of the files since `restore`, whole; at most `most_bytes` of content. Nothing changes.

        Processes that run meanwhile are named in it, and may have changed one file after another was read.

        Raises:
            SnapshotTooLarge: it would be more.
            SnapshotRefused: a file cannot be read as it is now.
            CellDied, CellTimeout: the cell is lost.
        """

    @abstractmethod
    async def exec(self, command: Command) -> ExecResult:
        """Run `command` once. Never repeated, whatever happens. May be called concurrently.

        Cancelling it ends the command and everything born of it.

        Raises:
            CellDied, CellTimeout: the cell is lost; the state of the command is unknown.
        """

    @abstractmethod
    async def read_file(self, path: str, offset: int = 0, max_bytes: int = 1 << 20) -> FileContent:
        """Read up to `max_bytes` from `offset` of a regular file, as the agent's user.

        Raises:
            FileProblem: see its kinds.
        """

    @abstractmethod
    async def write_files(self, layer: FileLayer, at: datetime | None = None) -> None:
        """Write all of `layer` as the agent's user; parents are made; a file of any size up to the disk limit.

        Each file is replaced whole or left as it was. `at` is the time of change of the files and of the folders that hold them; else the
        host's, as of whatever the agent writes by itself.

        Raises:
            FileProblem: see its kinds.
        """

    @abstractmethod
    async def list_dir(self, path: str) -> tuple[FileInfo, ...]:
        """Entries of a directory by name, links not followed.

        Raises:
            FileProblem: see its kinds.
        """

    @abstractmethod
    async def stat(self, path: str) -> FileInfo:
        """What stands at `path`, a final link not followed.

        Raises:
            FileProblem: see its kinds.
        """

    @abstractmethod
    async def changes(self) -> FileChanges:
        """Every path that is not as it was right after `restore`."""

    async def deep_check(self) -> Mapping[str, str]:
        """Digests of every file that a start state is made from, by part (the image, each layer); seconds, not milliseconds.

        Equal for all cells of one spec. Empty for a backend that has nothing to look at.

        Raises:
            CellDied, CellTimeout: the cell is lost.
        """
        return {}

    @abstractmethod
    async def stop(self) -> None:
        """End the cell and all that is in it. Idempotent; never raises for a cell that is gone."""
