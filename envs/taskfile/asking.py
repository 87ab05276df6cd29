"""The SQL of a task's checks, asked of the final state, with a time for all of it together.

A query that is stopped or refused is asked of the start of the episode too. Where it works there, the agent has broken it, and its check
has not passed; else the check is at fault.
"""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from wardian.envs.errors import TaskError
from wardian.envs.taskfile.values import Row
from wardian.envs.verifier import FinalState
from wardian.sandbox.database.base import QueryLimits
from wardian.sandbox.errors import DatabaseProblem, DatabaseProblemKind

LIMITS = QueryLimits(time_s=5.0, steps=100_000_000, rows=20_000, bytes=8 << 20)
"""Of one query; the time is for all of them together."""
START_LIMITS = replace(LIMITS, time_s=LIMITS.time_s / 2, steps=LIMITS.steps // 2)
"""Within which the same queries are fast on the start: far from where noise of the host decides."""
LEAST_S = 0.1
"""For one query, when the others have used up the time."""

Found: TypeAlias = Sequence[Row] | str
"""The rows of a query; a text: why what the agent wrote allows none."""


class CheckBroken(TaskError):
    """A check cannot be carried out, through no doing of the agent's. `check` is its name."""

    def __init__(self, check: str, why: str) -> None:
        super().__init__(why)
        self.check = check


def asked(queries: Mapping[str, str], state: FinalState) -> dict[str, Found]:
    """What each query gives, by the name of its check.

    Raises:
        CheckBroken: one cannot be carried out.
    """
    return _Asking(queries, state).all()


class _Asking:
    def __init__(self, queries: Mapping[str, str], state: FinalState) -> None:
        self._queries, self._state = queries, state
        self._until = time.monotonic() + LIMITS.time_s
        self._slowed: bool | None = None
        """Whether the agent made the queries slow; `None`: not known yet."""

    def all(self) -> dict[str, Found]:
        return {name: self._one(name, sql) for name, sql in self._queries.items()}

    def _one(self, name: str, sql: str) -> Found:
        assert self._state.database is not None, "tasks of a file are on a database"
        try:
            found = self._state.database.query(sql, _limited(LIMITS, self._until))
        except DatabaseProblem as problem:
            if self._state.agent_changes and (why := self._of_agent(sql, problem)):
                return why
            raise CheckBroken(name, str(problem)) from problem
        if not found.truncated:
            return found.rows
        too_much = f"its SQL gives more than {LIMITS.rows} rows or {LIMITS.bytes} bytes"
        if self._state.agent_changes:
            return too_much
        raise CheckBroken(name, f"{too_much}; aggregate or narrow it")

    def _of_agent(self, sql: str, problem: DatabaseProblem) -> str:
        """What is said of a problem that the agent made; empty when it did not."""
        if problem.kind is DatabaseProblemKind.TOO_SLOW:
            if self._slowed is None:
                self._slowed = self._works_at_start(self._queries.values())
            return "takes too long with what the agent wrote, and did not at the start" if self._slowed else ""
        is_value = problem.kind is DatabaseProblemKind.INVALID_VALUE
        return f"cannot be computed with what the agent wrote: {problem}" if is_value or self._works_at_start([sql]) else ""

    def _works_at_start(self, queries: Iterable[str]) -> bool:
        if self._state.start is None:
            return False
        with self._state.start() as start:
            until = time.monotonic() + START_LIMITS.time_s
            try:
                for sql in queries:
                    start.query(sql, _limited(START_LIMITS, until))
            except DatabaseProblem:
                return False
            return time.monotonic() <= until


def _limited(limits: QueryLimits, until: float) -> QueryLimits:
    left_s = math.ceil(10 * (until - time.monotonic())) / 10  # problems name it
    return replace(limits, time_s=max(LEAST_S, left_s))
