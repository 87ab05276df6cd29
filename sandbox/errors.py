"""What can go wrong below the word *task*.

    SandboxError
    ├── EngineUnavailable   the container engine is absent, hung, or answered with a failure; names the step
    ├── CellUnavailable     a cell could not be made or started
    ├── ImageUnfit          an image that was asked for is not there, or cannot be a cell; says what to do
    ├── CellDied            the cell ended under an episode; `cause` says whose doing it was
    ├── CellTimeout         a deadline of ours (not of a command) passed
    ├── LeakDetected        a reset did not give the promised state; carries the first differences
    ├── SnapshotTooLarge    a snapshot would be larger than allowed; what it was to be taken of goes on
    ├── SnapshotRefused     a snapshot is damaged, or is of something else than what it was to become; says why
    ├── DatabaseLost        the database server is gone, refuses connections, or cannot go on
    ├── TemplateBroken      a template is unusable or is no database
    ├── ImportRefused       somebody's database cannot be taken as it is; says why and what to do
    ├── DatabaseProblem     a statement of the agent was refused or stopped; `kind` says how
    ├── FileProblem         a file operation of the agent failed; `kind` says how
    ├── PoolTimeout         no cell became free in time
    └── PoolClosed          the pool is shut

`FileProblem` and `DatabaseProblem` are the agent's: tools turn them into outcomes. All others are ours: they end the
episode as *failed*, except a `CellDied` whose cause is `policy`.
"""

from enum import StrEnum


class SandboxError(Exception):
    """Base of everything that this package raises on purpose."""


class EngineUnavailable(SandboxError):
    """The engine did not answer, or answered with a failure. `step` is the operation (create, start, attach, ...)."""

    def __init__(self, step: str, detail: str) -> None:
        super().__init__(f"engine failed at {step}: {detail}")
        self.step = step
        self.detail = detail


class CellUnavailable(SandboxError):
    """A cell could not be made or started."""


class ImageUnfit(SandboxError):
    """An image that was asked for by name is not there, cannot be a cell, or was not made one. The message says what to do."""


class DeathCause(StrEnum):
    POLICY = "policy"
    """The agent's own resource use or kill explains the death; the episode counts as the policy's."""
    INFRASTRUCTURE = "infrastructure"


class CellDied(SandboxError):
    """The cell ended under an episode; nothing that was in it can be trusted."""

    def __init__(self, cell_id: str, cause: DeathCause, detail: str) -> None:
        super().__init__(f"cell {cell_id} died ({cause.value}): {detail}")
        self.cell_id = cell_id
        self.cause = cause
        self.detail = detail


class CellTimeout(SandboxError):
    """A deadline from `Timeouts` passed while waiting for a cell."""

    def __init__(self, cell_id: str, step: str, after_s: float) -> None:
        super().__init__(f"cell {cell_id}: {step} did not finish within {after_s:g} s")
        self.cell_id = cell_id
        self.step = step
        self.after_s = after_s


class LeakDetected(SandboxError):
    """A reset did not give the promised state. `differences` holds readable lines, first ones first."""

    def __init__(self, subject: str, differences: tuple[str, ...]) -> None:
        super().__init__(f"{subject}: reset is not clean: " + "; ".join(differences[:5]))
        self.subject = subject
        self.differences = differences


class SnapshotTooLarge(SandboxError):
    """A snapshot would be larger than allowed. Nothing was changed; the episode goes on."""


class SnapshotRefused(SandboxError):
    """A snapshot cannot be taken or taken back here: it is damaged, or of another version, image, layer or template. Says which."""


class DatabaseLost(SandboxError):
    """The database server does not answer or cannot go on (disk, memory, connections); never the agent's doing."""


class TemplateBroken(SandboxError):
    """A template is unusable, half built, or no database at all."""


class ImportRefused(SandboxError):
    """A database of somebody's cannot be taken as it is, or none of that name was. The message says what to do; nothing was written."""


class DatabaseProblemKind(StrEnum):
    SYNTAX = "syntax"
    FORBIDDEN = "forbidden"
    TOO_SLOW = "too_slow"
    INVALID_VALUE = "invalid_value"
    CONSTRAINT = "constraint"


class DatabaseProblem(SandboxError):
    """A statement was refused or stopped; the connection stays usable and nothing was written."""

    def __init__(self, kind: DatabaseProblemKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class FileProblemKind(StrEnum):
    NOT_FOUND = "not_found"
    PARENT_NOT_FOUND = "parent_not_found"
    IS_DIRECTORY = "is_directory"
    NOT_A_DIRECTORY = "not_a_directory"
    NOT_A_FILE = "not_a_file"
    PERMISSION_DENIED = "permission_denied"
    NAME_TOO_LONG = "name_too_long"
    TOO_LARGE = "too_large"
    DISK_FULL = "disk_full"
    INVALID_PATH = "invalid_path"


class FileProblem(SandboxError):
    """A file operation inside a chamber failed; found from errno there, never from an engine's wording."""

    def __init__(self, kind: FileProblemKind, path: str, message: str) -> None:
        super().__init__(f"{path!r}: {message}")
        self.kind = kind
        self.path = path


class PoolTimeout(SandboxError):
    """No cell became free within the time the caller gave."""


class PoolClosed(SandboxError):
    """The pool is shut; it leases nothing more."""
