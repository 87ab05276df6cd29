"""A verifier looks at the final state and the trusted event log, and gives a verdict of named checks.

It knows nothing of reward, gets immutable copies only, and believes nothing that the agent claims.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from wardian.envs.events import WorldEvent
from wardian.envs.task import Task
from wardian.sandbox.database.base import FrozenDatabase, RowChange
from wardian.sandbox.files import FileChanges
from wardian.tools.contract import CallEvent


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    passed: bool
    detail: str = ""
    """What is wrong: expected against found. For people and logs, never for an agent. Of a check that passed it is dropped."""
    hard: bool = False
    """A failed hard check is a hard failure: damage was done, which is worse than not succeeding."""

    def __post_init__(self) -> None:
        if self.passed is True:
            object.__setattr__(self, "detail", "")


@dataclass(frozen=True, slots=True)
class Verdict:
    checks: tuple[Check, ...]

    def __post_init__(self) -> None:
        if not self.checks:
            raise ValueError("checks: a verdict without checks says nothing")
        for check in self.checks:
            # A text, a number or NaN would count as passed.
            if type(check.passed) is not bool or type(check.hard) is not bool:
                raise ValueError(f"checks: {check.name!r} is passed={check.passed!r}, hard={check.hard!r}; give True or False")
        names = [check.name for check in self.checks]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"checks: two are called {', '.join(twice)}; each has a name of its own")

    @property
    def succeeded(self) -> bool:
        """All checks passed."""
        return all(check.passed for check in self.checks)

    @property
    def hard_failure(self) -> bool:
        return any(check.hard and not check.passed for check in self.checks)

    @property
    def share(self) -> float:
        """Share of checks that passed, from 0 to 1."""
        return sum(check.passed for check in self.checks) / len(self.checks)


@dataclass(frozen=True, slots=True)
class FinalState:
    """All that a verifier gets."""

    task: Task
    database: FrozenDatabase | None
    changes: Sequence[RowChange]
    """All rows that differ from the start of the episode (after the task's own rows went in), whoever changed them."""
    files: FileChanges
    """All files that differ from the start of the episode."""
    file_contents: Mapping[str, bytes]
    """Bytes of those changed files that the family asked for by path, read by the trusted side."""
    events: Sequence[CallEvent]
    """Every call in order, injected faults included."""
    ended_by: str
    """`message`, `steps`, `tokens`, `virtual_time`, `invalid_streak`, or a family's own end."""
    agent_changes: Sequence[RowChange] = ()
    """Of `changes` those that the agent's calls made: what the end has more or else than the world alone would have made of the start.
    Whether nothing else was touched is asked of these."""
    background: Sequence[WorldEvent] = ()
    """Every event that the world made by itself, in order."""
    answer: str = ""
    """The agent's last message. For what only words can show; a claim proves nothing."""
    start: Callable[[], AbstractContextManager[FrozenDatabase]] | None = field(default=None, compare=False, repr=False)
    """Makes the database as it was when the episode began (after the task's own rows went in), for the length of a block. It takes as long
    as a reset: for what cannot be judged by the end alone."""
