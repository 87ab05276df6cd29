"""The reference solution of a task: its steps as calls, each made again while what hit it was none of its doing."""

from collections.abc import Generator, Sequence

from wardian.envs.action import Action, Message, Observation, call
from wardian.envs.family import Solution
from wardian.envs.taskfile.checking import text_for
from wardian.envs.taskfile.schema import Engine, MessageStep, SqlStep, ToolStep
from wardian.tools.contract import Json
from wardian.tools.packs.waiting import LONGEST_S

TRIES = 5
PASSING = ("unavailable", "timeout", "rate_limited", "conflict")
_READING = ("select", "with", "values", "table", "(")


def solve(steps: Sequence[SqlStep | ToolStep | MessageStep], engine: Engine, can_wait: bool) -> Solution:
    """Take the steps one after another; stop where one fails for good."""
    said = "Done."
    for number, step in enumerate(steps):
        if isinstance(step, MessageStep):
            said = step.message
        elif not (yield from _take(*call_of(step, engine, number), can_wait)):
            said = f"Step {number + 1} of the solution failed."
            break
    yield Message(said)


def call_of(step: SqlStep | ToolStep, engine: Engine, number: int) -> tuple[str, dict[str, Json]]:
    """Tool and arguments of a step. A write has a key, so that it is done once however often it is sent."""
    if isinstance(step, ToolStep):
        return step.tool, dict(step.arguments)
    sql = text_for(step.sql, engine)
    if reads(sql):
        return "query_database", {"sql": sql}
    return "execute_sql", {"sql": sql, "idempotency_key": f"solution-{number}"}


def reads(sql: str) -> bool:
    """Whether a statement looks like one that reads."""
    return sql.lstrip().lower().startswith(_READING)


def _take(tool: str, arguments: dict[str, Json], can_wait: bool) -> Generator[Action, Observation, bool]:
    for _ in range(TRIES):
        found = (yield call(tool, **arguments)).results[0]
        if found["status"] not in PASSING:
            return bool(found["status"] == "ok")
        pause_ms = (found.get("details") or {}).get("retry_after_ms") or (1000 if found["status"] == "timeout" else 0)
        if can_wait and pause_ms:
            yield call("wait", seconds=min(LONGEST_S, -(-pause_ms // 1000)))
    return False
