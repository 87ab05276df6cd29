"""The checks of a task, carried out on the final state.

A check that cannot be carried out (its SQL is refused, or takes too long) raises: the episode then counts as failed through us, and is
never scored. Except where the agent's own rows explain it: a value that cannot be computed with, or an answer without end. Else an agent
could erase a bad episode by what it writes.
"""

import json
from collections.abc import Sequence

from wardian.envs.errors import TaskError
from wardian.envs.taskfile.changes import forbidden, listed
from wardian.envs.taskfile.matching import wrong_text
from wardian.envs.taskfile.schema import CHANGES, NEVER, AnswerCheck, Engine, FileCheck, Queries, SqlCheck, TaskSpec
from wardian.envs.taskfile.values import Row, same_json, same_row, unmatched
from wardian.envs.verifier import Check, FinalState, Verdict
from wardian.sandbox.database.base import QueryLimits
from wardian.sandbox.errors import DatabaseProblem, DatabaseProblemKind
from wardian.sandbox.files import FileKind


class CheckBroken(TaskError):
    """A check cannot be carried out, through no doing of the agent's. `check` is its name."""

    def __init__(self, check: str, why: str) -> None:
        super().__init__(why)
        self.check = check


LIMITS = QueryLimits(time_s=5.0, steps=100_000_000, rows=20_000, bytes=8 << 20)
"""Of one check's query."""
MANY = 20_000
"""Rows changed by an agent, from which on it is the agent's doing that a check takes too long."""
DETAIL_CHARS = 600


def verdict_of(spec: TaskSpec, engine: Engine, state: FinalState) -> Verdict:
    """Judge the final state of a task.

    Raises:
        CheckBroken: a check cannot be carried out.
    """
    checks = [_check(check, engine, state) for check in spec.checks]
    beyond, never = forbidden(spec, state.agent_changes, state.files.changes)
    checks.append(Check(CHANGES, not beyond, f"also changed: {listed(beyond)}"[:DETAIL_CHARS]))
    if spec.changes.never:
        checks.append(Check(NEVER, not never, f"changed, which must never be: {listed(never)}"[:DETAIL_CHARS], hard=True))
    return Verdict(tuple(checks))


def text_for(query: str | Queries, engine: Engine) -> str:
    """The SQL for an engine; empty where there is none."""
    return query if isinstance(query, str) else getattr(query, engine) or ""


def _check(check: SqlCheck | FileCheck | AnswerCheck, engine: Engine, state: FinalState) -> Check:
    if isinstance(check, SqlCheck):
        found = _rows(check, engine, state)
        wrong = found if isinstance(found, str) else _wrong_rows(check, found)
    elif isinstance(check, FileCheck):
        wrong = _wrong_file(check, state)
    else:
        wrong = wrong_text(check.answer, state.answer)
    return Check(check.name, not wrong, wrong[:DETAIL_CHARS], check.hard)


def _rows(check: SqlCheck, engine: Engine, state: FinalState) -> Sequence[Row] | str:
    """The rows of a check; a text: why the agent's own rows allow none."""
    assert state.database is not None, "tasks of a file are on a database"
    try:
        found = state.database.query(text_for(check.sql, engine), LIMITS)
    except DatabaseProblem as problem:
        if problem.kind is DatabaseProblemKind.INVALID_VALUE and state.agent_changes:
            return f"cannot be computed with what the agent wrote: {problem}"
        if problem.kind is DatabaseProblemKind.TOO_SLOW and len(state.agent_changes) > MANY:
            return f"cannot be computed with the {len(state.agent_changes)} rows that the agent changed: {problem}"
        raise CheckBroken(check.name, str(problem)) from problem
    if not found.truncated:
        return found.rows
    too_much = f"its SQL gives more than {LIMITS.rows} rows or {LIMITS.bytes} bytes"
    if state.agent_changes:
        return too_much
    raise CheckBroken(check.name, f"{too_much}; aggregate or narrow it")


def _wrong_rows(check: SqlCheck, found: Sequence[Row]) -> str:
    if check.rows is None:
        return "" if len(found) == check.count else f"expected {check.count} rows, found {len(found)}"
    if check.compare == "ordered":
        pairs = zip(check.rows, found, strict=False)
        equal = len(check.rows) == len(found) and all(same_row(one, other, check.tolerance) for one, other in pairs)
        return "" if equal else f"expected {_shown(check.rows)} in this order, found {_shown(found)}"
    missing, others = unmatched(check.rows, found, check.tolerance)
    if check.compare == "contains":
        return f"expected {_shown(missing)} among the rows, found {_shown(found)}" if missing else ""
    return f"expected {_shown(check.rows)}, found {_shown(found)}" if missing or others else ""


def _shown(rows: Sequence[Row]) -> str:
    text = ", ".join(str(list(row)) for row in rows[:6])
    return f"[{text}{f', ... {len(rows)} rows' if len(rows) > 6 else ''}]"


def _wrong_file(check: FileCheck, state: FinalState) -> str:
    data = _content(check.file, state)
    if not check.exists:
        return "" if data is None else f"{check.file} is there, and must not be"
    if isinstance(data, str):
        return data
    if data is None:
        return f"{check.file} is not there"
    if check.empty and not check.wants_json:
        return ""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"{check.file} is no UTF-8 text"
    wrong = wrong_text(check, text) or (_wrong_json(check, text) if check.wants_json else "")
    return f"{check.file}: {wrong}" if wrong else ""


def _content(path: str, state: FinalState) -> bytes | str | None:
    """The bytes of a file at the end; `None`: it is not there; a text: why it cannot be seen."""
    change = state.files.changes.get(path)
    if change is None:
        entry = state.task.files.entries.get(path)
        return entry.data if entry else None
    if change.kind is None:
        return None
    if change.kind is not FileKind.FILE:
        return f"{path} is no file, but a {change.kind.value}"
    return state.file_contents.get(path, f"{path} cannot be read, or is too large")


def _wrong_json(check: FileCheck, text: str) -> str:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"is no JSON: {error}"
    return "" if same_json(check.json_equals, found) else f"expected {json.dumps(check.json_equals)}, found {json.dumps(found)}"
