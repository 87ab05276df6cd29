"""What can go wrong when many episodes are run or read.

RolloutError
├── UsageProblem   asked for something that there is not; names what there is
├── LogBroken      a trajectory is not there or not readable; names file, line and field
├── LogInUse       another run writes to this file
└── LogForeign     a log was made by other versions than those here; names them
"""


class RolloutError(Exception):
    """Base of everything that this package raises on purpose."""


class UsageProblem(RolloutError):
    """An option names something that there is not, or is out of range. The message names the option and the fix."""


class LogBroken(RolloutError):
    """A trajectory cannot be read."""


class LogInUse(RolloutError):
    """The file has a writer already."""


class LogForeign(RolloutError):
    """Versions differ; `differences` has one line for each."""

    def __init__(self, differences: tuple[str, ...]) -> None:
        super().__init__("this log was made by other versions: " + "; ".join(differences))
        self.differences = differences
