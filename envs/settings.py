"""How an environment is run, apart from what world it is."""

from dataclasses import dataclass
from enum import StrEnum


class MalformedPolicy(StrEnum):
    """What an invalid call costs. Invalid: malformed output, arguments that are not JSON or not of the schema, no such tool."""

    RECOVER = "recover"
    """The agent reads an error and goes on."""
    PENALISE = "penalise"
    """The same, and the component `invalid_call` is charged."""
    TERMINATE = "terminate"
    """The episode ends, and what was achieved so far is judged."""


@dataclass(frozen=True, slots=True)
class Settings:
    verifier_s: float = 10.0
    """A verifier that takes longer has hung."""
    recompute_every: int = 16
    """Every so many steps the fingerprint is compared with one made from every row; always at the end. 0: at the end only."""
    reset_attempts: int = 3
    """A reset that finds a leak takes a new cell and a new clone; so many times in all."""

    hold_ended: bool = False
    """The world of an ended episode stands until the next `reset` or `close`, to be looked at; it takes no further step."""

    snapshot_mib: int = 64
    """What a snapshot may take: files and database as it holds them, or all of it on disk."""

    split: str | None = None
    """The only split whose tasks are played; `None` plays any. Whoever learns from what is played gives `train`."""

    def __post_init__(self) -> None:
        if self.verifier_s <= 0 or self.recompute_every < 0 or self.reset_attempts < 1 or self.snapshot_mib < 1:
            raise ValueError(f"settings: verifier_s above 0, recompute_every from 0, reset_attempts and snapshot_mib from 1; got {self}")
