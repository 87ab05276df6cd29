"""What a model answered becomes an action, whatever it is, and an episode becomes a chat that any server takes."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from wardian.envs.action import Action, Malformed, Message, ToolCalls, call
from wardian.envs.events import Word
from wardian.envs.observation import first_observation, observation
from wardian.rollouts.chat import NOTHING, UNREADABLE, Chat, opening
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.inference.backoff import LONGEST_ASKED_S, retry_after_s, wait_s
from wardian.rollouts.inference.completion import Pieces, read_body
from wardian.rollouts.inference.errors import EndpointFailed
from wardian.rollouts.inference.options import EndpointOptions
from wardian.rollouts.inference.prompt import tools_section
from wardian.rollouts.inference.reading import CUT_OFF, EMPTY, NAMELESS, WITHHELD, read
from wardian.sandbox.streams import stream
from wardian.tools.completions import CallFormat
from wardian.tools.contract import ToolCall

URL = "http://127.0.0.1:9/v1"


def body(message: dict[str, Any], finish: str = "stop", **choice: Any) -> dict[str, Any]:
    return {"choices": [{"message": message, "finish_reason": finish, **choice}]}


def tool_call(arguments: Any, name: Any = "show_item", key: Any = "a") -> dict[str, Any]:
    return {"id": key, "type": "function", "function": {"name": name, "arguments": arguments}}


def acted(message: dict[str, Any], finish: str = "stop", form: CallFormat | None = None) -> Action:
    return read(read_body(body(message, finish)), form).action


READ: dict[str, tuple[dict[str, Any], str, Action]] = {
    "text is a message": ({"content": "Done."}, "stop", Message("Done.")),
    "parts of text are text": ({"content": [{"type": "text", "text": "Do"}, {"type": "text", "text": "ne."}]}, "stop", Message("Done.")),
    "a refusal is a message": ({"content": None, "refusal": "I will not."}, "stop", Message("I will not.")),
    "reasoning is not told": ({"content": "<think>hm</think>\nDone."}, "stop", Message("Done.")),
    "only reasoning is empty": ({"content": "<think>hm"}, "stop", Malformed("<think>hm", EMPTY)),
    "no text is empty": ({"content": None}, "stop", Malformed("", EMPTY)),
    "blanks are empty": ({"content": " \n"}, "stop", Malformed(" \n", EMPTY)),
    "text that was cut off": ({"content": "I will now"}, "length", Malformed("I will now", CUT_OFF)),
    "withheld": ({"content": ""}, "content_filter", Malformed("", WITHHELD)),
    "a call": (
        {"content": None, "tool_calls": [tool_call('{"item_id": 1}')]},
        "tool_calls",
        ToolCalls((ToolCall("show_item", '{"item_id": 1}'),)),
    ),
    "calls beat text": ({"content": "Look.", "tool_calls": [tool_call("{}")]}, "stop", ToolCalls((ToolCall("show_item", "{}"),))),
    "an object stays one": ({"tool_calls": [tool_call({"item_id": 1})]}, "stop", call("show_item", item_id=1)),
    "null arguments": ({"tool_calls": [tool_call(None)]}, "stop", ToolCalls((ToolCall("show_item", "null"),))),
    "a list of arguments": ({"tool_calls": [tool_call([1])]}, "stop", ToolCalls((ToolCall("show_item", "[1]"),))),
    "broken arguments": ({"tool_calls": [tool_call('{"item_id": ')]}, "stop", ToolCalls((ToolCall("show_item", '{"item_id": '),))),
    "NaN in arguments": ({"tool_calls": [tool_call({"x": float("nan")})]}, "stop", ToolCalls((ToolCall("show_item", '{"x": NaN}'),))),
    "calls that are no list": ({"content": "Done.", "tool_calls": {"a": 1}}, "stop", Message("Done.")),
    "an empty list of calls": ({"content": "Done.", "tool_calls": []}, "stop", Message("Done.")),
}


@pytest.mark.parametrize("name", READ)
def test_an_answer_becomes_the_action_of_its_rule(name: str) -> None:
    message, finish, expected = READ[name]
    assert acted(message, finish) == expected


@pytest.mark.parametrize("broken", [tool_call("{}", name=None), tool_call("{}", name=""), tool_call("{}", name=3), {"id": "a"}, None, "x"])
def test_one_call_without_a_name_spoils_the_answer_and_its_text_is_kept(broken: Any) -> None:
    action = acted({"content": "Look.", "tool_calls": [tool_call("{}"), broken]})
    assert isinstance(action, Malformed)
    assert (action.reason, action.raw.split("\n")[0]) == (NAMELESS, "Look.")
    assert json.loads(action.raw.split("\n")[1])[1] == broken


def test_calls_that_were_cut_off_are_not_run_even_where_they_look_whole() -> None:
    action = acted({"content": None, "tool_calls": [tool_call("{}"), tool_call('{"item')]}, "length")
    assert isinstance(action, Malformed)
    assert "item" in action.raw


EXAMPLES = {
    CallFormat.JSON: '{"name": "...", "arguments": {...}}',
    CallFormat.TAGS: '<tool_call>{"name": "...", "arguments": {...}}</tool_call>',
    CallFormat.MISTRAL: "[TOOL_CALLS]name{...}",
    CallFormat.INVOKE: '<invoke name="..."><parameter name="...">value</parameter></invoke>',
}


@pytest.mark.parametrize("form", CallFormat)
def test_the_format_that_is_told_is_the_one_that_is_read(form: CallFormat) -> None:
    example = EXAMPLES[form]
    assert example in tools_section(({"type": "function"},), form)
    filled = (
        example.replace('name": "..."', 'name": "show_item"')
        .replace('invoke name="..."', 'invoke name="show_item"')
        .replace("name{", "show_item{")
    )
    action = acted({"content": filled.replace("{...}", "{}")}, form=form)
    assert isinstance(action, ToolCalls)
    assert [one.tool for one in action.calls] == ["show_item"]


def test_calls_in_text_are_read_in_the_format_that_was_named() -> None:
    text = 'Look. <tool_call>{"name": "show_item", "arguments": {"item_id": 1}}</tool_call>'
    assert acted({"content": text}, form=CallFormat.TAGS) == call("show_item", item_id=1)
    assert acted({"content": text}, form=CallFormat.MISTRAL) == Message(text)
    assert isinstance(acted({"content": text.replace("}}", "}")}, form=CallFormat.TAGS), Malformed)
    assert acted({"content": None}, form=CallFormat.TAGS) == Malformed("", EMPTY)


@pytest.mark.parametrize("answer", [None, [], "oops", {}, {"choices": []}, {"choices": [None]}, {"error": {"message": "overloaded"}}])
def test_what_is_no_chat_completion_is_the_servers_failure(answer: Any) -> None:
    with pytest.raises(EndpointFailed, match="no chat completion"):
        read_body(answer)


@pytest.mark.parametrize("value", [True, -1, 1.5, "7", None])
def test_usage_that_is_no_number_of_tokens_is_absent(value: Any) -> None:
    assert read_body(body({"content": "x"}) | {"usage": {"prompt_tokens": value, "completion_tokens": 3}}).prompt_tokens is None


@pytest.mark.parametrize("value", [float("nan"), "-0.5", None])
def test_logprobs_are_taken_all_or_none(value: Any) -> None:
    tokens = [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": value}]
    assert read_body(body({"content": "ab"}, logprobs={"content": tokens})).logprobs is None
    assert read_body(body({"content": "ab"}, logprobs={"content": tokens[:1]})).logprobs == (-0.5,)


def streamed(*deltas: dict[str, Any]) -> Any:
    pieces = Pieces()
    for delta in deltas:
        pieces.add({"choices": [{"delta": delta}]})
    pieces.add({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})
    return read(pieces.whole(), None)


def part(arguments: Any, **fields: Any) -> dict[str, Any]:
    name = fields.pop("name", None)
    return {"tool_calls": [{**fields, "function": {"arguments": arguments, **({"name": name} if name else {})}}]}


def test_pieces_of_calls_that_alternate_are_put_together_by_index() -> None:
    first, second = part("", index=0, id="a", name="one"), part("", index=1, id="b", name="two")
    found = streamed(first, second, part('{"x"', index=0), part("{", index=1), part(": 1}", index=0), part("}", index=1))
    assert found.action == ToolCalls((ToolCall("one", '{"x": 1}'), ToolCall("two", "{}")))
    assert found.ids == ("a", "b")


def test_whole_calls_under_one_index_or_none_are_told_apart_by_id() -> None:
    expected = ToolCalls((ToolCall("one", "{}"), ToolCall("two", "{}")))
    assert streamed(part("{}", index=0, id="a", name="one"), part("{}", index=0, id="b", name="two")).action == expected
    assert streamed(part("{}", id="a", name="one"), part("{}", id="b", name="two")).action == expected
    assert streamed(part("{", id="a", name="one"), part("}"), part("{", id="b", name="two"), part("}", id="b")).action == expected


def test_a_stream_that_ends_early_or_tells_of_an_error_is_a_failure() -> None:
    pieces = Pieces()
    pieces.add({"choices": [{"delta": {"content": "Do"}}]})
    with pytest.raises(EndpointFailed, match="before the answer did"):
        pieces.whole()
    with pytest.raises(EndpointFailed, match="out of memory"):
        pieces.add({"error": {"message": "out of memory"}})


def test_the_opening_is_policy_as_system_and_task_as_user_and_loses_nothing() -> None:
    first = first_observation("Refund it.\n\n# Policy\n\nof the house", "Be kind.\n\nBe short.", datetime(2025, 3, 3, 9, tzinfo=UTC))
    system, user = opening(first.rendered)
    assert (system["role"], user["role"]) == ("system", "user")
    assert user["content"] == "Refund it."
    assert system["content"].endswith("Be kind.\n\nBe short.\n\n# World time\n\n2025-03-03T09:00:00+00:00")
    assert "of the house" in system["content"]
    assert opening("anything else") == [{"role": "user", "content": "anything else"}]


def test_what_a_customer_says_comes_after_the_results_as_a_turn_of_the_user() -> None:
    chat = Chat.begin("x")
    chat.act(ToolCalls((ToolCall("a", {}), ToolCall("b", {}))))
    chat.answer(observation([{"status": "ok", "result": 1}], [Word("customer", "Any news?", 0)]).rendered)
    assert [message["role"] for message in chat.messages[2:]] == ["tool", "user"]
    assert json.loads(chat.messages[-1]["content"])["text"] == "Any news?"


def test_results_follow_their_calls_in_order_and_by_id() -> None:
    chat = Chat.begin("x")
    chat.act(ToolCalls((ToolCall("one", {"a": "é"}), ToolCall("two", "{}"))), "Both.", ("p", "q"))
    chat.answer(observation([{"status": "ok", "result": "line\nbreak"}, {"status": "not_found", "error": "none"}]).rendered)
    said, one, two = chat.messages[1:]
    assert (said["content"], [part["id"] for part in said["tool_calls"]]) == ("Both.", ["p", "q"])
    assert [part["function"]["arguments"] for part in said["tool_calls"]] == ['{"a": "é"}', "{}"]
    assert [(m["role"], m["tool_call_id"], json.loads(m["content"])["status"]) for m in (one, two)] == [
        ("tool", "p", "ok"),
        ("tool", "q", "not_found"),
    ]


def test_ids_that_are_missing_or_were_there_before_are_made_anew() -> None:
    chat = Chat.begin("x")
    for ids in (("p", "p", None, ""), ("p",), ()):
        chat.act(ToolCalls((ToolCall("one", {}),) * 4), ids=ids)
        chat.answer("1\n2\n3\n4")
    used = [part["id"] for message in chat.messages for part in message.get("tool_calls", ())]
    assert (len(set(used)), used[0]) == (12, "p")
    assert used == [message["tool_call_id"] for message in chat.messages if message["role"] == "tool"]


@pytest.mark.parametrize("raw", ['{"a": ', "[1]", "null", "", '"text"', "[" * 100_000])
def test_arguments_that_are_no_object_stand_in_the_chat_as_one(raw: str) -> None:
    chat = Chat.begin("x")
    chat.act(ToolCalls((ToolCall("one", raw),)))
    assert json.loads(chat.messages[1]["tool_calls"][0]["function"]["arguments"]) == {UNREADABLE: raw}


@pytest.mark.parametrize(
    ("action", "text"), [(Malformed("", "empty"), NOTHING), (Malformed("{", "cut"), "{"), (Message("Hi"), "Hi"), (ToolCalls(()), NOTHING)]
)
def test_what_is_no_call_is_answered_as_a_user(action: Action, text: str) -> None:
    chat = Chat.begin("x")
    chat.act(action)
    chat.answer("why not")
    assert chat.messages[1:] == [{"role": "assistant", "content": text}, {"role": "user", "content": "why not"}]


def test_waits_grow_are_bounded_and_follow_from_the_seed() -> None:
    waits = [[wait_s(tries, None, stream(seed, "w")) for tries in range(1, 40)] for seed in (1, 1, 2)]
    assert waits[0] == waits[1] != waits[2]
    assert all(0 < wait <= 30 for wait in waits[0])
    assert waits[0][0] < waits[0][3] < waits[0][6]


def test_a_server_that_says_when_is_not_asked_before() -> None:
    assert 7 <= wait_s(1, 7.0, stream(0, "w")) <= 8
    assert LONGEST_ASKED_S <= wait_s(1, 1e9, stream(0, "w")) <= LONGEST_ASKED_S + 1
    now = datetime(2025, 3, 3, 9, 0, tzinfo=UTC)
    assert [retry_after_s(text, now) for text in ("3", "Mon, 03 Mar 2025 09:00:05 GMT", "Mon, 03 Mar 2025 08:00:00 GMT")] == [3, 5, 0]
    assert [retry_after_s(text, now) for text in (None, "", "soon", "-1", "1.5")] == [None] * 5


WRONG: dict[str, dict[str, Any]] = {
    "base-url: .*no address": {"base_url": "localhost:8000"},
    "base-url: holds a password": {"base_url": "http://me:secret@host/v1"},
    "base-url: leave out": {"base_url": f"{URL}/chat/completions"},
    "base-url: must end": {"base_url": f"{URL}?key=1"},
    "model: name": {"model": " "},
    "max-tokens: must be at least 1": {"max_tokens": 0},
    "tries: must be at least 1": {"tries": 0},
    "silence-s: must be above 0": {"silence_s": float("inf")},
    "temperature: must be": {"temperature": -1.0},
    "request: messages cannot": {"extra": {"messages": []}},
}


@pytest.mark.parametrize("message", WRONG)
def test_options_out_of_range_are_named(message: str) -> None:
    with pytest.raises(UsageProblem, match=f"^{message}"):
        EndpointOptions(**{"base_url": URL, "model": "m", **WRONG[message]})


def test_the_key_is_read_from_the_environment_and_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def options(name: str | None, tool_calls: str = "api") -> EndpointOptions:
        return EndpointOptions.read(base_url=URL, model="m", api_key_env=name, tool_calls=tool_calls)

    monkeypatch.setenv("A_KEY", "s3cret\n")
    assert (options("A_KEY").api_key, options(None).api_key) == ("s3cret", None)
    assert "s3cret" not in repr(options("A_KEY"))
    with pytest.raises(UsageProblem, match="the environment has no NO_KEY"):
        options("NO_KEY")
    with pytest.raises(UsageProblem, match="no 'text:yaml'; there are api, text:json"):
        options(None, "text:yaml")
