"""The environment that TRL makes for itself, one for each place in a batch, and reuses for ever without closing it.

Its lease is closed when its episode ends, when it is scored, and at its next reset, whichever comes first; the server's own limits end
what a killed trainer leaves behind. Nothing but the tools is public, since TRL hands every public method to the model.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wardian.trainers.client import BlockingSession, ServerError
from wardian.trainers.trl.connection import Connection
from wardian.trainers.trl.methods import class_of
from wardian.trainers.trl.outcome import TRANSIENT, Outcome, kind_of
from wardian.trainers.trl.prompts import Opening

OVER = json.dumps({"status": "unavailable", "error": "The episode is over."})


@dataclass(slots=True)
class Version:
    """Of the weights that act, kept up to date by `WardianSpec.callback`."""

    value: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """All that an environment is made of; pickles."""

    connection: Connection
    world: str
    tools: tuple[Mapping[str, Any], ...]
    opening: Opening
    retries: int
    version: Version = field(default_factory=Version)


class TaskEnvironment:
    """One place in the batch. Tools are methods of the subclass that `make` gives."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._session: BlockingSession | None = None
        self._outcome: Outcome | None = None

    def reset(self, task_id: str, seed: int, **_row: Any) -> str:
        """Begin the episode of a row of the data set; gives what the agent reads first.

        Where it cannot begin through a failure of ours, the episode has no reward.
        """
        opening = ""
        for attempt in range(1, self._setting.retries + 2):
            self._close()
            self._outcome = Outcome(task_id, seed, self._setting.version.value, attempt=attempt)
            self._session = self._setting.connection.client().session(world=self._setting.world, policy_version=self._setting.version.value)
            try:
                first = self._session.reset(task_id, seed=seed)
            except TRANSIENT as error:
                self._fail(error)
            else:
                opening = first.text
                break
        return "\n\n".join(str(message["content"]) for message in self._setting.opening(opening)) if opening else OVER

    def _call(self, tool: str, arguments: dict[str, Any]) -> str:
        """Call a tool; after the end of the episode, say so."""
        if self._session is None or self._outcome is None:
            return OVER
        try:
            turn = self._session.call(tool, arguments)
        except TRANSIENT as error:
            self._fail(error)
            return OVER
        self._outcome.take(turn)
        if turn.done:
            self._close()
        return turn.text or OVER

    def _finish(self, completion: Sequence[Mapping[str, Any]]) -> Outcome:
        """Say what the model said last, have the episode judged, and end the lease. Once it is over, it gives the same again."""
        if self._outcome is None:
            raise ValueError("environment: it was not reset, so there is nothing to score")
        if self._session is not None:
            last = completion[-1] if completion else {}
            spoke = last.get("role") == "assistant" and not last.get("tool_calls")
            try:
                if not spoke:
                    self._outcome.end_cause = "length"
                self._outcome.conclude(self._session, str(last.get("content") or "") if spoke else "")
            except TRANSIENT as error:
                self._fail(error)
            finally:
                self._close()
        return self._outcome

    def _fail(self, error: ServerError) -> None:
        assert self._outcome is not None
        self._outcome.fail(kind_of(error), str(error))
        self._close()

    def _close(self) -> None:
        """End the lease. Idempotent."""
        session, self._session = self._session, None
        if session is not None:
            session.close()


def make(setting: Setting) -> TaskEnvironment:
    """An environment; a `functools.partial` of it pickles, and connects where it is used."""
    made: TaskEnvironment = _class(setting.world, json.dumps(setting.tools))(setting)
    return made


@functools.cache
def _class(world: str, tools: str) -> Any:
    name = "".join(word.capitalize() for word in world.replace(":", "_").split("_") if word.isidentifier())
    return class_of(f"{name}Environment", TaskEnvironment, json.loads(tools), TaskEnvironment._call)
