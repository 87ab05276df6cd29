"""Whether evidence was really looked at, by the trusted event log: by what the agent was shown, and never by what it says it reads.

A look at a file is complete when each passage that decides was shown: by tools of the pack of files, in pages that cover it; or by
commands, in whose output it can be recognised. How a command came by its output is not for us to guess. What the agent wrote itself, in
this command or an earlier call, is no evidence: of a passage something must be shown that the agent had not named. So `echo`, sums, counts
and a file that is read and thrown away are no look.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from wardian.envs.verifier import FinalState
from wardian.tools.contract import CallEvent, Json, Status
from wardian.tools.packs.reading import SHOWN

RAN = "ran"
"""Kind of the fact that the shell of this world notes of each command; `shown`: the output as the agent saw it."""
RECOGNISED = 2
"""Words of a passage that its record is recognised by, beside the one that names it or with it."""
TELLING_CHARS = 6
"""A word of so many characters, with a digit, tells that it comes from a file."""
_WORD = re.compile(r"[^\s,;|'\"()\[\]{}=<>]+")


def file_look(path: str, passages: Iterable[tuple[str, str]]) -> dict[str, Json]:
    """A look that a task asks for: a file, and the passages that decide, each with the number or reference of its record.

    Without passages any part of the file is a look.
    """
    return {"path": path, "passages": sorted(map(list, passages))}


def tool_look(tools: Iterable[str], **args: Json) -> dict[str, Json]:
    """A look by any one of `tools`, called with these arguments where it takes them."""
    return {"tools": sorted(tools), "args": args}


def first_look(state: FinalState, look: Mapping[str, Any]) -> int | None:
    """Index of the call by which the look was complete; `None` when it never was."""
    done = [event for event in state.events if event.committed]
    if "tools" in look:
        return next((event.index for event in done if event.status is Status.OK and _is_look(event, look)), None)
    data = state.task.files.entries[look["path"]].data
    if not look["passages"]:
        return _any_part(done, look["path"], data)
    return _every_passage(done, look["path"], data, look["passages"])


def _is_look(event: CallEvent, look: Mapping[str, Any]) -> bool:
    args = event.args if isinstance(event.args, dict) else {}
    return event.tool in look["tools"] and all(args.get(name, value) == value for name, value in look["args"].items())


def _any_part(done: Sequence[CallEvent], path: str, data: bytes) -> int | None:
    for event, said in _with_what_was_said(done):
        if _pages(event, path):
            return event.index
        telling = {word for line in _output(event) for word in _words(line) if len(word) >= TELLING_CHARS and re.search("[0-9]", word)}
        if any(re.search(rb"(?<![\w-])" + re.escape(word.encode()) + rb"(?![\w-])", data) for word in sorted(telling - said)):
            return event.index
    return None


def _every_passage(done: Sequence[CallEvent], path: str, data: bytes, passages: Sequence[tuple[str, str]]) -> int | None:
    unseen = {text: set(range(at, at + len(text.encode()))) for _, text in passages if (at := data.find(text.encode())) >= 0}
    for event, said in _with_what_was_said(done):
        for page in _pages(event, path):
            unseen = {text: left for text, bytes_left in unseen.items() if (left := bytes_left - set(range(page["start"], page["end"])))}
        lines = _output(event)
        shown = [text for name, text in passages if text in unseen and lines and _recognised(text, name, lines, _command(event), said)]
        for text in shown:
            del unseen[text]
        if not unseen:
            return event.index
    return None


def _recognised(text: str, name: str, lines: Sequence[str], command: str, said: frozenset[str]) -> bool:
    """Whether lines that stand together show the passage of a record: two words of it, one of them new, and the record is named."""
    passage, height = set(_words(text)), text.count("\n") + 1
    named = re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", command) is not None
    for at in range(max(1, len(lines) - height + 1)):
        words = {word for line in lines[at : at + height] for word in _words(line)} & passage
        if len(words) >= RECOGNISED and words - said and (named or name in words):
            return True
    return False


def _with_what_was_said(done: Sequence[CallEvent]) -> Iterator[tuple[CallEvent, frozenset[str]]]:
    """Each call with all words that the agent had written into calls by then, this one included."""
    said: frozenset[str] = frozenset()
    for event in done:
        said |= {word for text in _texts(event.args) for word in _words(text)}
        yield event, said


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)
    elif value is not None:
        yield str(value)


def _words(text: str) -> list[str]:
    return [word for found in _WORD.findall(text) if (word := found.strip(":.!?"))]


def _pages(event: CallEvent, path: str) -> list[dict[str, Any]]:
    """What a tool of the pack of files showed of a file."""
    shown = event.effects if event.status is Status.OK else ()
    return [fact for fact in shown if fact["kind"] == SHOWN and fact["path"] == path]


def _output(event: CallEvent) -> list[str]:
    """The lines that a command showed the agent."""
    shown = event.effects if event.status is Status.OK else ()
    return [line for fact in shown if fact["kind"] == RAN for line in fact["shown"].splitlines() if line.strip()]


def _command(event: CallEvent) -> str:
    return str(event.args.get("command", "")) if isinstance(event.args, dict) else ""
