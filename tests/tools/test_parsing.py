import json
import time
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import Field

from wardian.tools.contract import Arguments, Status
from wardian.tools.loading import MAX_CHARS, Rejected, check, load
from wardian.tools.parsing import Parsed, parse
from wardian.tools.schemas import arguments_schema

TOOLS = Path(__file__).parents[3] / "shared" / "cases" / "tool_call_tools.json"
CASES = Path(__file__).parents[3] / "shared" / "cases" / "tool_calls.jsonl"


class WriteFile(Arguments):
    path: str
    content: str


class Shell(Arguments):
    command: str
    timeout_s: int | None = Field(default=None, ge=1, le=600)


class UpdateOrder(Arguments):
    order_id: int
    status: Literal["open", "held", "closed"] = "open"
    lines: list[dict[str, Any]] = Field(default_factory=list)
    note: str | None = None
    rush: bool = False
    amount: float = 0.0


class ReadFile(Arguments):
    path: str
    offset: int = 0
    limit: int = 100


class ListTables(Arguments):
    """Nothing to say."""


MODELS: dict[str, type[Arguments]] = {
    "write_file": WriteFile,
    "shell": Shell,
    "update_order": UpdateOrder,
    "read_file": ReadFile,
    "list_tables": ListTables,
}


REJECTED: tuple[tuple[type[Arguments], str, str], ...] = (
    (Shell, '{"command": lss"}', "malformed_json"),
    (Shell, '{"command": "ls', "malformed_json"),
    (Shell, '{"command": "ls",}', "malformed_json"),
    (Shell, "", "malformed_json"),
    (Shell, "I will list the files.", "malformed_json"),
    (Shell, "{'command': 'ls'}", "malformed_json"),
    (Shell, "{“command”: “ls”}", "malformed_json"),
    (Shell, '{"command": "ls"}{"command": "pwd"}', "trailing_data"),
    (Shell, '{"command": "ls"} done}', "trailing_data"),
    (WriteFile, '{"path": "a", "content": "it\\\'s"}', "invalid_escape"),
    (ReadFile, '{"path": "C:\\Data"}', "invalid_escape"),
    (ReadFile, '{"path": "\\u12"}', "invalid_escape"),
    (ReadFile, '["path", "a"]', "not_object"),
    (ReadFile, "null", "not_object"),
    (ReadFile, '"a.txt"', "not_object"),
    (ListTables, "[]", "not_object"),
    (ReadFile, "{}", "missing(path)"),
    (ReadFile, '{"path": "a", "id": 1}', "unknown_argument(id)"),
    (ListTables, '{"x": 1}', "unknown_argument(x)"),
    (ReadFile, '{"path": "a", "offset": "2025-03-09"}', "wrong_type(offset)"),
    (ReadFile, '{"path": "a", "offset": 1.0}', "wrong_type(offset)"),
    (ReadFile, '{"path": "a", "offset": true}', "wrong_type(offset)"),
    (ReadFile, '{"path": "a", "offset": "007"}', "wrong_type(offset)"),
    (ReadFile, '{"path": "a", "offset": "1e3"}', "wrong_type(offset)"),
    (ReadFile, '{"path": "a", "offset": null}', "wrong_type(offset)"),
    (ReadFile, '{"path": null}', "wrong_type(path)"),
    (UpdateOrder, '{"order_id": 1, "rush": "False"}', "wrong_type(rush)"),
    (UpdateOrder, '{"order_id": 1, "rush": 0}', "wrong_type(rush)"),
    (UpdateOrder, '{"order_id": 1, "rush": "0"}', "wrong_type(rush)"),
    (UpdateOrder, '{"order_id": 1, "lines": "[1"}', "wrong_type(lines)"),
    (UpdateOrder, '{"order_id": 1, "lines": "\\"[]\\""}', "wrong_type(lines)"),
    (UpdateOrder, '{"order_id": 1, "lines": {"a": 1}}', "wrong_type(lines)"),
    (UpdateOrder, '{"order_id": 1, "lines": [1]}', "wrong_type(lines.0)"),
    (WriteFile, '{"path": "a", "content": 731}', "wrong_type(content)"),
    (Shell, '{"command": ["ls"]}', "wrong_type(command)"),
    (UpdateOrder, '{"order_id": 1, "status": "failure"}', "enum(status)"),
    (UpdateOrder, '{"order_id": 1, "status": "HELD"}', "enum(status)"),
    (Shell, '{"command": "ls", "timeout_s": -1}', "out_of_range(timeout_s)"),
    (Shell, '{"command": "ls", "timeout_s": 601}', "out_of_range(timeout_s)"),
    (UpdateOrder, '{"order_id": 9223372036854775808}', "out_of_range(order_id)"),
    (UpdateOrder, '{"order_id": -9223372036854775809}', "out_of_range(order_id)"),
    (UpdateOrder, '{"order_id": 1, "amount": 9007199254740993}', "out_of_range(amount)"),
    (UpdateOrder, '{"order_id": 1, "lines": [{"qty": 1e999}]}', "non_finite(lines.0.qty)"),
    (UpdateOrder, '{"order_id": 1, "amount": NaN}', "non_finite"),
    (UpdateOrder, '{"order_id": 1, "amount": -Infinity}', "non_finite"),
    (UpdateOrder, '{"order_id": ' + "9" * 5000 + "}", "number_too_long"),
    (WriteFile, '{"path": "a", "content": "x", "path": "b"}', "duplicate_key(path)"),
    (UpdateOrder, '{"order_id": 1, "lines": [{"a": 1, "a": 1}]}', "duplicate_key(a)"),
    (WriteFile, '{"path": "a", "content": "x \\ud83d y"}', "invalid_unicode(content)"),
    (WriteFile, '{"path": "a", "content": "\ud83d"}', "invalid_unicode(content)"),
    (WriteFile, '{"path": "a", "\\udc00": "x"}', "invalid_unicode"),
    (UpdateOrder, '{"order_id": 1, "lines": ' + "[" * 3000 + "]" * 3000 + "}", "too_deep"),
    (UpdateOrder, '{"a":' * 100_000, "too_deep"),
    (WriteFile, '{"path": "a", "content": "' + "x" * MAX_CHARS + '"}', "too_large"),
)

