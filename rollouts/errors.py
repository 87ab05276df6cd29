"""What can go wrong when many episodes are run or read.

RolloutError
├── UsageProblem   asked for something that there is not; names what there is
├── PolicyUnavailable   the model of a policy cannot be asked; that episode fails
│   ├── PolicyRefused   its server refuses what it is asked
│   └── PolicyEnds      nor in any other episode; the run ends
│       ├── PolicyHopeless  it never could be asked. A UsageProblem too
│       └── PolicyGone      it could be asked before; a run may go on when it can again
├── LogBroken      a trajectory is not readable; names file, line and field
│   ├── LogMissing  it is not there. A UsageProblem too
│   └── EpisodeUnknown  it has no episode of that name. A UsageProblem too
├── NotReproduced  an episode does not run again as it was recorded, so a moment of it cannot be reached
├── LogInUse       another run writes to this file. A UsageProblem too
└── LogForeign     a log was made by other versions than those here; names them
"""


class RolloutError(Exception):
    """Base of everything that this package raises on purpose."""


class UsageProblem(RolloutError):
    """An option names something that there is not, or is out of range. The message names the option and the fix."""


class PolicyUnavailable(RolloutError):
    """Raised by a player whose model cannot be asked: the episode ends as failed and masked, with `cause` as its end cause."""

    cause = "policy_unavailable"


class PolicyRefused(PolicyUnavailable):
    """The same, where the model's server refuses what it is asked, so that asking again would not help."""

    cause = "policy_refused"


class PolicyEnds(PolicyUnavailable):
    """No other episode of this policy would fare better: the run ends."""


class PolicyGone(PolicyEnds):
    """It acted before, and no longer does. The episode that meets it is cancelled, so that a run that goes on plays it again."""


class PolicyHopeless(PolicyEnds, UsageProblem):
    """No other episode of this policy would fare better: the run ends. The message says what to put right."""

    def __init__(self, message: str, cause: str) -> None:
        super().__init__(message)
        self.cause = cause


class LogBroken(RolloutError):
    """A trajectory cannot be read."""


class LogMissing(LogBroken, UsageProblem):
    """There is no trajectory where one was said to be."""


class EpisodeUnknown(LogBroken, UsageProblem):
    """A trajectory has no episode that is named so, or several."""


class NotReproduced(RolloutError):
    """The message names the first difference."""


class LogInUse(UsageProblem):
    """The file has a writer already."""


class LogForeign(RolloutError):
    """Versions differ; `differences` has one line for each."""

    def __init__(self, differences: tuple[str, ...]) -> None:
        image = ", and --image TAG what cells run" if any(line.startswith("image:") for line in differences) else ""
        super().__init__(f"this log was made by other versions: {'; '.join(differences)}; --force runs it all the same{image}")
        self.differences = differences
