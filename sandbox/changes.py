"""Rows and files between two moments of a world, each moment given by its changes against one start.

Verifiers ask it what an episode changed, steps what a step changed, `wardian diff` what lies between two moments.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from wardian.sandbox.database.base import RowChange, Scalar, order_of
from wardian.sandbox.files import FileChange

RowKey: TypeAlias = tuple[str, tuple[Scalar, ...]]


def key_of(change: RowChange) -> RowKey:
    """What tells a row from all others."""
    return change.table, change.key


def rows_between(earlier: Sequence[RowChange], later: Sequence[RowChange]) -> tuple[RowChange, ...]:
    """Changes from one moment to another, both given as changes against one template.

    A verifier sees the rows of a task as part of the start: a task's own row that the agent removed again is a removal, though
    it leaves no difference to the template.
    """
    before = {key_of(change): change for change in earlier}
    after = {key_of(change): change for change in later}
    found = (_between(before.get(key), after.get(key)) for key in {**before, **after})
    return tuple(sorted((change for change in found if change is not None), key=order_of))


def files_between(earlier: Mapping[str, FileChange], later: Mapping[str, FileChange]) -> dict[str, FileChange | None]:
    """Paths whose change against the start is another than before; `None`: the path is again as at the start."""
    paths = sorted({*earlier, *later})
    return {path: later.get(path) for path in paths if earlier.get(path) != later.get(path)}


def what(change: RowChange) -> str:
    """`added`, `removed` or `changed`."""
    return "added" if change.before is None else "removed" if change.after is None else "changed"


def columns_of(change: RowChange) -> dict[str, tuple[Scalar, Scalar]]:
    """The columns of a changed row that are not as before, each before and after."""
    before, after = change.before or {}, change.after or {}
    names = [*before, *(name for name in after if name not in before)]
    return {name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)}


def row_line(change: RowChange) -> str:
    """One readable line: table, key, what happened, and the columns that it happened to."""
    sides = {"added": change.after, "removed": change.before}
    found = sides.get(what(change))
    columns = [f"{name} {value!r}" for name, value in found.items()] if found else []
    columns = columns or [f"{name} {one!r} -> {two!r}" for name, (one, two) in columns_of(change).items()]
    return f"{change.table}{list(change.key)} {what(change)}: {', '.join(columns)}"


def _between(earlier: RowChange | None, later: RowChange | None) -> RowChange | None:
    if earlier is None:
        return later
    before = earlier.after
    after = earlier.before if later is None else later.after
    return None if before == after else RowChange(earlier.table, earlier.key, before, after)
