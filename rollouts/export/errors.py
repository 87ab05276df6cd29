"""What an export refuses.

NothingToExport     no episode was left
UsageProblem
├── SplitForbidden   an episode is held out from training
├── ExportNeeds      a library is not installed; the message says how
└── SchemasLost      the schemas of an episode's tools cannot be told
"""

from wardian.rollouts.errors import RolloutError, UsageProblem


class NothingToExport(RolloutError):
    """Every episode was left out. The message counts them by reason."""


class SplitForbidden(UsageProblem):
    """A task that is held out was asked for, or is among what was asked for. No option allows it."""


class ExportNeeds(UsageProblem):
    """An extra is missing."""


class SchemasLost(UsageProblem):
    """The log has no schemas, and the world that is here has other tools than the one that was logged."""
