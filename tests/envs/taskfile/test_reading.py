"""YAML 1.2 with places: what reads as two things is refused, and nothing grows without bound."""

import pytest

from wardian.envs.errors import TaskError
from wardian.envs.taskfile.reading import MAX_DEPTH, MAX_PARTS, read

BOMB = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9))


def test_values_are_what_they_look_like() -> None:
    text = "[no, on, 12:30, 2026-01-05, 1e3, 0x1F, .5, ~, true, 'x', !!str 5, \"0123\", 1.10, -3, 1., 007a]"
    expected = ["no", "on", "12:30", "2026-01-05", 1000.0, 31, 0.5, None, True, "x", "5", "0123", 1.1, -3, 1.0, "007a"]
    found = read(text, "f").data
    assert [(type(one), one) for one in found] == [(type(one), one) for one in expected]


def test_an_alias_stands_for_its_value() -> None:
    assert read("a: &x [1]\nb: *x", "f").data == {"a": [1], "b": [1]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", "f:3:1: a: this key stands twice; the first is in line 1"),
        ("a:\n  - 0123", "f:2:5: a[0]: 0123 is a number in some YAML and a text in other"),
        ("a: 1_000", "f:1:4: a: 1_000 is a number"),
        ("%YAML 1.1\n---\na: 010", "f:3:4: a: 010 is a number"),
        ("a: .nan", "f:1:4: a: .nan: a number must be finite"),
        ("a: -1e999", "f:1:4: a: -1e999: a number must be finite"),
        ("a: " + "1" * 5000, "f:1:4: a: a number of more than 300 characters"),
        ("a: !python/object:os.system x", "f:1:4: a: the tag !python/object:os.system is not known"),
        ("a: {<<: {b: 1}}", "merge keys"),
        ("? [1]\n: 2", "a key must be a text"),
        ("a: [", "f:1:5: no YAML"),
        ("a: 1\n---\nb: 2", "f:2:1: no YAML"),
        ("a: *gone", "undefined alias 'gone'"),
        ("a: \x01", "f: no YAML"),
        ("", "f: the file is empty"),
        ("a: &x [*x]", f"nested too deeply; at most {MAX_DEPTH} levels"),
        ("[" * 1200, "nested too deeply"),
        (
            "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9)),
            f"more than {MAX_PARTS} values",
        ),
    ],
)
def test_what_is_wrong_is_named_with_line_and_column(text: str, message: str) -> None:
    with pytest.raises(TaskError) as caught:
        read(text, "f")
    assert message in str(caught.value)
