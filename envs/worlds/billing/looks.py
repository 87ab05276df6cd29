"""Whether evidence was really looked at, by the trusted event log.

A look at a file counts when the agent was shown it: `read_file` of that path, with pages that cover every line that decides; or a command
that printed something and whose text makes a program read the file: by name, by a pattern that matches it, or by a walk over folders.
What a command did with what it read is not for us to guess. Naming a file in `echo`, `ls` or a comment is no look, a call that timed
out showed nothing, and neither did a command that printed nothing.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from wardian.envs.verifier import FinalState
from wardian.tools.contract import CallEvent, Json, Status
from wardian.tools.packs.files import READ_BYTES

WORKSPACE = "/workspace"
RAN = "ran"
"""Kind of the fact that the shell of this world notes of each command."""
SILENT = frozenset(
    (
        *("#", ":", "[", "[[", "basename", "cd", "chmod", "chown", "cp", "declare", "dirname", "du", "echo", "export", "file", "install"),
        *("ln", "ls", "md5sum", "mkdir", "mv", "popd", "printf", "pushd", "pwd", "readlink", "realpath", "rm", "rmdir", "set", "sha256sum"),
        *("sleep", "stat", "tar", "test", "touch", "tree", "true", "type", "wc", "which", "zip", "find"),
    )
)
"""Commands that show nothing of a file's content."""
WALKERS = frozenset(("grep", "egrep", "fgrep", "rgrep"))
_SPLIT = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*"|\\.|(?P<comment>(?:^|(?<=\s))\#[^\n]*)|(?P<cut>[;|&\n]+)""", re.DOTALL)
_WORD = re.compile(r"""(?:'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^\s'"])+""", re.DOTALL)
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")
_ASSIGNED = re.compile(r"(\w+)=([^$`(]*)")
_LEADS = frozenset(("do", "then", "else", "{", "(", "!", "time"))
_WALK = re.compile(r"-[a-zA-Z]*[rR][a-zA-Z]*|--(?:dereference-)?recursive")


def file_look(path: str, marks: Iterable[str]) -> dict[str, Json]:
    """A look that a task asks for: a file, and texts that stand in the lines that decide."""
    return {"path": path, "marks": sorted(marks)}


def tool_look(tools: Iterable[str], **args: Json) -> dict[str, Json]:
    """A look by any one of `tools`, called with these arguments where it takes them."""
    return {"tools": sorted(tools), "args": args}


def first_look(state: FinalState, look: Mapping[str, Any]) -> int | None:
    """Index of the call by which the look was complete; `None` when it never was."""
    shown = [event for event in state.events if event.committed and event.status is Status.OK]
    if "tools" in look:
        return next((event.index for event in shown if _is_look(event, look)), None)
    data = state.task.files.entries[look["path"]].data
    return _file_shown(shown, look["path"], data, look["marks"])


def _is_look(event: CallEvent, look: Mapping[str, Any]) -> bool:
    args = event.args if isinstance(event.args, dict) else {}
    return event.tool in look["tools"] and all(args.get(name, value) == value for name, value in look["args"].items())


def _file_shown(shown: Sequence[CallEvent], path: str, data: bytes, marks: Sequence[str]) -> int | None:
    missing = {found.start() for mark in marks for found in re.finditer(re.escape(mark.encode()), data)}
    whole = not missing
    for event in shown:
        args = event.args if isinstance(event.args, dict) else {}
        if event.tool == "shell" and _printed(event) and names(str(args.get("command")), path):
            return event.index
        if event.tool == "read_file" and posixpath.normpath(posixpath.join(WORKSPACE, str(args.get("path")))) == path:
            start = int(args.get("offset") or 0)
            missing -= set(range(start, start + int(args.get("limit") or READ_BYTES)))
            if whole or not missing:
                return event.index
    return None


def _printed(event: CallEvent) -> bool:
    return any(effect["kind"] == RAN and effect["shown_bytes"] > 0 for effect in event.effects)


def names(command: str, path: str) -> bool:
    """Whether a script makes a program read the file at `path`, as far as its text tells."""
    name = posixpath.basename(path)
    by_name = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)")
    parts = list(_simple_commands(command))
    in_folder = posixpath.basename(posixpath.dirname(path)) in command
    lists = any(part[0] in ("find", "ls", "echo", "printf") for part in parts)
    for words in parts:
        if words[0] in SILENT and not any("$(" in word or "`" in word for word in words):
            if words[0] == "find" and {"-exec", "-execdir"} & set(words):
                return True
            continue
        if any(by_name.search(word) or _matches(word, name) or (in_folder and _VARIABLE.search(word)) for word in words):
            return True
        if (words[0] == "xargs" and lists) or words[0] == "rgrep":
            return True
        if words[0] in WALKERS and any(_WALK.fullmatch(word) for word in words[1:]):
            return True
    return False


def _matches(word: str, name: str) -> bool:
    """Whether a pattern of the shell names the file; what is quoted is none."""
    last = word.rsplit("/", 1)[-1]
    return word[0] not in "'\"" and bool(set("*?[") & set(last)) and fnmatchcase(name, last)


def _simple_commands(script: str) -> Iterator[list[str]]:
    """The words of each simple command, quoted ones kept whole, variables put in; comments and plain assignments left out."""
    values: dict[str, str] = {}
    for part in _parts(script):
        words = [_VARIABLE.sub(lambda found: values.get(found[1], found[0]), word) for word in _WORD.findall(part)]
        while words and (words[0] in _LEADS or _ASSIGNED.fullmatch(words[0])):
            if assigned := _ASSIGNED.fullmatch(words[0]):
                values[assigned[1]] = assigned[2]
            words = words[1:]
        if words:
            yield words


def _parts(script: str) -> Iterator[str]:
    start = 0
    for found in _SPLIT.finditer(script):
        if found["comment"] is not None or found["cut"] is not None:
            yield script[start : found.start()]
            start = found.end()
    yield script[start:]
