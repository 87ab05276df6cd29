"""What can go wrong above the sandbox.

EnvsError
├── TaskError       the author's or caller's fault: no such family, a bad id, a generator that breaks its own rules
│   ├── SetupRefused   the database refuses a statement of a task's setup
│   └── HeldOut     a task of another split than the one that may be played, such as a held-out one in training
├── VerifierBroken  a verifier raised, hung or wrote; the episode is *failed*, never scored
├── EventBroken     a background event of a world raised, or was never declared; the episode is *failed*
├── StateMismatch   the fingerprint kept step by step is not that of the rows; the episode is *failed*
├── CallInFlight    a snapshot, restore or fork in the middle of a step; wait for the step to end
└── NotReset        `step` or `snapshot` before `reset`, or after the end
"""


class EnvsError(Exception):
    """Base of everything that this package raises on purpose."""


class TaskError(EnvsError):
    """A task or world definition is wrong, or was asked for by a wrong name. The message names the field and the fix."""


class SetupRefused(TaskError):
    """The database refuses a statement of a task's setup; the message names it and why."""


class HeldOut(TaskError):
    """A task was asked for that is of another split than the one that may be played. The message names task and splits."""


class VerifierBroken(EnvsError):
    """A verifier did not give a verdict. `detail` says how it broke."""

    def __init__(self, family: str, detail: str) -> None:
        super().__init__(f"verifier of {family} gave no verdict: {detail}")
        self.family = family
        self.detail = detail


class EventBroken(EnvsError):
    """A background event could not be carried out. `kind` names it."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"event {kind} broke: {detail}")
        self.kind = kind
        self.detail = detail


class StateMismatch(EnvsError):
    """The incremental fingerprint and the recomputed one differ; the message names the tables."""


class CallInFlight(EnvsError):
    """A state can be taken, or taken back, only between two steps."""


class NotReset(EnvsError):
    """There is no running episode to step, snapshot or close."""
