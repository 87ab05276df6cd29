"""A SQL script, cut into statements, data of COPY, and commands of a shell, as psql and sqlite3 cut it. Nothing is run here.

Texts are the script's bytes read as Latin-1, one character per byte: what encoding the script says it has is for the server to judge,
and every encoding that is allowed keeps ASCII as it is.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from wardian.sandbox.errors import ImportRefused


@dataclass(frozen=True, slots=True)
class Statement:
    text: str
    """Without the semicolon."""
    line: int
    """Where it begins, from 1."""
    words: tuple[str, ...]
    """Its first words in capitals, without quoted names: enough to tell what it is."""


@dataclass(frozen=True, slots=True)
class Copy:
    """Rows that go into a table, after their statement."""

    statement: Statement
    data: str


@dataclass(frozen=True, slots=True)
class Command:
    """A line for psql, sqlite3 or another shell."""

    name: str
    argument: str
    line: int


Part: TypeAlias = Statement | Copy | Command
_WORDS = 12
_LETTER = r"A-Za-z_\x80-\xff"
_POSTGRES = rf"""
      (?P<space> \s++ | --[^\n]*+ )
    | (?P<comment> /\* )
    | (?P<text> [eE]'(?:[^'\\]|\\.|'')*+' | '(?:[^']|'')*+' )
    | (?P<name> "(?:[^"]|"")*+" )
    | (?P<word> [{_LETTER}][{_LETTER}0-9$]*+ )
    | (?P<dollar> \$(?:[{_LETTER}][{_LETTER}0-9]*+)?\$ )
    | (?P<open> [eE]?'|" )
    | (?P<end> ; )
    | (?P<command> \\ )
    | (?P<other> [0-9][A-Za-z0-9_.]*+ | [^{_LETTER}0-9\s'"$;\\/-]++ | . )
"""
_SQLITE = rf"""
      (?P<space> \s++ | --[^\n]*+ | /\*(?:[^*]|\*(?!/))*+\*/ )
    | (?P<text> '(?:[^']|'')*+' )
    | (?P<name> "(?:[^"]|"")*+" | `(?:[^`]|``)*+` | \[[^\]]*+\] )
    | (?P<word> [{_LETTER}][{_LETTER}0-9$]*+ )
    | (?P<open> '|"|`|\[|/\* )
    | (?P<end> ; )
    | (?P<other> [0-9][A-Za-z0-9_.]*+ | [^{_LETTER}0-9\s'"`;/\[-]++ | . )
"""
_TOKENS = {name: re.compile(text, re.VERBOSE | re.DOTALL) for name, text in (("postgres", _POSTGRES), ("sqlite", _SQLITE))}
_OLD = re.compile(
    _POSTGRES.replace("[eE]'(?:[^'\\\\]|\\\\.|'')*+' | '(?:[^']|'')*+'", "[eE]?'(?:[^'\\\\]|\\\\.|'')*+'"), re.VERBOSE | re.DOTALL
)
"""With `standard_conforming_strings` off: a backslash in any text takes the next character along."""
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_GO = re.compile(r"GO[ \t]*(?:\r?\n|\Z)", re.IGNORECASE)
_DATA_END = re.compile(r"^\\\.[ \t]*\r?(?:\n|\Z)", re.MULTILINE)
_COPY = re.compile(r"\bFROM\s+STDIN\b", re.IGNORECASE)
_OFF = re.compile(r"\b(?:off|false|0)\W*\Z", re.IGNORECASE)
_BLOCKS = {"BEGIN": 1, "CASE": 1, "END": -1}
_BODIES = {
    "postgres": re.compile(r"CREATE (OR REPLACE )?(FUNCTION|PROCEDURE)\b"),
    "sqlite": re.compile(r"CREATE (TEMP |TEMPORARY )?TRIGGER\b"),
}


def parts_of(script: str, dialect: str) -> Iterator[Part]:
    """The script's parts in order. `dialect`: `postgres` or `sqlite`.

    Raises:
        ImportRefused: it ends in the middle of a statement, a quotation, or data.
    """
    return _Reader(script, dialect).parts()


class _Reader:
    def __init__(self, script: str, dialect: str) -> None:
        self._script, self._dialect = script, dialect
        self._token = _TOKENS[dialect]
        self._counted = (0, 1)

    def parts(self) -> Iterator[Part]:
        at = 0
        while (at := self._past_space(at)) < len(self._script):
            part, at = self._command(at) or self._statement(at)
            if isinstance(part, Statement) and part.words[:2] == ("SET", "STANDARD_CONFORMING_STRINGS"):
                self._token = _OLD if _OFF.search(part.text) else _TOKENS[self._dialect]
            if isinstance(part, Statement) and part.words[:1] == ("COPY",) and _COPY.search(part.text):
                data, at = self._data(at, part.line)
                yield Copy(part, data)
            elif not isinstance(part, Statement) or part.text:
                yield part

    def line(self, at: int) -> int:
        """The number of the line at a place; places are asked for in order."""
        place, line = self._counted
        line += self._script.count("\n", place, at)
        self._counted = (at, line)
        return line

    def _past_space(self, at: int) -> int:
        while at < len(self._script):
            found = self._token.match(self._script, at)
            if found is None or found.lastgroup not in ("space", "comment"):
                break
            at = self._past_comment(at) if found.lastgroup == "comment" else found.end()
        return at

    def _past_comment(self, at: int) -> int:
        """The end of a comment, which in Postgres may hold others."""
        depth, place = 0, at
        while True:
            edge = _COMMENT_EDGE.search(self._script, place)
            if edge is None:
                raise self._cut(at, "a comment")
            depth += 1 if edge.group() == "/*" else -1
            place = edge.end()
            if not depth:
                return place

    def _command(self, at: int) -> tuple[Statement | Command, int] | None:
        """A command in place of a statement; `\\copy` from the script itself is one."""
        first = self._script[at]
        if first == ("\\" if self._dialect == "postgres" else "."):
            command, end = self._rest_of_line(at)
            if command.name == "\\copy" and _COPY.search(command.argument):
                return Statement(f"COPY {command.argument}", command.line, ("COPY",)), end
            return command, end
        if found := _GO.match(self._script, at):
            return Command("GO", "", self.line(at)), found.end()
        return None

    def _rest_of_line(self, at: int) -> tuple[Command, int]:
        end = self._script.find("\n", at)
        end = len(self._script) if end < 0 else end
        name, _, argument = self._script[at:end].strip().partition(" ")
        return Command(name, argument.strip(), self.line(at)), end

    def _statement(self, start: int) -> tuple[Statement, int]:
        at, depth, blocks, words = start, 0, 0, list[str]()
        has_body = False
        while at < len(self._script):
            found = self._token.match(self._script, at)
            assert found is not None
            kind, text = found.lastgroup, found.group()
            if kind == "end" and depth <= 0 and blocks <= 0:
                return self._made(start, at, words), found.end()
            if kind == "command":
                return self._ended_by_command(start, at, words)
            if kind == "open":
                raise self._cut(at, "a quotation")
            if kind == "comment":
                at = self._past_comment(at)
                continue
            if kind == "dollar":
                at = self._past_dollar(at, text)
                continue
            if kind == "word":
                upper = text.upper()
                if len(words) < _WORDS:
                    words.append(upper)
                    has_body = has_body or bool(_BODIES[self._dialect].match(" ".join(words)))
                blocks += _BLOCKS.get(upper, 0) if has_body else 0
            elif kind == "other":
                depth += text.count("(") - text.count(")")
            at = found.end()
        raise self._cut(start, "a statement; if it is whole, end it with a semicolon")

    def _made(self, start: int, end: int, words: list[str]) -> Statement:
        return Statement(self._script[start:end].rstrip(), self.line(start), tuple(words))

    def _ended_by_command(self, start: int, at: int, words: list[str]) -> tuple[Statement, int]:
        """`\\g` stands for a semicolon; other commands do not stand inside statements."""
        statement = self._made(start, at, words)
        command, end = self._rest_of_line(at)
        if command.name not in ("\\g", "\\gx") or command.argument:
            raise ImportRefused(f"line {command.line}: {command.name} inside a statement cannot be done; write the statement out")
        return statement, end

    def _past_dollar(self, at: int, mark: str) -> int:
        end = self._script.find(mark, at + len(mark))
        if end < 0:
            raise self._cut(at, f"a text that begins with {mark}")
        return end + len(mark)

    def _data(self, at: int, line: int) -> tuple[str, int]:
        """What follows a COPY, up to the line that ends it."""
        start = self._script.find("\n", at) + 1
        found = _DATA_END.search(self._script, start) if start else None
        if found is None:
            raise ImportRefused(f"line {line}: cut short: the data of this COPY have no end (a line with \\.); get the whole script")
        return self._script[start : found.start()], found.end()

    def _cut(self, at: int, what: str) -> ImportRefused:
        return ImportRefused(f"line {self.line(at)}: cut short: the script ends inside {what}")
