"""Statements, looked at token by token before Postgres sees them.

What rights cannot say is said here: one statement only, which words may begin it, and no word or literal that stands for the host's
time, the session, or the physical place of a row.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from wardian.sandbox.database.statements import check_form
from wardian.sandbox.errors import DatabaseProblem, DatabaseProblemKind

_TOKEN = re.compile(
    r"""
      (?P<space> [ \t\n\f\r\v]++ | --[^\n\r]*+ )
    | (?P<comment> /\* )
    | (?P<text> [eE]'(?:[^'\\]|\\.|'')*+(?:'|\Z) | (?:[bBxXnN]|[uU]&)?'(?:[^']|'')*+(?:'|\Z) )
    | (?P<dollar> \$(?P<tag>(?:[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*)?)\$ )
    | (?P<name> (?:[uU]&)?"(?:[^"]|"")*+(?:"|\Z) | [A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*+ )
    | (?P<end> ; )
    | (?P<cast> :: )
    | (?P<parameter> :[A-Za-z_][A-Za-z0-9_]*+ )
    | (?P<positional> \$[0-9]+ )
    | (?P<other> (?:[0-9]|\.[0-9])[A-Za-z0-9_.]*+ | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_READING = ("select", "with", "values", "table")
"""In order, since messages list them: that of a set would be another one in a replay."""
_CHANGING = ("insert", "update", "delete", "merge", "with")
_CALLING = (*_READING, "insert", "update", "delete", "merge", "savepoint", "release", "rollback")
_HOST_WORDS = """
    current_date current_time current_timestamp localtime localtimestamp current_user session_user current_role current_catalog
    current_schema user tablesample xmin xmax cmin cmax ctid tableoid
    regclass regtype regrole regproc regprocedure regoper regoperator regnamespace regconfig regdictionary regcollation
"""
_HOST = frozenset(_HOST_WORDS.split())
"""The host's time, who and where one is, chance, where a row lies, and the server's own numbers: none has a fixed result. `user` may still
name a column."""
COUNTS = "wardian_next"
"""The function that gives out ids of an imported database; columns call it."""
PLAIN = "wardian_plain_"
"""How the names of the server's own functions begin where one of ours stands in their place."""
_CLOSED = frozenset({"aclitem", "xml", "xmlparse", "xmltable"})
"""Types and constructs that no right takes away: names and numbers of roles, and a parser that no limit stops."""
_TIMES = frozenset({"now", "today", "tomorrow", "yesterday", "allballs"})
_WRITING_WORDS = """
    insert update delete merge truncate create drop alter grant revoke vacuum analyze reindex cluster copy do call set reset begin start
    commit end abort rollback savepoint release prepare execute deallocate listen notify unlisten load lock comment security discard
    explain show fetch move close declare checkpoint refresh import reassign
"""
_WRITING = frozenset((*_WRITING_WORDS.split(), *_READING))


def agents(sql: str, *, writing: bool = False) -> tuple[str, tuple[str, ...]]:
    """The statement to give to Postgres in place of the agent's `sql`, and the names of its parameters in order of `$1`, `$2`, ...

    Raises:
        DatabaseProblem: it is empty, too long, no valid text, more than one statement, none that reads (or, if asked for, writes), or
            has no fixed result.
    """
    check_form(sql)
    parts: list[str] = []
    names: list[str] = []
    first, ended, depth = "", False, 0
    for kind, text in tokens(sql):
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
            _check_first(first, (*_CHANGING, "(") if writing else (*_READING, "("))
        depth += (text == "(") - (text == ")")
        if depth < 0:
            raise DatabaseProblem(DatabaseProblemKind.SYNTAX, 'syntax error at or near ")"')
        _check_token(kind, text)
        if kind == "parameter":
            if text[1:] not in names:
                names.append(text[1:])
            text = f"${names.index(text[1:]) + 1}"
        parts.append(text)
    if not first:
        raise DatabaseProblem(DatabaseProblemKind.SYNTAX, "there is no statement")
    if depth:
        raise DatabaseProblem(DatabaseProblemKind.SYNTAX, 'syntax error: a "(" is not closed')
    return "".join(parts), tuple(names)


@lru_cache(maxsize=4096)
def check_call(sql: str) -> None:
    """Look whether a tool may send `sql` inside its call.

    Raises:
        DatabaseProblem: it is more than one statement, one that ends the call or sets the session, or has no fixed result.
    """
    words: list[str] = []
    ended = False
    for kind, text in tokens(sql):
        if kind == "end":
            ended = True
        elif kind != "space":
            if ended:
                raise DatabaseProblem(DatabaseProblemKind.FORBIDDEN, "one statement at a time, please")
            if len(words) < 2:
                words.append(text.lower())
            _check_token(kind, text)
    if not words:
        return
    _check_first(words[0], (*_CALLING, "("))
    if words[0] == "rollback" and words[1:] != ["to"]:
        raise DatabaseProblem(DatabaseProblemKind.FORBIDDEN, "ROLLBACK is not allowed: raise to undo a call")


def tokens(sql: str) -> Iterator[tuple[str, str]]:
    """Kind and text of each token; a comment is `space`, a dollar-quoted text is `text`."""
    at = 0
    while at < len(sql):
        token = _TOKEN.match(sql, at)
        assert token is not None, "`other` takes anything"
        kind, text, at = token.lastgroup or "other", token.group(), token.end()
        if kind == "comment":
            at = _after_comment(sql, at)
            kind, text = "space", " "
        elif token.group("dollar") is not None:
            closing = sql.find(text, at)
            at = len(sql) if closing < 0 else closing + len(text)
            kind, text = "text", sql[token.start() : at]
        yield kind, text


def _after_comment(sql: str, at: int) -> int:
    """Where a comment ends that began before `at`: comments nest."""
    depth = 1
    for mark in re.compile(r"/\*|\*/").finditer(sql, at):
        depth += 1 if mark.group() == "/*" else -1
        if not depth:
            return mark.end()
    return len(sql)


def _check_first(word: str, allowed: tuple[str, ...]) -> None:
    if word not in allowed:
        kind = DatabaseProblemKind.FORBIDDEN if word in _WRITING else DatabaseProblemKind.SYNTAX
        names = ", ".join(name.upper() for name in allowed[:-1])
        raise DatabaseProblem(kind, f"a statement may begin with {names}; this begins with {word[:40]!r}")


def _check_token(kind: str, text: str) -> None:
    if (
        kind == "name"
        and text.lower().removeprefix("u&").strip('"').lstrip("_") in _HOST
        and (text[0] != '"' or text[1:-1] not in _MAY_BE_QUOTED)
    ):
        raise DatabaseProblem(DatabaseProblemKind.FORBIDDEN, f"{text} is not available; it has no fixed result")
    if kind == "name" and ((bare := text.lower().strip('"')).lstrip("_") in _CLOSED or bare.startswith(PLAIN)):
        raise DatabaseProblem(DatabaseProblemKind.FORBIDDEN, f"{text[:40]} is not available here")
    if kind == "name" and text.lower().strip('"') == COUNTS:
        raise DatabaseProblem(DatabaseProblemKind.FORBIDDEN, f"{text} is not available; ids are given out where a row has none")
    if kind in ("name", "text") and text[:2].lower() == "u&":
        raise DatabaseProblem(DatabaseProblemKind.FORBIDDEN, "U& escapes are not allowed; write the characters themselves")
    if kind == "text" and _words_of(text) & _TIMES:
        raise DatabaseProblem(DatabaseProblemKind.FORBIDDEN, f"{text[:40]} is not available; the host's time has no fixed result")


_MAY_BE_QUOTED = frozenset({"user", "current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"})
"""As a quoted name each of these is just a name."""


def _words_of(text: str) -> frozenset[str]:
    """The one word of a literal that may be a time; none of a longer text, which the words may stand in."""
    bare = text[text.index("'") + 1 : -1] if "'" in text else text.strip("$")
    bare = re.sub(r"\\x?[0-9a-fA-F]*", " ", bare) if text[0] in "eE" else bare
    words = bare.lower().split()
    return frozenset(words) if len(words) <= 3 and len(bare) <= 40 else frozenset()
