"""The checks of a task, carried out on the final state.

A check that cannot be carried out (its SQL is refused, or takes too long) raises: the episode then counts as failed through us, and is
never scored. Except where what the agent wrote explains it: see `asking` and `matching`. Else an agent could erase a bad episode by it.
"""

import json
import time
from collections.abc import Mapping, Sequence

from wardian.envs.taskfile.asking import Found, asked
from wardian.envs.taskfile.changes import forbidden, listed
from wardian.envs.taskfile.matching import LEAST_S, MATCH_S, wrong_text
from wardian.envs.taskfile.schema import CHANGES, NEVER, AnswerCheck, Engine, FileCheck, Queries, SqlCheck, TaskSpec
from wardian.envs.taskfile.values import Row, same_json, same_row, unmatched
from wardian.envs.verifier import Check, FinalState, Verdict
from wardian.sandbox.files import FileKind

DETAIL_CHARS = 600
MAX_PAIRS = 300_000
"""Expected rows times found ones that are compared with a tolerance, each with each: about a quarter of a second."""


def verdict_of(spec: TaskSpec, engine: Engine, state: FinalState) -> Verdict:
    """Judge the final state of a task.

    Raises:
        CheckBroken: a check cannot be carried out.
    """
    queries = {check.name: text_for(check.sql, engine) for check in spec.checks if isinstance(check, SqlCheck)}
    rows = asked(queries, state)
    by_text = time.monotonic() + MATCH_S
    checks = [_check(check, rows, state, max(LEAST_S, by_text - time.monotonic())) for check in spec.checks]
    beyond, never = forbidden(spec, state.agent_changes, state.files.changes)
    checks.append(Check(CHANGES, not beyond, f"also changed: {listed(beyond)}"[:DETAIL_CHARS]))
    if spec.changes.never:
        checks.append(Check(NEVER, not never, f"changed, which must never be: {listed(never)}"[:DETAIL_CHARS], hard=True))
    return Verdict(tuple(checks))


def text_for(query: str | Queries, engine: Engine) -> str:
    """The SQL for an engine; empty where there is none."""
    return query if isinstance(query, str) else getattr(query, engine) or ""


def _check(check: SqlCheck | FileCheck | AnswerCheck, rows: Mapping[str, Found], state: FinalState, match_s: float) -> Check:
    if isinstance(check, SqlCheck):
        found = rows[check.name]
        wrong = found if isinstance(found, str) else _wrong_rows(check, found)
    elif isinstance(check, FileCheck):
        wrong = _wrong_file(check, state, match_s)
    else:
        wrong = wrong_text(check.answer, state.answer, match_s)
    return Check(check.name, not wrong, wrong[:DETAIL_CHARS], check.hard)


def _wrong_rows(check: SqlCheck, found: Sequence[Row]) -> str:
    if check.rows is None:
        return "" if len(found) == check.count else f"expected {check.count} rows, found {len(found)}"
    if check.compare == "ordered":
        pairs = zip(check.rows, found, strict=False)
        equal = len(check.rows) == len(found) and all(same_row(one, other, check.tolerance) for one, other in pairs)
        return "" if equal else f"expected {_shown(check.rows)} in this order, found {_shown(found)}"
    if check.tolerance and (too_many := _beyond_pairing(check, check.rows, found)):
        return too_many
    missing, others = unmatched(check.rows, found, check.tolerance)
    if check.compare == "contains":
        return f"expected {_shown(missing)} among the rows, found {_shown(found)}" if missing else ""
    return f"expected {_shown(check.rows)}, found {_shown(found)}" if missing or others else ""


def _beyond_pairing(check: SqlCheck, expected: Sequence[Row], found: Sequence[Row]) -> str:
    """What is said of rows that are not to be compared each with each, which their number decides or forbids."""
    if check.compare == "unordered":
        return "" if len(found) == len(expected) else f"expected {_shown(expected)}, found {_shown(found)}"
    if len(expected) * len(found) <= MAX_PAIRS:
        return ""
    return f"found {len(found)} rows, too many to look for {len(expected)} among them with a tolerance; narrow the SQL"


def _shown(rows: Sequence[Row]) -> str:
    text = ", ".join(str(list(row)) for row in rows[:6])
    return f"[{text}{f', ... {len(rows)} rows' if len(rows) > 6 else ''}]"


def _wrong_file(check: FileCheck, state: FinalState, match_s: float) -> str:
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
    wrong = wrong_text(check, text, match_s) or (_wrong_json(check, text) if check.wants_json else "")
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
