"""What an episode came to, as the reward functions and the trainer's log get it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from wardian.trainers.client import CapacityReached, ResetFailed, ServerError, SessionBusy, SessionLost, Unreachable

TRANSIENT = (CapacityReached, ResetFailed, SessionBusy, SessionLost, Unreachable)
"""Failures of ours: the episode is not scored, and may be played again. Any other error of the server would come back each time."""


def kind_of(error: ServerError) -> str:
    """The failure in a word."""
    return error.failure_kind or error.code.lower() or "unreachable"


@dataclass(slots=True)
class Outcome:
    task_id: str
    seed: int | None
    policy_version: str = ""
    """Of the weights that acted; also in the server's trajectory."""
    reward: float | None = None
    """Sum over the episode; `None`: not scored, and to be left out."""
    succeeded: bool | None = None
    end_cause: str = ""
    """As the server names it, or `length`: the trainer's limit of tokens was reached, or `stale`."""
    failure_kind: str | None = None
    """Why there is no reward; `None` where there is one."""
    message: str = ""
    """More about it."""
    calls: Counter[str] = field(default_factory=Counter)
    """Results by their status; `malformed_call`, `unknown_tool` and `invalid_arguments` are calls that no tool saw."""
    turns: int = 0
    attempt: int = 1
    """Which try this is; earlier ones failed through us."""

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    def take(self, turn: Any) -> None:
        """Note what the server answered to an action."""
        self.turns += 1
        self.calls.update(str(result.get("status")) for result in turn.results)
        if turn.failure_kind is not None:
            self.fail(turn.failure_kind, turn.message)
        elif turn.done:
            self.reward, self.succeeded = turn.total_reward, turn.succeeded
            self.end_cause = self.end_cause or turn.end_cause

    def conclude(self, session: Any, last_words: str = "") -> None:
        """End the episode where it is, so that what was done so far is judged. What a customer was asked is left open."""
        for words in dict.fromkeys((last_words, "")):
            turn = session.say(words)
            self.take(turn)
            if turn.done:
                return
        self.fail("unfinished", "the episode goes on after a message that asks nothing")

    def fail(self, kind: str, message: str = "") -> None:
        """Say that the episode has no reward, and why."""
        self.reward, self.succeeded, self.failure_kind, self.message = None, None, kind, message


def measures(outcomes: Iterable[Outcome]) -> dict[str, float]:
    """Numbers for the trainer's log: calls by status and ends by cause, per episode; the share that succeeded of those that were scored."""
    all_of = list(outcomes)
    counts: Counter[str] = Counter()
    for one in all_of:
        counts.update({f"calls/{status}": number for status, number in one.calls.items()})
        counts.update([f"end/{one.end_cause}"] if one.failure_kind is None else ["unscored", f"failed/{one.failure_kind}"])
        counts["again"] += one.attempt > 1
    scored = [one for one in all_of if one.failure_kind is None]
    shares = {name: number / len(all_of) for name, number in sorted(counts.items())}
    return shares | ({"success": sum(bool(one.succeeded) for one in scored) / len(scored)} if scored else {})
