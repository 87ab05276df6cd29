"""Every wait for a cell or an engine has a deadline, and all of them stand here."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timeouts:
    engine_s: float = 60.0
    """One engine call (create, start, inspect, remove)."""
    start_s: float = 30.0
    """From a created container to the supervisor's first frame."""
    exec_grace_s: float = 2.0
    """What a command may take beyond its own limit before the cell counts as hung."""
    files_s: float = 30.0
    """One file operation."""
    restore_s: float = 20.0
    """One reset, proof included."""
    deep_s: float = 120.0
    """One deep pass over every file of a cell's root."""
    pool_s: float = 300.0
    """Waiting for a free cell."""
    stop_s: float = 10.0
    """Ending a cell in an orderly way before it is killed."""
