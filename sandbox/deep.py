"""The deep pass: every file that a cell's start states are made from, hashed, and compared with what was there first.

A reset looks at identities, which costs nothing; a deep pass reads every byte, which costs about half a second of a core. A pool that was
asked for it runs it when a cell is made, on every cell after a leak anywhere (what changed one cell's layers may have changed the
image, which all share), and at the end of a run.
"""

from dataclasses import dataclass, field

from wardian.sandbox.cell import Cell
from wardian.sandbox.errors import LeakDetected


@dataclass(slots=True)
class DeepChecks:
    """The digests of one pool's image and layers: whatever cell is looked at first sets them."""

    expected: dict[str, str] = field(default_factory=dict)
    passed: int = 0
    """Deep passes that found nothing changed."""

    async def check(self, cell: Cell) -> None:
        """Hash all that `cell` stands on.

        Raises:
            LeakDetected: a part is not as it was when it was first looked at; names the part.
            CellDied, CellTimeout: the cell is lost.
        """
        found = await cell.deep_check()
        wrong = [
            f"deep/{name}: {digest}, expected {self.expected[name]}"
            for name, digest in found.items()
            if self.expected.setdefault(name, digest) != digest
        ]
        if wrong:
            raise LeakDetected(f"cell {cell.id}", tuple(wrong))
        self.passed += 1