ACCEPTED: tuple[tuple[type[Arguments], str, dict[str, object], str], ...] = (
    (Shell, '{"command": "a\n\tb"}', {"command": "a\n\tb"}, "control_characters"),
    (Shell, '```json\n{"command": "ls"}\n```', {"command": "ls"}, "code_fence"),
    (Shell, '"{\\"command\\": \\"ls\\"}"', {"command": "ls"}, "decoded(arguments)"),
    (UpdateOrder, '{"order_id": 3, "lines": "[{\\"q\\": 2}]"}', {"order_id": 3, "lines": [{"q": 2}]}, "decoded(lines)"),
    (WriteFile, '{"path": "c", "content": "{\\"a\\": 1}"}', {"path": "c", "content": '{"a": 1}'}, ""),
    (WriteFile, '{"path": "c", "content": "00731"}', {"path": "c", "content": "00731"}, ""),
    (UpdateOrder, '{"order_id": 1, "note": "null"}', {"order_id": 1, "note": "null"}, ""),
    (UpdateOrder, '{"order_id": 7203918846621000003}', {"order_id": 7203918846621000003}, ""),
    (UpdateOrder, '{"order_id": "8070450532247928833"}', {"order_id": 8070450532247928833}, "decoded(order_id)"),
    (UpdateOrder, '{"order_id": "17", "rush": "false"}', {"order_id": 17, "rush": False}, "decoded(order_id rush)"),
    (Shell, '{"command": "a &amp;&amp; b"}', {"command": "a &amp;&amp; b"}, ""),
    (WriteFile, '{"path": "a", "content": "\\ud83c\\udf78"}', {"path": "a", "content": "\U0001f378"}, ""),
    (WriteFile, '{"path": "a", "content": "<|im_end|>"}', {"path": "a", "content": "<|im_end|>"}, ""),
    (UpdateOrder, '{"order_id": 1, "amount": 3}', {"order_id": 1, "amount": 3}, ""),
    (ListTables, "null", {}, ""),
    (ListTables, " ", {}, ""),
    (ListTables, "{}", {}, ""),
)


