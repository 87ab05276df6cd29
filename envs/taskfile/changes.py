"""What a task may have changed: rules over rows and over files of the workspace."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from wardian.envs.taskfile.schema import WORKSPACE, Cell, Changes, FileCheck, FilesRule, RowsRule, TaskSpec
from wardian.envs.taskfile.values import same
from wardian.sandbox.database.base import RowChange, Scalar
from wardian.sandbox.files import FileChange, FileKind

SHOWN = 5
MAX_ROWS = 100_000
"""Changed rows that rules are asked about, about a second; more break the rules: no agent may buy silence with rows."""
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?", re.ASCII)


@lru_cache(maxsize=4096)
def folded(name: str) -> str:
    """A name without case and underscores: `InvoiceLine` and `invoice_line` are one."""
    return name.replace("_", "").lower()


def forbidden(spec: TaskSpec, rows: Iterable[RowChange], files: Mapping[str, FileChange]) -> tuple[list[str], list[str]]:
    """What was changed that `only` does not allow, and what `never` names, as lines for people."""
    changes = spec.changes
    of_rows, of_files = list(rows), {path: change for path, change in files.items() if _counts(path, change)}
    of_rows, left = of_rows[:MAX_ROWS], len(of_rows) - MAX_ROWS
    unseen = [f"{left} more rows than the {MAX_ROWS} that are looked at"] if left > 0 else []
    beyond: list[str] = []
    if not isinstance(changes.only, str):
        named = {check.file for check in spec.checks if isinstance(check, FileCheck)}
        beyond += unseen + [_row(change) for change in of_rows if not _allowed(change, changes.only)]
        beyond += [path for path in of_files if path not in named and not any(_covers(rule, path) for rule in _files(changes.only))]
    never = list(unseen) if _rows(changes.never) else []
    never += [_row(change) for change in of_rows if any(_touches(rule, change) for rule in _rows(changes.never))]
    never += [path for path in of_files if any(_covers(rule, path) for rule in _files(changes.never))]
    return beyond, never


def listed(lines: Sequence[str]) -> str:
    """The first few of them."""
    more = f" and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
    return "; ".join(lines[:SHOWN]) + more


def rules_of(changes: Changes) -> tuple[RowsRule, ...]:
    """All rules about rows."""
    only = () if isinstance(changes.only, str) else changes.only
    return (*_rows(only), *_rows(changes.never))


def _rows(rules: Sequence[RowsRule | FilesRule]) -> tuple[RowsRule, ...]:
    return tuple(rule for rule in rules if isinstance(rule, RowsRule))


def _files(rules: Sequence[RowsRule | FilesRule]) -> tuple[FilesRule, ...]:
    return tuple(rule for rule in rules if isinstance(rule, FilesRule))


def _counts(path: str, change: FileChange) -> bool:
    """Whether a changed path is of interest: scratch files elsewhere and folders are not."""
    return path.startswith(f"{WORKSPACE}/") and change.kind is not FileKind.DIRECTORY


def _allowed(change: RowChange, only: Sequence[RowsRule | FilesRule]) -> bool:
    return any(
        folded(rule.table) == folded(change.table)
        and _kind(change) in _kinds(rule)
        and all(_fits(rule.where, row) for row in (change.before, change.after) if row is not None)
        and (not rule.columns or _kind(change) != "change" or _changed(change) <= {folded(column) for column in rule.columns})
        for rule in _rows(only)
    )


def _touches(rule: RowsRule, change: RowChange) -> bool:
    return (
        folded(rule.table) == folded(change.table)
        and _kind(change) in _kinds(rule)
        and any(_fits(rule.where, row) for row in (change.before, change.after) if row is not None)
        and (not rule.columns or _kind(change) != "change" or bool(_changed(change) & {folded(column) for column in rule.columns}))
    )


def _kind(change: RowChange) -> str:
    return "add" if change.before is None else "remove" if change.after is None else "change"


def _kinds(rule: RowsRule) -> frozenset[str]:
    return frozenset(rule.kinds) or frozenset(("change",) if rule.columns else ("add", "change", "remove"))


def _changed(change: RowChange) -> set[str]:
    assert change.before is not None, "only changed rows are asked"
    assert change.after is not None, "only changed rows are asked"
    return {folded(name) for name, value in change.after.items() if change.before[name] != value}


def _fits(where: Mapping[str, Cell | tuple[Cell, ...]], row: Mapping[str, Scalar]) -> bool:
    if not where:
        return True
    values = {folded(name): value for name, value in row.items()}
    return all(
        folded(name) in values and any(_is(one, values[folded(name)]) for one in (wanted if isinstance(wanted, tuple) else (wanted,)))
        for name, wanted in where.items()
    )


def _is(wanted: Cell, found: Scalar) -> bool:
    """As `same`; a changed row shows a number that is no integer as its text, written as an engine writes it."""
    if isinstance(found, str) and isinstance(wanted, int | float) and not isinstance(wanted, bool) and _NUMBER.fullmatch(found):
        return same(wanted, float(found))
    return same(wanted, found)


@lru_cache(maxsize=1024)
def _pattern(path: str) -> re.Pattern[str]:
    """Atomic groups: the first place where a part fits is as good as any later one, and paths are the agent's to make long."""
    first, *others = path.split("**")
    parts = [_part(first, is_last=not others), *(f"(?>.*?{_part(one)})" for one in others[:-1])]
    return re.compile("".join(parts) + "".join(f".*?{_part(one, is_last=True)}" for one in others[-1:]), re.DOTALL)


def _part(text: str, *, is_last: bool = False) -> str:
    first, *others = map(re.escape, text.split("*"))
    if is_last and others:
        others[-1:], end = [], f"[^/]*{others[-1]}"
    else:
        end = ""
    return first + "".join(f"(?>[^/]*?{one})" for one in others) + end


def _covers(rule: FilesRule, path: str) -> bool:
    return _pattern(rule.file).fullmatch(path) is not None


def _row(change: RowChange) -> str:
    key = ", ".join(map(str, change.key))
    if change.before is None:
        return f"{change.table}[{key}] was added"
    if change.after is None:
        return f"{change.table}[{key}] was removed"
    columns = [f"{name} {change.before[name]!r} -> {value!r}" for name, value in change.after.items() if change.before[name] != value]
    return f"{change.table}[{key}]: {', '.join(columns)}"
