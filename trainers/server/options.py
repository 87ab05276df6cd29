"""What a server is started with."""

from dataclasses import dataclass, field
from pathlib import Path

from wardian.envs.settings import MalformedPolicy
from wardian.envs.splits import Split


@dataclass(frozen=True, slots=True)
class Limits:
    """What no caller gets beyond."""

    sessions: int = 256
    """Leases at once, of all worlds."""
    step_s: float = 45.0
    """A reset, step, snapshot, restore or fork is answered within that; below what clients wait for, so that no reply is late."""
    wait_s: float = 5.0
    """How long a reset waits for a free cell before it is told that there is none."""
    ttl_s: float = 300.0
    """A lease that nobody has a socket to, and nobody used for so long, ends."""
    grace_s: float = 30.0
    """A lease that had a socket and lost it ends sooner: then."""
    lifetime_s: float = 3600.0
    """Every lease ends then."""
    drain_s: float = 30.0
    """How long leases may go on after SIGTERM."""
    end_s: float = 60.0
    """How long the end itself may take after that; what blocks for longer is left behind."""
    request_s: float = 30.0
    """Within that the head of a request must be there, and then its body."""
    message_bytes: int = 16 << 20
    """Of one frame or body."""
    rate: int = 5_000
    """Requests and frames of one caller, a second."""
    group: int = 256
    """Episodes of one group, or forks of one episode."""
    snapshots: int = 256
    """Kept at once; the oldest go first."""
    snapshot_bytes: int = 1 << 30
    """Of all that are kept."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}: a number above 0 is needed; got {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """How episodes are played, the same for all worlds of a server."""

    split: Split | None = Split.TRAIN
    """The only split whose tasks are played; `None` is any, for evaluation."""
    faults: str = "none"
    malformed: MalformedPolicy = MalformedPolicy.RECOVER
    seed: int = 0
    """The list of tasks follows from it."""
    tasks: int = 1_000
    """How many tasks of each split are listed."""
    out: Path | None = None
    """Folder for trajectories."""
    token: str | None = None
    """Of trainers. `None`: everybody who reaches the server is one."""
    limits: Limits = field(default_factory=Limits)