@pytest.mark.parametrize(("model", "raw", "expected"), REJECTED, ids=lambda value: str(value)[:40] if isinstance(value, str) else None)
def test_each_kind_of_bad_call_has_its_own_name(model: type[Arguments], raw: str, expected: str) -> None:
    found = parse(model, raw)
    assert isinstance(found, Rejected)
    assert str(found) == expected
    assert found.message.encode()
    assert len(found.message) < 600


@pytest.mark.parametrize(("model", "raw", "values", "repaired"), ACCEPTED)
def test_what_has_one_reading_is_accepted_and_every_change_is_recorded(
    model: type[Arguments], raw: str, values: dict[str, object], repaired: str
) -> None:
    found = parse(model, raw)
    assert isinstance(found, Parsed)
    assert json.dumps(found.values) == json.dumps(values)
    assert found.repaired == repaired


@pytest.mark.skipif(not CASES.exists(), reason="the shared cases are not here")
def test_every_reported_call_gets_its_answer() -> None:
    for line in CASES.read_text().splitlines():
        case = json.loads(line)
        if case["kind"] != "arguments":
            continue
        found = parse(MODELS[case["tool"]], case["raw"])
        wanted = case["expect"].removeprefix("reject:").split()[0].rstrip(";,")
        if isinstance(found, Parsed):
            assert case["expect"].startswith("accept"), case["id"]
        elif "(" in wanted:
            assert str(found) == wanted, case["id"]
        else:
            assert found.kind.value == wanted, case["id"]


@pytest.mark.skipif(not TOOLS.exists(), reason="the shared cases are not here")
def test_schemas_are_those_of_the_reported_cases_but_for_defaults() -> None:
    for tool in json.loads(TOOLS.read_text()):
        found = arguments_schema(MODELS[tool["name"]])
        for schema in found["properties"].values():
            schema.pop("default", None)
        if tool["name"] == "shell":
            continue  # here its time limit may be null as well
        assert found == tool["parameters"]


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


@pytest.mark.parametrize("raw", ['"\\' * 200_000, '\\"' * 300_000, "[{" * 200_000, '{"a' * 200_000, "```" * 200_000, "```\n" * 100_000])
def test_no_text_makes_the_parser_slow(raw: str) -> None:
    began = time.perf_counter()
    assert isinstance(load(raw), Rejected)
    assert time.perf_counter() - began < 1.5


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON_VALUES, st.booleans())
def test_every_json_value_survives_unchanged(value: object, ascii_only: bool) -> None:
    found = load(json.dumps(value, ensure_ascii=ascii_only))
    assert not isinstance(found, Rejected)
    assert repr(found.value) == repr(value)
    assert found.repaired == ""


@settings(max_examples=300)
@given(st.text(alphabet=st.sampled_from('{}[]",:\\/ue0123456789.-+EntrulfasNI \n\x00\x1f\ud83d\ude00é`'), max_size=60))
@example("\ufeff{}")
@example('{"a": 1e400}')
def test_no_text_raises_and_what_is_accepted_reads_back(raw: str) -> None:
    found = load(raw)
    if not isinstance(found, Rejected):
        again = load(json.dumps(found.value))
        assert not isinstance(again, Rejected)
        assert repr(again.value) == repr(found.value)


@given(st.sampled_from(sorted(MODELS)), JSON_VALUES)
def test_no_value_raises(name: str, value: object) -> None:
    fields = list(MODELS[name].model_fields) or ["x"]
    for field in fields:
        found = parse(MODELS[name], json.dumps({field: value}))
        assert isinstance(found, Rejected) or found.values.keys() == {field}
