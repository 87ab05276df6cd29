"""What stands behind a tool server: one episode, at whatever place it runs.

EpisodeFailed   *we* broke it: over, and not scored
EpisodeOver     it ended before; nothing that is asked now does anything
EpisodeBusy     somebody else acts in it just now; nothing was done
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from wardian.tools.contract import Json


class EpisodeFailed(Exception):
    """The episode is over and not scored, through no fault of the agent. `kind` is the end cause, such as `infrastructure`."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class EpisodeOver(Exception):
    """The episode ended before this call, which did nothing. `cause` is its end cause."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause


class EpisodeBusy(Exception):
    """The call was not carried out, since another one, not of this program, is under way. It can be made again."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What an agent gets for one call or message."""

    text: str
    """All of it, as an observation is rendered."""
    result: Mapping[str, Json]
    """Of the call: `status`, and `result` or `error` and `details`."""
    incoming: Sequence[Mapping[str, Json]] = ()
    """What reached the agent without a call of its own."""
    end_cause: str = ""
    """Set when this ended the episode."""


class EpisodeHandle(Protocol):
    """One episode.

    Calls that come at once are carried out one after another, in the order in which they came. One whose caller no longer waits is
    carried out all the same: what may have begun is never taken back.
    """

    @property
    def schemas(self) -> Sequence[Mapping[str, Json]]:
        """Its tools, in the OpenAI function format."""
        ...

    @property
    def instructions(self) -> str:
        """Task and policy: the first observation as it is rendered."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Json]) -> Answer:
        """Call one tool, which may be unknown.

        Raises:
            EpisodeFailed: we broke it, now or before.
            EpisodeOver: it ended before.
            EpisodeBusy: somebody else acts in it.
        """
        ...

    async def say(self, text: str) -> Answer:
        """Send a message; by the family's rule it may end the episode.

        Raises:
            EpisodeFailed: we broke it, now or before.
            EpisodeOver: it ended before.
            EpisodeBusy: somebody else acts in it.
        """
        ...

    async def refuse(self, raw: str, reason: str) -> Answer:
        """Count output that holds no usable action, as an invalid call is counted; `reason` is what the agent reads.

        Raises:
            EpisodeFailed: we broke it, now or before.
            EpisodeOver: it ended before.
            EpisodeBusy: somebody else acts in it.
        """
        ...
