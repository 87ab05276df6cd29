"""From a model's raw completion to tool calls, in the call format that its chat template uses.

One format per model, named by whoever runs it: trying formats in turn would be a guess. Text in a `<think>` block or in a Markdown fence
is not a call, whatever stands there: drafts and examples must not run. A call that began and cannot be read is rejected whole, never
cut down to what could be read. Time grows in proportion to the text, whatever it holds.

A call whose strings hold raw newlines or tabs has one reading. Its arguments stay text, so that the repair is made, and logged, where
arguments are read.

| format | a call looks like |
| --- | --- |
| `json` | the whole text is `{"name": "...", "arguments": {...}}` |
| `tags` | `<tool_call>{"name": "...", "arguments": {...}}</tool_call>`, any number of them |
| `mistral` | `[TOOL_CALLS]name{...}`, any number of them (v11 of its tokenizer) |
| `invoke` | `<invoke name="..."><parameter name="...">text</parameter></invoke>`, any number of them |
"""

import json
import re
from collections.abc import Callable
from enum import StrEnum

from wardian.tools.contract import Json, ToolCall
from wardian.tools.loading import Kind, Rejected, load_strict, shown_path
from wardian.tools.scanning import json_end, member


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
    position, end = 0, -1
    while (begin := _after_blanks(completion, position)) < len(completion) and completion[begin] != "{":
        end = completion.find("</think>", position)
        if end == -1:
            return ()
        position = end + len("</think>")
    text = completion[begin:].rstrip()
    if not text:
        return ()
    call = _read_call(text)
    return call if isinstance(call, Rejected) else (call,)


def _scan(text: str, form: CallFormat) -> tuple[ToolCall, ...] | Rejected:
    """Walk from mark to mark. Whatever stands inside a call is its data, and marks there mean nothing."""
    marks, read = _FORMATS[form]
    calls: list[ToolCall] = []
    position = 0
    thought = False
    """Whether reasoning was opened or closed before: what closes first without an opening was opened by the prompt."""
    while (mark := marks.search(text, position)) is not None:
        quoted = mark.start() > position and text[mark.start() - 1] == "`"
        position = mark.end()
        if mark[0] in _HIDING:
            thought = thought or mark[0] == "<think>"
            end = text.find(_HIDING[mark[0]], position)
            if end == -1:
                break
            position = end + len(_HIDING[mark[0]])
        elif mark[0] == "</think>":  # all so far was reasoning
            calls.clear()
            thought = True
        elif quoted:
            continue
        else:
            found = read(text, mark.start())
            if isinstance(found, Rejected):
                end = -1 if thought else _closing_thought(text, position)
                if end == -1:
                    return found
                position = end
            else:
                call, position = found
                calls.append(call)
    return tuple(calls)


def _closing_thought(text: str, start: int) -> int:
    """Where reasoning that the prompt opened is closed after `start`; -1 where it is not."""
    end = text.find("</think>", start)
    return -1 if end == -1 or text.find("<think>", start, end) != -1 else end


def _read_call(text: str) -> ToolCall | Rejected:
    """Read one whole call. With raw control characters in its strings, its arguments stay text."""
    found = load_strict(text)
    if not isinstance(found, Rejected):
        return _call_of(found.value)
    if found.kind is not Kind.MALFORMED_JSON:
        return found
    again = load_strict(text, control_characters=True)
    call = again if isinstance(again, Rejected) else _call_of(again.value)
    return call if isinstance(call, Rejected) else ToolCall(call.tool, member(text, "arguments") or call.args)


def _call_of(value: Json) -> ToolCall | Rejected:
    shape = 'Send {"name": "...", "arguments": {...}}.'
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return Rejected(Kind.NOT_OBJECT, f"A tool call needs an object with a name. {shape}")
    extra = sorted(set(value) - {"name", "arguments", "id", "type"})
    if extra:
        field = shown_path(extra[:1])
        return Rejected(Kind.UNKNOWN_ARGUMENT, f"A tool call has no {field}. {shape}", field)
    arguments = value.get("arguments", {})
    return ToolCall(value["name"], arguments if isinstance(arguments, dict | str) else json.dumps(arguments))


def _tagged(text: str, start: int) -> tuple[ToolCall, int] | Rejected:
    start += len("<tool_call>")
    end = json_end(text, start)
    closing = _CLOSE_TAG.match(text, end) if end is not None else None
    if end is None or closing is None:  # up to the next closing tag, if only to say what is wrong with it
        end = text.find("</tool_call>", start) if end is None else text.find("</", end)
    call = _read_call(text[start : end if end != -1 else len(text)].strip())
    if isinstance(call, Rejected):
        return call
    if closing is None:
        return _mismatched("a <tool_call> has no </tool_call> after its object")
    return call, closing.end()


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
        shown = shown_path((name,))
        end = text.find("</parameter>", parameter.end())
        value = text[parameter.end() : end] if end != -1 else ""
        if end == -1 or "<parameter name=" in value or "</invoke>" in value:
            return _mismatched(f"the parameter {shown} has no </parameter> of its own")
        if name in arguments:
            return Rejected(Kind.DUPLICATE_KEY, f"The parameter {shown} stands twice.", shown)
        arguments[name] = value
        position = end + len("</parameter>")
    closing = _INVOKE_END.match(text, position)
    if closing is None:
        return _mismatched("an <invoke> holds something that is no <parameter>, or has no </invoke>")
    return ToolCall(head["name"], arguments), closing.end()


def _after_blanks(text: str, position: int) -> int:
    return _BLANK.match(text, position).end()  # type: ignore[union-attr]  # it matches anywhere


def _mismatched(what: str) -> Rejected:
    return Rejected(Kind.MISMATCHED_TAG, f"The tags of the call do not match: {what}. Close each tag by its own name.")


_HIDING = {"<think>": "</think>", "```": "```"}
_BLANK = re.compile(r"\s*")
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
