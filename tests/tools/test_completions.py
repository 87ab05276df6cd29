import json
from pathlib import Path

import pytest

from wardian.tools.completions import CallFormat, parse_completion
from wardian.tools.contract import ToolCall
from wardian.tools.loading import Rejected

CASES = Path(__file__).parents[3] / "shared" / "cases" / "tool_calls.jsonl"
LS = '{"name": "shell", "arguments": {"command": "ls"}}'
J, T, M, X = CallFormat.JSON, CallFormat.TAGS, CallFormat.MISTRAL, CallFormat.INVOKE

REJECTED = (
    (J, "All done.", "no_tool_call"),
    (J, "", "no_tool_call"),
    (J, f"```json\n{LS}\n```", "no_tool_call"),
    (J, LS[:-3], "malformed_json"),
    (J, LS + LS, "trailing_data"),
    (J, '{"name": "shell", "name": "rm"}', "duplicate_key(name)"),
    (J, '{"arguments": {}}', "not_object"),
    (T, f"Like this:\n```\n<tool_call>{LS}</tool_call>\n```\nbut do not.", "no_tool_call"),
    (T, f"```\n<tool_call>{LS}</tool_call>", "no_tool_call"),
    (T, f"<think>maybe <tool_call>{LS}</tool_call></think>\nDone.", "no_tool_call"),
    (T, f"<think>maybe <tool_call>{LS}</tool_call>", "no_tool_call"),
    (T, f"maybe <tool_call>{LS}</tool_call></think>\nDone.", "no_tool_call"),
    (T, f"<tool_call>{LS}", "mismatched_tag"),
    (T, f"<tool_call>{LS[:-1]}</tool_call>", "malformed_json"),
    (T, f"<tool_call>{LS}</tool_call>\n<tool_call>{LS[:-4]}", "malformed_json"),
    (J, f"[TOOL_CALLS]shell{LS}", "no_tool_call"),
    (M, '[TOOL_CALLS]{"command": "ls"}', "malformed_json"),
    (X, '<invoke name="w">\n<parameter name="a">t</a>\n<parameter name="b">b.md</parameter>\n</invoke>', "mismatched_tag"),
    (X, '<invoke name="w">\n<parameter name="a">t</a>\n</invoke>', "mismatched_tag"),
    (X, '<invoke name="w">\n<parameter name="a">t</parameter>', "mismatched_tag"),
    (X, '<invoke name="w"><parameter name="a">1</parameter><parameter name="a">2</parameter></invoke>', "duplicate_key(a)"),
)

ACCEPTED = (
    (J, f"  {LS}\n", (ToolCall("shell", {"command": "ls"}),)),
    (J, '{"name": "w", "arguments": {"c": "```json\\n{}\\n```"}}', (ToolCall("w", {"c": "```json\n{}\n```"}),)),
    (J, '{"name": "w", "arguments": "{\\"c\\": 1}"}', (ToolCall("w", '{"c": 1}'),)),
    (J, f"<think>hm</think>{LS}", (ToolCall("shell", {"command": "ls"}),)),
    (T, f"First.\n<tool_call>\n{LS}\n</tool_call>\n<tool_call>{LS}</tool_call>", (ToolCall("shell", {"command": "ls"}),) * 2),
    (
        T,
        '<tool_call>{"name": "w", "arguments": {"c": "</tool_call> ``` <think>"}}</tool_call>',
        (ToolCall("w", {"c": "</tool_call> ``` <think>"}),),
    ),
    (M, '[TOOL_CALLS]w{"p": "}"}[TOOL_CALLS]v{}', (ToolCall("w", '{"p": "}"}'), ToolCall("v", "{}"))),
    (M, '[TOOL_CALLS]w{"p": ', (ToolCall("w", '{"p":'),)),
    (X, '<invoke name="w">\n<parameter name="c">a\n<b>&amp;</b></parameter>\n</invoke>', (ToolCall("w", {"c": "a\n<b>&amp;</b>"}),)),
)


@pytest.mark.parametrize(("form", "text", "expected"), REJECTED)
def test_what_is_no_whole_call_is_named_and_never_run(form: CallFormat, text: str, expected: str) -> None:
    found = parse_completion(text, form)
    assert isinstance(found, Rejected)
    assert str(found) == expected


@pytest.mark.parametrize(("form", "text", "calls"), ACCEPTED)
def test_calls_come_out_in_order_with_their_text_as_it_was(form: CallFormat, text: str, calls: tuple[ToolCall, ...]) -> None:
    assert parse_completion(text, form) == calls


@pytest.mark.skipif(not CASES.exists(), reason="the shared cases are not here")
def test_every_reported_completion_gets_its_answer() -> None:
    for line in CASES.read_text().splitlines():
        case = json.loads(line)
        if case["kind"] != "completion":
            continue
        raw, expect = case["raw"], case["expect"]
        form = X if "<invoke" in raw else T if "<tool_call>" in raw else M if "[TOOL_CALLS]" in raw else J
        found = parse_completion(raw, form)
        if isinstance(found, Rejected):
            assert found.kind.value in expect, case["id"]
        else:
            assert expect.startswith("accept") or "unknown_tool" in expect, case["id"]
            assert len(found) == 1
