"""What a line that is no JSON is: torn by a crash, or damaged. The next line of its file says.

A killed writer leaves one torn line at the end of a file; a later writer begins after it, with its own `run` line.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from wardian.rollouts.coherence import AnyLine
from wardian.rollouts.lines import Finding
from wardian.rollouts.records import RunRecord
from wardian.rollouts.rules import COPY


@dataclass(slots=True)
class Torn:
    """The rule for one file. For each line: `settle` what stood before it, then `hold` it where it looks torn itself."""

    held: Finding | None = None
    """The last line, where it looks torn."""

    def settle(self, after: AnyLine | None) -> Finding | None:
        """What the held line was, as `after` is the next one: torn, or damaged; `None` where none is held."""
        held, self.held = self.held, None
        if held is None or isinstance(after, RunRecord):
            return held
        return Finding(held.place, "", "is no JSON, and other lines of its writer follow", fix=COPY)

    def hold(self, findings: Sequence[Finding]) -> bool:
        """Keep a line in which `findings` were found; gives whether it looks torn."""
        self.held = findings[0] if findings and findings[0].torn else None
        return self.held is not None
