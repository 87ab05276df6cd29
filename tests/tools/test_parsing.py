import json
from typing import Any, Literal

import pytest
from pydantic import Field

from wardian.tools.contract import Arguments, Status
from wardian.tools.loading import MAX_CHARS, MAX_VALUES, Rejected, check, load
from wardian.tools.parsing import Parsed, parse


class Shell(Arguments):
    command: str


class UpdateOrder(Arguments):
    order_id: int
    status: Literal["open", "held", "closed"] = "open"
    lines: list[dict[str, Any]] = Field(default_factory=list)
    weights: list[float] = Field(default_factory=list)


def test_text_faults_and_value_faults_have_different_statuses() -> None:
    text, value = parse(Shell, "{"), parse(Shell, "{}")
    assert isinstance(text, Rejected)
    assert isinstance(value, Rejected)
    assert (text.status, value.status) == (Status.MALFORMED_CALL, Status.INVALID_ARGUMENTS)


def test_a_message_names_field_and_fix() -> None:
    found = parse(UpdateOrder, '{"order_id": 1, "status": "failure"}')
    assert isinstance(found, Rejected)
    assert found.message == "status: must be 'open', 'held' or 'closed', got \"failure\"."


@pytest.mark.parametrize("value", [float("nan"), 1 << 64, b"x", {1: 2}, "\ud800"])
def test_arguments_in_memory_are_held_to_the_same_rules(value: object) -> None:
    assert check({"a": value}) is not None
    assert isinstance(parse(UpdateOrder, {"order_id": value}), Rejected)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"command": "x" * MAX_CHARS}, "too_large"),
        ({"command": "x" * (MAX_CHARS - 20)}, ""),
        ({"lines": [{}] * (MAX_VALUES + 1)}, "too_large"),
    ],
)
def test_what_is_too_large_is_refused_as_text_and_as_an_object(values: dict[str, Any], kind: str) -> None:
    for raw in (values, json.dumps(values)):
        found = parse(Shell, raw)
        assert (found.kind.value if isinstance(found, Rejected) else "") == kind


def test_an_integer_that_a_float_would_change_is_refused_wherever_it_stands() -> None:
    found = parse(UpdateOrder, '{"order_id": 9007199254740993, "weights": [1, 9007199254740992, 9007199254740993]}')
    assert str(found) == "out_of_range(weights.2)"
    assert isinstance(parse(UpdateOrder, '{"order_id": 9007199254740993, "weights": [9007199254740992]}'), Parsed)


@pytest.mark.parametrize("key", ["k" * 100_000, "\ud800" * 100_000])
def test_what_a_model_made_up_is_never_said_back_whole(key: str) -> None:
    for raw in (json.dumps({"command": "ls", key: 1}), json.dumps({"command": {key: [float("1e308"), "\ud800"]}}), {key: {key: [1 << 80]}}):
        found = parse(Shell, raw)
        assert isinstance(found, Rejected)
        assert len(found.message.encode()) + len(str(found)) < 1000


LONG = 300_000


@pytest.mark.parametrize(
    "raw",
    [
        '"\\' * LONG,
        '\\"' * LONG,
        "[{" * LONG,
        '{"a' * LONG,
        "```" * LONG,
        "```\n" * LONG,
        '{"' + "k" * LONG + '": [' + "1," * 99_000 + "[}",
    ],
)
def test_text_that_once_took_a_walk_for_each_character_is_refused(raw: str) -> None:
    """With a walk that is quadratic this takes minutes."""
    assert isinstance(load(raw), Rejected)
