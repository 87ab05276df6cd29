"""Whether evidence was really looked at, by the trusted event log.

A look at a file counts when the agent was shown it: by tools of the pack of files, in pages that cover each line that decides; or a command
that printed something and whose text makes a program read the file: by name, by a pattern that matches it, by a walk over folders, by a
script that the agent wrote, or by way of a copy. What a command did with what it read is not for us to guess. Naming a file in `echo`,
`ls` or a comment is no look, a call that timed out showed nothing, and neither did a command that printed nothing.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from wardian.envs.verifier import FinalState
from wardian.tools.contract import CallEvent, Json, Status
from wardian.tools.packs.reading import SHOWN

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
COPIES = frozenset(("cp", "ln", "mv", "install"))
INTERPRETERS = frozenset(("python3", "python", "bash", "sh", "perl", "awk", "gawk", "mawk", "sed", "sqlite3", "source", "."))
WALKERS = frozenset(("grep", "egrep", "fgrep"))
_SPLIT = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*"|\\.|(?P<comment>(?:^|(?<=\s))\#[^\n]*)|(?P<cut>[;|&\n]+)""", re.DOTALL)
_WORD = re.compile(r"""(?:'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^\s'"])+""", re.DOTALL)
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")
_ASSIGNED = re.compile(r"(\w+)=([^$`(]*)")
_LEADS = frozenset(("do", "then", "else", "{", "(", "!", "time"))
_SCRIPT = re.compile(r"^(?:\./|/(?:workspace|tmp)/)|\.(?:py|sh|pl|awk|sed|sql)$")
_REDIRECTED = re.compile(r">{1,2}\s*([\w./-]+)")
_WALK = re.compile(r"-[a-zA-Z]*[rR][a-zA-Z]*|--(?:dereference-)?recursive")


def file_look(path: str, marks: Iterable[str]) -> dict[str, Json]:
    """A look that a task asks for: a file, and texts that stand in the lines that decide."""
    return {"path": path, "marks": sorted(marks)}


def tool_look(tools: Iterable[str], **args: Json) -> dict[str, Json]:
    """A look by any one of `tools`, called with these arguments where it takes them."""
    return {"tools": sorted(tools), "args": args}


def first_look(state: FinalState, look: Mapping[str, Any]) -> int | None:
    """Index of the call by which the look was complete; `None` when it never was."""
    done = [event for event in state.events if event.committed]
    if "tools" in look:
        return next((event.index for event in done if event.status is Status.OK and _is_look(event, look)), None)
    data = state.task.files.entries[look["path"]].data
    return _file_shown(done, look["path"], data, look["marks"])


def _is_look(event: CallEvent, look: Mapping[str, Any]) -> bool:
    args = event.args if isinstance(event.args, dict) else {}
    return event.tool in look["tools"] and all(args.get(name, value) == value for name, value in look["args"].items())


def _file_shown(done: Sequence[CallEvent], path: str, data: bytes, marks: Sequence[str]) -> int | None:
    missing = {found.start() for mark in marks for found in re.finditer(re.escape(mark.encode()), data)}
    whole, trail = not missing, Trail(path)
    for event in done:
        args = event.args if isinstance(event.args, dict) else {}
        if event.tool == "shell" and trail.reads(str(args.get("command"))) and _printed(event):
            return event.index
        if event.tool in ("write_file", "edit_file"):
            trail.wrote(str(args.get("content") or args.get("new")))
        shown = event.effects if event.status is Status.OK else ()
        pages = [fact for fact in shown if fact["kind"] == SHOWN and fact["path"] == path]
        for page in pages:
            missing -= set(range(page["start"], page["end"]))
        if pages and (whole or not missing):
            return event.index
    return None


def _printed(event: CallEvent) -> bool:
    """Whether a command showed the agent anything."""
    return event.status is Status.OK and any(effect["kind"] == RAN and effect["shown_bytes"] > 0 for effect in event.effects)


@dataclass(slots=True)
class Trail:
    """What the texts of an agent's calls tell of one file: who reads it, under which names, and which scripts name it."""

    path: str
    aliases: set[str] = field(default_factory=set)
    """Names of the file and of its copies and extracts."""
    scripted: bool = False
    """The agent wrote something that names the file or its folder, such as a script."""

    def __post_init__(self) -> None:
        self.aliases.add(posixpath.basename(self.path))

    @property
    def folder(self) -> str:
        return posixpath.basename(posixpath.dirname(self.path))

    def wrote(self, text: str) -> None:
        """Take note of a text that the agent put into a file."""
        self.scripted |= self.folder in text or self._named(text)

    def reads(self, command: str) -> bool:
        """Whether a command makes a program read the file, as far as its text tells."""
        parts = list(_simple_commands(command))
        lists = any(part[0] in ("find", "ls", "echo", "printf") for part in parts)
        found = False
        for words in parts:
            if self._is_read(words, command, lists):
                found = True
                self.aliases |= {posixpath.basename(name) for name in _REDIRECTED.findall(" ".join(words))}
            elif words[0] in COPIES and any(self._named(word) or self._matches(word) for word in words[1:]):
                self.aliases.add(posixpath.basename(words[-1].rstrip("/")))
        self.wrote(command)
        return found

    def _is_read(self, words: list[str], command: str, lists: bool) -> bool:
        if words[0] in SILENT and not any("$(" in word or "`" in word for word in words):
            return words[0] == "find" and bool({"-exec", "-execdir"} & set(words))
        if any(self._named(word) or self._matches(word) for word in words):
            return True
        if self.folder in command and (words[0] in INTERPRETERS or any(_VARIABLE.search(word) for word in words)):
            return True
        if self.scripted and (_SCRIPT.search(words[0]) or (words[0] in INTERPRETERS and any(_SCRIPT.search(word) for word in words[1:]))):
            return True
        walks = words[0] == "rgrep" or (words[0] in WALKERS and any(_WALK.fullmatch(word) for word in words[1:]))
        return walks or (words[0] == "xargs" and lists)

    def _named(self, text: str) -> bool:
        return any(re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", text) for name in self.aliases)

    def _matches(self, word: str) -> bool:
        """Whether a pattern of the shell names the file; what is quoted is none."""
        last = word.rsplit("/", 1)[-1]
        return word[0] not in "'\"" and bool(set("*?[") & set(last)) and any(fnmatchcase(name, last) for name in self.aliases)


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
