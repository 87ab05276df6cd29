"""What each role may do on SQLite, as authorizers, limits and replaced functions.

SQLite has no users. An authorizer is asked when a statement is prepared; limits hold for the connection; functions that read
the machine's clock or its randomness are replaced or not allowed at all.
"""

import re
import sqlite3
from collections.abc import Callable, Set
from itertools import pairwise
from typing import Any

from wardian.sandbox.errors import DatabaseProblem, DatabaseProblemKind

CHANGE = "wardian_change"
"""The function by which a sealed image's triggers report changed rows."""

READ_ACTIONS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
WRITE_ACTIONS = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE, sqlite3.SQLITE_TRANSACTION})
_FUNCTION_NAMES = """
abs avg ceil ceiling char coalesce concat concat_ws count cume_dist date datetime dense_rank exp first_value floor format glob
group_concat hex ifnull iif instr json json_array json_array_length json_each json_extract json_group_array json_group_object
json_object json_quote json_tree json_type json_valid julianday lag last_value lead length like ln log log10 log2 lower ltrim
max min mod nth_value ntile nullif percent_rank pow power printf quote rank replace round row_number rtrim sign sqrt strftime
string_agg substr substring sum time timediff total trim trunc typeof unicode unixepoch upper -> ->>
"""
FUNCTIONS = frozenset(_FUNCTION_NAMES.split())
"""Deterministic functions of the agent's SQL."""
CLOCK_FUNCTIONS = ("date", "time", "datetime", "julianday", "unixepoch", "strftime")

LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 8 << 20,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 256 << 10,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1000,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 50,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}

Authorizer = Callable[[int, str | None, str | None, str | None, str | None], int]


def tool_authorizer(action: int, first: str | None, second: str | None, database: str | None, trigger: str | None) -> int:
    """Rows of the world's tables, and nothing else: no schema, no pragma, no other database, no extension."""
    if action in READ_ACTIONS or (action in WRITE_ACTIONS and not (first or "").startswith("sqlite_")):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and (second in FUNCTIONS or (second == CHANGE and trigger)):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def reader_authorizer(tables: Set[str]) -> Authorizer:
    """Read the named tables by deterministic functions; nothing else."""

    def authorize(action: int, first: str | None, second: str | None, database: str | None, trigger: str | None) -> int:
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ and ((first or "") in tables or first in ("json_each", "json_tree", "") or database is None):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in FUNCTIONS:
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY

    return authorize


def frozen_authorizer(action: int, first: str | None, second: str | None, database: str | None, trigger: str | None) -> int:
    """Reading only, for trusted readers."""
    allowed = READ_ACTIONS | {sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_TRANSACTION}
    return sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY


def harden(raw: sqlite3.Connection) -> None:
    """Limits, and clock functions that know no *now*."""
    for limit, value in LIMITS.items():
        raw.setlimit(limit, value)
    for name in CLOCK_FUNCTIONS:
        raw.create_function(name, -1, _CLOCKLESS[name], deterministic=True)


_scratch = sqlite3.connect(":memory:", check_same_thread=False)


def _clockless(name: str) -> Callable[..., Any]:
    """A date function that refuses what would read the machine's clock, and else asks SQLite's own."""
    position = 1 if name == "strftime" else 0

    def run(*arguments: Any) -> Any:
        moment = arguments[position] if len(arguments) > position else "now"
        if isinstance(moment, str) and moment.strip().lower() == "now":
            raise ValueError("no clock")
        marks = ",".join("?" * len(arguments))
        return _scratch.execute(f"SELECT {name}({marks})", arguments).fetchone()[0]

    return run


_CLOCKLESS = {name: _clockless(name) for name in CLOCK_FUNCTIONS}

_TOKEN = re.compile(
    r"""(?P<line>--[^\n]*)|(?P<block>/\*.*?(?:\*/|\Z))|(?P<text>'(?:[^']|'')*')|(?P<quoted>"(?:[^"]|"")*")"""
    r"""|(?P<word>[A-Za-z_][A-Za-z_0-9$]*)|(?P<other>\S)""",
    re.DOTALL,
)


def check_quoted_names(sql: str, known: Set[str]) -> None:
    """Refuse a double-quoted name that is no identifier: SQLite would silently read it as text.

    `known` holds table and column names in lower case; names made by `AS "x"` and by common table expressions count as well.

    Raises:
        DatabaseProblem: syntax.
    """
    tokens = [(match.lastgroup or "", match.group()) for match in _TOKEN.finditer(sql)]
    tokens = [token for token in tokens if token[0] not in ("line", "block")]
    made = {text[1:-1].lower() for (_, before), (kind, text) in pairwise(tokens) if kind == "quoted" and before.lower() in ("as", "with")}
    words = {text.lower() for kind, text in tokens if kind == "word"}
    for kind, text in tokens:
        name = text[1:-1].replace('""', '"').lower()
        if kind == "quoted" and name not in known and name not in made and name not in words:
            raise DatabaseProblem(DatabaseProblemKind.SYNTAX, f"no such column: {text} (use single quotes for text)")
