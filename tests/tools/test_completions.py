import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wardian.tools.completions import CallFormat, parse_completion
from wardian.tools.contract import ToolCall
from wardian.tools.loading import Rejected

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


WORDS = st.text(max_size=10) | st.sampled_from(
    ["</think>", "</tool_call>", "```", "<think>", "[TOOL_CALLS]a{", "<invoke name=", "{}", '\\"', "\n"]
)
CALLS = st.lists(st.tuples(st.sampled_from(["shell", "w", "read_file"]), st.dictionaries(WORDS, WORDS, max_size=3)), min_size=1, max_size=3)
PROSE = st.text(alphabet="abc .,\n", max_size=12)


def written(form: CallFormat, name: str, values: dict[str, str]) -> str:
    """A call as a model of that format writes it."""
    body = json.dumps(values)
    whole = f'{{"name": "{name}", "arguments": {body}}}'
    return {J: whole, T: f"<tool_call>{whole}</tool_call>", M: f"[TOOL_CALLS]{name}{body}"}[form]


def as_objects(found: tuple[ToolCall, ...] | Rejected) -> list[tuple[str, object]]:
    assert not isinstance(found, Rejected)
    return [(call.tool, json.loads(call.args) if isinstance(call.args, str) else call.args) for call in found]


@settings(deadline=None)
@given(st.sampled_from([T, M]), CALLS, PROSE, st.sampled_from(["", "<think>{}</think>", "```{}```", "{}</think>"]))
def test_calls_of_any_content_come_out_as_they_went_in(
    form: CallFormat, calls: list[tuple[str, dict[str, str]]], prose: str, draft: str
) -> None:
    text = draft.format("<tool_call> [TOOL_CALLS]a") + prose + prose.join(written(form, *call) for call in calls) + prose
    assert as_objects(parse_completion(text, form)) == calls


@given(CALLS, st.sampled_from(["", "<think>a</think>", "a</think>\n"]))
def test_a_whole_call_comes_out_as_it_went_in(calls: list[tuple[str, dict[str, str]]], thought: str) -> None:
    assert as_objects(parse_completion(thought + written(J, *calls[0]), J)) == calls[:1]


MARKS = [
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "[TOOL_CALLS]",
    '<invoke name="a">',
    "</invoke>",
    '<parameter name="b">',
    "<invoke",
]
SOUP = st.lists(st.sampled_from([*MARKS, *'`{}[" \\\n\ud800', "```", "</parameter>", "shell", LS, LS[:-2]]), max_size=14).map("".join)


@settings(max_examples=200)
@given(st.sampled_from(CallFormat), SOUP)
def test_no_completion_raises_and_hidden_calls_never_run(form: CallFormat, soup: str) -> None:
    found = parse_completion(soup, form)
    assert isinstance(found, Rejected) or found
    open_ended = soup.replace("</think>", "").replace("```", "")
    for hiding in ("<think>", "```"):
        assert str(parse_completion(hiding + open_ended, form)) == "no_tool_call"


LONG = 60_000


@pytest.mark.parametrize("form", CallFormat)
@pytest.mark.parametrize(
    "piece",
    [
        "<tool_call>{ </think>",
        "<tool_call>{</think>x<think></think>",
        "`<tool_call>",
        "<tool_call>x</think>",
        "</think>{",
        "[TOOL_CALLS]a{",
    ],
)
def test_a_completion_that_once_took_a_walk_for_each_mark_is_answered(form: CallFormat, piece: str) -> None:
    """With a walk that is quadratic this takes minutes."""
    assert parse_completion(piece * LONG, form)


def test_many_parameters_are_read_in_one_walk() -> None:
    text = "".join(f'<parameter name="p{number}">v</parameter>' for number in range(LONG))
    found = parse_completion(f'<invoke name="a">{text}</invoke>', X)
    assert not isinstance(found, Rejected)
    assert len(found[0].args) == LONG
