"""Values compare the same whatever engine they come from."""

from typing import Any

import pytest

from wardian.envs.taskfile.changes import MAX_ROWS, _is, _pattern, forbidden
from wardian.envs.taskfile.checking import MAX_PAIRS, _wrong_rows
from wardian.envs.taskfile.matching import MAX_CHARS, is_slow, wrong_text
from wardian.envs.taskfile.schema import SqlCheck, TextMatch
from wardian.envs.taskfile.splitting import statements
from wardian.envs.taskfile.values import same, same_json, unmatched
from wardian.sandbox.database.base import RowChange

from .conftest import one_task, tasks_in


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        (5.94, 5.940000000000001),
        (1, 1.0),
        (True, 1),
        (0, False),
        (None, None),
        ("2025-03-01 09:00:00", "2025-03-01T09:00:00.000Z"),
        ("2025-03-01T09:00", "2025-03-01 09:00:00+00"),
        ("2025-03-01 09:00:00.5", "2025-03-01T09:00:00.500Z"),
    ],
)
def test_one_value_in_two_forms_is_the_same(expected: float | str | None, found: float | str | None) -> None:
    assert same(expected, found)
    assert same(found, expected)


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        (5.94, 5.95),
        ("5", 5),
        (None, 0),
        (None, ""),
        (2**53, 2**53 + 1),
        ("2025-03-01", "2025-03-01 00:00:00"),
        ("2025-03-01 09:00:00", "2025-03-01 09:00:00+01"),
    ],
)
def test_other_values_are_not(expected: float | str | None, found: float | str | None) -> None:
    assert not same(expected, found)


def test_rows_match_in_any_order_each_as_often_as_it_stands() -> None:
    assert unmatched([[1, "a"], [2, None]], [[2, None], [1.0, "a"]]) == ([], [])
    assert unmatched([[1], [1]], [[1], [2]]) == ([[1]], [[2]])
    assert unmatched([[1]], [[1, 2]]) == ([[1]], [[1, 2]])


def test_rows_within_a_tolerance_are_paired_as_well_as_can_be() -> None:
    assert unmatched([[1.0], [1.4]], [[1.3], [0.9]], 0.4) == ([], [])
    assert unmatched([[1.4], [1.0]], [[1.3], [0.9]], 0.4) == ([], [])
    assert unmatched([[1.0], [1.4]], [[1.3], [1.0]], 0.05) == ([[1.4]], [[1.3]])


def test_numbers_beyond_64_bits_are_texts_and_never_raise() -> None:
    assert same(10**30, str(10**30))
    assert not same(3.98, 10**400, 0.01)
    assert unmatched([[3, 3.98]], [[3, "1" + "0" * 5000]], 0.01) == ([[3, 3.98]], [[3, "1" + "0" * 5000]])
    assert same_json(1e20, 10**20)
    assert not same_json(3.5, 10**400)


def test_a_rule_takes_a_text_for_a_number_only_as_an_engine_writes_it() -> None:
    assert [text for text in ("98", "98.00", "9.8e+1", "9_8", " 98\n", "٩٨", "nan", "inf") if _is(98, text)] == ["98", "98.00", "9.8e+1"]


def test_json_compares_by_value() -> None:
    assert same_json({"a": [1, 2.0], "b": None}, {"b": None, "a": [1.0, 2]})
    for one, other in (({"a": 1}, {"a": True}), ([1, 2], [2, 1]), ({"a": 1}, {"a": 1, "b": 2}), (None, False), ("1", 1)):
        assert not same_json(one, other)


@pytest.mark.parametrize(
    ("pattern", "fits", "does_not"),
    [
        ("out/**/a*c.txt", ["out/x/y/abc.txt", "out/a/ac.txt", "out/x/a/abcc.txt"], ["out/abc.txt", "out/x/a/bc.txt", "out/x/abc.txt/y"]),
        ("**/a/**/b*/*.csv", ["x/a/y/b1/2.csv", "x/a/a/bb/.csv", "x/b/a/b/b/c.csv"], ["x/a/b1/2.csv", "x/a/y/b1/z/2.csv", "a/y/b/c.csv"]),
        ("a*b**", ["ab", "aXb/c/d", "abb"], ["a/b", "b"]),
        ("**/a/**/a/**/a/**/a/**/b", ["x/a/x/a/x/a/x/a/x/b"], ["/".join(["a"] * 1900), "x/a/x/a/x/a/x/b"]),
    ],
)
def test_stars_stand_for_text_however_long_a_path_is(pattern: str, fits: list[str], does_not: list[str]) -> None:
    assert [path for path in (*fits, *does_not) if _pattern(pattern).fullmatch(path)] == fits


@pytest.mark.parametrize(
    ("changes", "expected"),
    [("{only: [{table: People}]}", (1, 0)), ("{only: any, never: [{table: Sale}]}", (0, 1)), ("{only: any}", (0, 0))],
)
def test_more_rows_than_are_looked_at_break_every_rule(changes: str, expected: tuple[int, int]) -> None:
    spec = tasks_in(one_task(changes=changes)).specs[0]
    row = RowChange("People", (1,), None, {"PeopleId": 1})
    assert [len(lines) for lines in forbidden(spec, [row] * MAX_ROWS, {})] == [0, 0]
    assert tuple(len(lines) for lines in forbidden(spec, [row] * (MAX_ROWS + 1), {})) == expected


@pytest.mark.parametrize(("compare", "detail"), [("contains", "too many to look for 10 among them"), ("unordered", "found [[0], [1]")])
def test_rows_without_end_are_not_compared_each_with_each(compare: Any, detail: str) -> None:
    check = SqlCheck(name="a", sql="SELECT 1", rows=((0.5,),) * 10, compare=compare, tolerance=0.1)
    assert detail in _wrong_rows(check, [(number,) for number in range(MAX_PAIRS // 10 + 1)])


def test_a_text_beyond_what_a_pattern_is_looked_for_in_does_not_pass() -> None:
    text = "7" * (MAX_CHARS + 1)
    assert "characters" in wrong_text(TextMatch(matches="7"), text)
    assert wrong_text(TextMatch(matches="7"), text[1:]) == ""


def test_patterns_that_need_long_are_known() -> None:
    assert [one for one in (r"^7( dollars)?$", r"^\w+(, \w+)*$", r"(a+a+)+b") if is_slow(one)] == [r"(a+a+)+b"]


def test_a_script_is_split_at_its_semicolons_alone() -> None:
    script = """
    -- first; not a statement
    UPDATE t SET a = 'x;y' WHERE b = "c;d"; /* ; */
    DELETE FROM t WHERE a = $tag$;$tag$ ;;
    INSERT INTO t VALUES (E'it\\'s;')
    -- end
    """
    assert [one.split()[-1] for one in statements("a; b") + statements(";;") + statements("-- c")] == ["a", "b"]
    found = statements(script)
    assert len(found) == 3
    assert found[0].endswith('"c;d"')
    assert "DELETE" in found[1]
    assert "(E'it\\'s;')" in found[2]
