"""A fingerprint is a tree of digests over a world's state, one leaf per component.

Two states are equal exactly when their roots are; where they are not, `differences` names the leaves. Leaves carry a short
readable value where there is one (`processes = 2`), else a digest.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from blake3 import blake3

from wardian.sandbox.differing import lines


def digest(data: bytes) -> str:
    """BLAKE3 of `data`, 128 bits, as 32 hex characters."""
    return blake3(data).hexdigest(length=16)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    leaves: Mapping[str, str]
    """Component path, such as `database/refunds` or `cell/processes`, to its value or digest."""
    root: str = field(init=False)
    """Digest over all leaves in order of their names."""

    def __post_init__(self) -> None:
        # Lengths stand before the texts, so no text of an agent's making reads as another leaf.
        body = "".join(f"{len(name)}:{name}{len(self.leaves[name])}:{self.leaves[name]}" for name in sorted(self.leaves))
        object.__setattr__(self, "root", digest(body.encode("utf-8", "surrogateescape")))

    def under(self, prefix: str) -> "Fingerprint":
        """The same leaves, each below `prefix/`."""
        return Fingerprint({f"{prefix}/{name}": value for name, value in self.leaves.items()})

    def joined(self, other: "Fingerprint") -> "Fingerprint":
        """Both sets of leaves; those of `other` win where names meet."""
        return Fingerprint({**self.leaves, **other.leaves})

    def differences(self, expected: "Fingerprint") -> tuple[str, ...]:
        """Readable lines, one per leaf that is not as `expected`, by name. Empty when the roots are equal."""
        if self.root == expected.root:
            return ()
        return tuple(lines(expected.leaves, self.leaves))
