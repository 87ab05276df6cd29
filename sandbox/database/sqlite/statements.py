"""An agent's statement, looked at token by token before SQLite sees it.

Three things that SQLite cannot be told in Python 3.11 are done here: one statement only; a double-quoted name is a name and never
falls back to a string (it becomes a back-quoted one, which never does); and the schema table is read from a copy without what
is ours.
"""

import re

from wardian.sandbox.database.sqlite.growth import MAX_GROWTH, growth
from wardian.sandbox.database.sqlite.roles import SCHEMA_TABLE
from wardian.sandbox.database.statements import check_form
from wardian.sandbox.errors import DatabaseProblem, DatabaseProblemKind

_TOKEN = re.compile(
    r"""
      (?P<space> [ \t\n\f\r]++ | --[^\n]*+ | /\*(?:[^*]|\*(?!/))*+(?:\*/|\Z) )
    | (?P<text> '(?:[^']|'')*+(?:'|\Z) )
    | (?P<name> "(?:[^"]|"")*+" | `(?:[^`]|``)*+` | \[[^\]]*+\] | [A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*+ )
    | (?P<end> ; )
    | (?P<other> (?:[0-9]|\.[0-9])[A-Za-z0-9_$.]*+ | [?:@$\#][A-Za-z0-9_$\x80-\U0010ffff]*+ | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_SCHEMA_TABLES = frozenset({"sqlite_master", "sqlite_schema"})
_FIRST = frozenset({"select", "with", "values", "explain", "pragma"})
_CHANGING = frozenset({"insert", "replace", "update", "delete", "with"})


def prepared(sql: str, *, writing: bool = False) -> str:
    """The statement to give to SQLite in place of `sql`.

    Raises:
        DatabaseProblem: it is empty, too long, not valid text, more than one statement, or none that reads (or, if asked for, writes).
    """
    check_form(sql)
    parts: list[str] = []
    tokens: list[str] = []
    first = ""
    ended = False
    for token in _TOKEN.finditer(sql):
        kind, text = token.lastgroup, token.group()
        if kind == "space":
            parts.append(" ")
            continue
        if kind == "end":
            ended = ended or bool(first)
            continue
        if ended:
            raise DatabaseProblem(DatabaseProblemKind.FORBIDDEN, "one statement at a time, please")
        if not first:
            first = text.lower()
            _check_first(first, writing)
        bare = _unquoted(text) if kind in ("name", "text") else text
        tokens.append(bare.lower() or "_")
        parts.append(_name(text, bare) if kind == "name" else text)
    if not first:
        raise DatabaseProblem(DatabaseProblemKind.SYNTAX, "there is no statement")
    if first == "explain" and tokens[1:2] != ["query"]:
        # Its listing shows addresses in the memory of this process.
        raise DatabaseProblem(DatabaseProblemKind.FORBIDDEN, "EXPLAIN is not allowed; EXPLAIN QUERY PLAN is")
    if growth(tokens) > MAX_GROWTH:
        raise DatabaseProblem(DatabaseProblemKind.TOO_SLOW, "the statement is nested too deeply; use fewer subqueries or columns")
    return "".join(parts)


def _check_first(word: str, writing: bool) -> None:
    if writing:
        if word not in _CHANGING:
            kind = DatabaseProblemKind.FORBIDDEN if word in _WRITING | _FIRST else DatabaseProblemKind.SYNTAX
            raise DatabaseProblem(kind, f"only INSERT, UPDATE and DELETE are allowed here; this begins with {word[:40]!r}")
    elif word not in _FIRST and word != "(":
        kind = DatabaseProblemKind.FORBIDDEN if word.isalpha() and word in _WRITING else DatabaseProblemKind.SYNTAX
        raise DatabaseProblem(kind, f"only reading is allowed, with SELECT, WITH or VALUES; this begins with {word[:40]!r}")


_WRITING_WORDS = (
    "insert update delete replace create drop alter attach detach vacuum begin commit end rollback savepoint release analyze reindex"
)
_WRITING = frozenset(_WRITING_WORDS.split())


def _unquoted(text: str) -> str:
    if text[0] == "[":
        return text[1:-1]
    return text[1:-1].replace(text[0] * 2, text[0]) if text[0] in "\"`'" else text


def _name(text: str, bare: str) -> str:
    if bare.lower() in _SCHEMA_TABLES:
        return SCHEMA_TABLE
    return "`" + bare.replace("`", "``") + "`" if text[0] == '"' else text
