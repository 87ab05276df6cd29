"""A clone's state as data: what can be saved, and made again of the same template in any process."""

import json
from dataclasses import dataclass
from typing import Any

from wardian.sandbox.fingerprint import Fingerprint


@dataclass(frozen=True, slots=True)
class SealedState:
    """One committed state, as its difference to the template."""

    fingerprint: Fingerprint
    """Canonical; what it must have again."""
    body: bytes
    """In the engine's own form."""


@dataclass(frozen=True, slots=True)
class SealedDatabase:
    """A clone and the frozen copies that an episode still holds of it."""

    template_key: str
    present: SealedState
    copies: tuple[SealedState, ...]
    """Earlier states, oldest first."""
    journal: bytes = b""
    """Where the engine cannot tell from the state what was changed since the start."""

    @property
    def size_bytes(self) -> int:
        return len(self.journal) + sum(len(state.body) for state in (self.present, *self.copies))


def packed(value: Any) -> bytes:
    """Rows and numbers as JSON; bytes within stand as hex."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), default=_blob).encode()


def unpacked(body: bytes) -> Any:
    """What `packed` was given, with lists for tuples."""
    return json.loads(body, object_hook=_unblob)


def _blob(value: Any) -> dict[str, str]:
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    raise TypeError(f"no cell of a row: {value!r}")


def _unblob(value: dict[str, Any]) -> Any:
    return bytes.fromhex(value["hex"]) if list(value) == ["hex"] else value
