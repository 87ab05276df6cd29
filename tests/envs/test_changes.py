"""Changes between two moments, each given against the start; and who made them."""

from wardian.envs.changes import Ledger
from wardian.sandbox.changes import files_between, row_line, rows_between
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


def test_a_changed_row_reads_as_table_key_and_columns() -> None:
    lines = [row_line(change) for change in (row(1, None, 5), row(2, 4, 5), row(3, 4, None))]
    assert lines == ["t[1] added: id 1, n 5", "t[2] changed: n 4 -> 5", "t[3] removed: id 3, n 4"]


def both(before: tuple[int, int] | None, after: tuple[int, int] | None) -> RowChange:
    as_row = [None if pair is None else {"id": 1, "mine": pair[0], "theirs": pair[1]} for pair in (before, after)]
    return RowChange("t", (1,), as_row[0], as_row[1])


def ledger_of(*changes: tuple[RowChange, bool]) -> Ledger:
    ledger = Ledger()
    for change, by_world in changes:
        ledger.add([change], by_world=by_world)
    return ledger


def test_what_only_the_world_changed_is_not_the_agents() -> None:
    ledger = ledger_of((row(1, None, 5), True), (row(2, 1, 2), False))
    assert ledger.by_agent() == (row(2, 1, 2),)
    assert ledger.take_step() == (row(1, None, 5), row(2, 1, 2))
    assert ledger.take_step() == ()


def test_of_a_row_that_both_changed_the_agents_columns_are_the_agents() -> None:
    ledger = ledger_of((both((0, 0), (7, 0)), False), (both((7, 0), (7, 9)), True))
    assert ledger.by_agent() == (both((0, 9), (7, 9)),)
    assert ledger.take_step() == (both((0, 0), (7, 9)),)


def test_an_event_that_the_agent_undid_is_a_change_of_the_agent() -> None:
    ledger = ledger_of((both((0, 0), (0, 9)), True), (both((0, 9), (0, 0)), False))
    assert ledger.by_agent() == (both((0, 9), (0, 0)),)
    assert ledger.take_step() == ()


def test_a_row_that_is_there_through_the_agent_stays_the_agents_whatever_the_world_does_with_it() -> None:
    ledger = ledger_of((both(None, (1, 1)), False), (both((1, 1), (1, 2)), True))
    assert ledger.by_agent() == (both(None, (1, 2)),)
    ledger.add([both((1, 2), None)], by_world=True)
    assert ledger.by_agent() == ()


def test_a_row_of_the_world_that_the_agent_removed_is_a_removal() -> None:
    assert ledger_of((row(1, None, 5), True), (row(1, 5, None), False)).by_agent() == (row(1, 5, None),)
