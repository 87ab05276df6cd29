"""From a model's raw completion to tool calls, in the call format that its chat template uses.

One format per model, named by whoever runs it: trying formats in turn would be a guess. Text in a `<think>` block or in a Markdown fence
is not a call, whatever stands there: drafts and examples must not run. A call that began and cannot be read is rejected whole, never
cut down to what could be read.

| format | a call looks like |
| --- | --- |
| `json` | the whole text is `{"name": "...", "arguments": {...}}` |
| `tags` | `<tool_call>{"name": "...", "arguments": {...}}</tool_call>`, any number of them |
| `mistral` | `[TOOL_CALLS]name{...}`, any number of them (v11 of its tokenizer) |
| `invoke` | `<invoke name="..."><parameter name="...">text</parameter></invoke>`, any number of them |
"""

import re
from collections.abc import Callable
from enum import StrEnum

from wardian.tools.contract import Json, ToolCall
from wardian.tools.loading import Kind, Rejected, json_end, load_strict


class CallFormat(StrEnum):
    JSON = "json"
    TAGS = "tags"
    MISTRAL = "mistral"
    INVOKE = "invoke"


def parse_completion(completion: str, form: CallFormat) -> tuple[ToolCall, ...] | Rejected:
    """Find the calls of `completion` in their order.

    Gives a `Rejected` of kind `no_tool_call` where there is none, which for an environment is a message and no fault.
    Arguments of a call stay raw text where the format has them as text; `parsing.parse` reads them.
    """
    found = _whole(completion) if form is CallFormat.JSON else _scan(completion, form)
    return found or Rejected(Kind.NO_TOOL_CALL, f"The text holds no tool call in the format {form.value!r}.")


def _whole(completion: str) -> tuple[ToolCall, ...] | Rejected:
    text = completion.strip()
    if not text.startswith("{"):
        text = text.rpartition("</think>")[2].strip()
    if not text.startswith("{"):
        return ()
    found = load_strict(text)
    call = found if isinstance(found, Rejected) else _call_of(found.value)
    return call if isinstance(call, Rejected) else (call,)


def _scan(text: str, form: CallFormat) -> tuple[ToolCall, ...] | Rejected:
    """Walk from mark to mark. Whatever stands inside a call is its data, and marks there mean nothing."""
    marks, read = _FORMATS[form]
    calls: list[ToolCall] = []
    position = 0
    while (mark := marks.search(text, position)) is not None:
        position = mark.end()
        if mark[0] in _HIDING:
            end = text.find(_HIDING[mark[0]], position)
            if end == -1:
                break
            position = end + len(_HIDING[mark[0]])
        elif mark[0] == "</think>":  # its opening stood in the prompt: all so far was reasoning
            calls.clear()
        elif text[: mark.start()].endswith("`"):
            continue
        else:
            found = read(text, mark.start())
            if isinstance(found, Rejected):
                end = text.find("</think>", position)
                if end == -1 or "<think>" in text[position:end]:
                    return found
                position = end
            else:
                call, position = found
                calls.append(call)
    return tuple(calls)


def _call_of(value: Json) -> ToolCall | Rejected:
    shape = 'Send {"name": "...", "arguments": {...}}.'
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return Rejected(Kind.NOT_OBJECT, f"A tool call needs an object with a name. {shape}")
    extra = set(value) - {"name", "arguments", "id", "type"}
    if extra:
        return Rejected(Kind.UNKNOWN_ARGUMENT, f"A tool call has no {', '.join(sorted(extra))}. {shape}", sorted(extra)[0])
    arguments = value.get("arguments", {})
    if not isinstance(arguments, dict | str):
        return Rejected(Kind.NOT_OBJECT, f"The arguments must be an object. {shape}", "arguments")
    return ToolCall(value["name"], arguments)


def _tagged(text: str, start: int) -> tuple[ToolCall, int] | Rejected:
    start += len("<tool_call>")
    end = json_end(text, start)
    closing = _CLOSE_TAG.match(text, end) if end is not None else None
    found = load_strict((text[start:end] if closing else text[start:].split("</tool_call>")[0]).strip())
    if isinstance(found, Rejected):
        return found
    if closing is None:
        return _mismatched("a <tool_call> has no </tool_call> after its object")
    call = _call_of(found.value)
    return call if isinstance(call, Rejected) else (call, closing.end())


def _mistral(text: str, start: int) -> tuple[ToolCall, int] | Rejected:
    head = _MISTRAL_HEAD.match(text, start)
    if head is None:
        return Rejected(Kind.MALFORMED_JSON, "After [TOOL_CALLS] the name of a tool and an object must follow: [TOOL_CALLS]name{...}.")
    end = json_end(text, head.end())
    if end is None:  # cut off: the rest is kept as it is, and rejected as arguments
        end = len(text)
    return ToolCall(head["name"], text[head.end() : end].strip()), end


def _invoked(text: str, start: int) -> tuple[ToolCall, int] | Rejected:
    head = _INVOKE_HEAD.match(text, start)
    if head is None:
        return _mismatched('an <invoke> must read <invoke name="...">')
    arguments: dict[str, Json] = {}
    position = head.end()
    while (parameter := _PARAMETER.match(text, position)) is not None:
        name = parameter["name"]
        value, closing, _ = text[parameter.end() :].partition("</parameter>")
        if not closing or "<parameter name=" in value or "</invoke>" in value:
            return _mismatched(f"the parameter {name} has no </parameter> of its own")
        if name in arguments:
            return Rejected(Kind.DUPLICATE_KEY, f"The parameter {name} stands twice.", name)
        arguments[name] = value
        position = parameter.end() + len(value) + len(closing)
    end = _INVOKE_END.match(text, position)
    if end is None:
        return _mismatched("an <invoke> holds something that is no <parameter>, or has no </invoke>")
    return ToolCall(head["name"], arguments), end.end()


def _mismatched(what: str) -> Rejected:
    return Rejected(Kind.MISMATCHED_TAG, f"The tags of the call do not match: {what}. Close each tag by its own name.")


_HIDING = {"<think>": "</think>", "```": "```"}
_CLOSE_TAG = re.compile(r"\s*</tool_call>")
_MISTRAL_HEAD = re.compile(r"\[TOOL_CALLS\]\s*(?P<name>[^\s{\[]+)\s*(?=\{)")
_INVOKE_HEAD = re.compile(r'<invoke name="(?P<name>[^"]*)">')
_PARAMETER = re.compile(r'\s*<parameter name="(?P<name>[^"]*)">')
_INVOKE_END = re.compile(r"\s*</invoke>")
_FORMATS: dict[CallFormat, tuple[re.Pattern[str], Callable[[str, int], tuple[ToolCall, int] | Rejected]]] = {
    CallFormat.TAGS: (re.compile(r"</?think>|```|<tool_call>"), _tagged),
    CallFormat.MISTRAL: (re.compile(r"</?think>|```|\[TOOL_CALLS\]"), _mistral),
    CallFormat.INVOKE: (re.compile(r"</?think>|```|<invoke\b"), _invoked),
}
