"""What one action has done so far."""

from dataclasses import dataclass, field

from wardian.envs.events import Word, WorldEvent
from wardian.envs.observation import Result


@dataclass(slots=True)
class Turn:
    """Whole even when an exception ended the action midway."""

    results: list[Result] = field(default_factory=list)
    first_event: int = 0
    """Length of the log of calls before the action."""
    background: list[WorldEvent] = field(default_factory=list)
    """What the world did by itself meanwhile."""
    counted: int = 0
    """Calls, messages or malformed outputs: what the budget of steps and the step cost count."""
    invalid: int = 0
    inexact: list[str] = field(default_factory=list)
    recomputed: bool = False

    @property
    def words(self) -> list[Word]:
        """What the agent is to read beside the results, in order."""
        return [word for event in self.background for word in event.words]
