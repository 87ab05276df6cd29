"""Changes between two moments, each given against the start."""

from wardian.envs.changes import files_between, rows_between
from wardian.sandbox.database.base import RowChange
from wardian.sandbox.files import FileChange, FileKind


def row(key: int, before: int | None, after: int | None) -> RowChange:
    as_row = [None if value is None else {"id": key, "n": value} for value in (before, after)]
    return RowChange("t", (key,), as_row[0], as_row[1])


def test_rows_of_the_task_are_part_of_the_start() -> None:
    added = row(1, None, 5)
    assert rows_between([added], [added]) == ()
    assert rows_between([], [added]) == (added,)
    assert rows_between([added], [row(1, None, 6)]) == (row(1, 5, 6),)


def test_a_row_of_the_task_that_is_gone_is_a_removal() -> None:
    assert rows_between([row(1, None, 5)], []) == (row(1, 5, None),)


def test_a_change_that_was_taken_back_is_a_change() -> None:
    assert rows_between([row(1, 4, 5)], []) == (row(1, 5, 4),)


def test_files_that_changed_between() -> None:
    one, other = FileChange(FileKind.FILE, content="a"), FileChange(FileKind.FILE, content="b")
    assert files_between({"/a": one, "/b": one}, {"/a": one, "/b": other, "/c": one}) == {"/b": other, "/c": one}
    assert files_between({"/a": one}, {}) == {"/a": None}
