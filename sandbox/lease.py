"""What a pool of cells gives out: leases, and numbers about itself."""

from dataclasses import dataclass

from wardian.sandbox.cell import Cell, ResetReceipt


@dataclass(frozen=True, slots=True)
class Leak:
    """A cell whose reset did not give the promised state."""

    cell_id: str
    differences: tuple[str, ...]
    """Readable lines, the first ones first."""


@dataclass(frozen=True, slots=True)
class PoolStatistics:
    resets: int
    """Attempts to restore a cell after a lease or at its start, whatever came of them."""
    verified: int
    """Those that ended with a receipt."""
    deep_checks: int
    """Deep passes that found nothing changed."""
    leaks: tuple[Leak, ...]
    """The last thousand."""
    restore_ms: tuple[float, ...]
    """Time inside the cell of each verified reset; the last ten thousand."""
    replaced: int
    """Cells given up because they died, hung or leaked."""
    created: int
    """Cells started with success, replacements among them."""
    quarantined: int
    """Cells given up because they leaked."""
    ready: int
    leased: int


@dataclass(eq=False, slots=True)
class Lease:
    """Borrowed use of one cell."""

    cell: Cell
    receipt: ResetReceipt
    """Proof of the state in which the cell was handed over."""
