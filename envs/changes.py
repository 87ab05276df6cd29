"""Row changes and file changes between two moments, from the changes that each has against the start state."""

from collections.abc import Mapping, Sequence

from wardian.sandbox.database.base import RowChange, Scalar
from wardian.sandbox.files import FileChange

RowKey = tuple[str, tuple[Scalar, ...]]


def rows_between(earlier: Sequence[RowChange], later: Sequence[RowChange]) -> tuple[RowChange, ...]:
    """Changes from one moment to another, both given as changes against one template.

    A verifier sees the rows of a task as part of the start: a task's own row that the agent removed again is a removal, though
    it leaves no difference to the template.
    """
    before = {_key(change): change for change in earlier}
    after = {_key(change): change for change in later}
    found = (_between(before.get(key), after.get(key)) for key in sorted({*before, *after}, key=repr))
    return tuple(change for change in found if change is not None)


def files_between(earlier: Mapping[str, FileChange], later: Mapping[str, FileChange]) -> dict[str, FileChange | None]:
    """Paths whose change against the start is another than before; `None`: the path is again as at the start."""
    paths = sorted({*earlier, *later})
    return {path: later.get(path) for path in paths if earlier.get(path) != later.get(path)}


def _key(change: RowChange) -> RowKey:
    return change.table, change.key


def _between(earlier: RowChange | None, later: RowChange | None) -> RowChange | None:
    if earlier is None:
        return later
    before = earlier.after
    after = earlier.before if later is None else later.after
    return None if before == after else RowChange(earlier.table, earlier.key, before, after)
