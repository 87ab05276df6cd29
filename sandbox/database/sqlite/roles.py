"""Who may do what: allowlists for SQLite's authorizer, which is asked while a statement is prepared.

SQLite asks for each table, column, function and pragma that a statement touches, whatever comments, keywords or quoting it hides
behind. What is not on a list is denied.
"""

import sqlite3
from collections.abc import Collection

from wardian.sandbox.database.rows import INTERNAL
from wardian.sandbox.database.sqlite.functions import CURRENT

SCHEMA_TABLE = "wardian_schema"
"""The table that stands for `sqlite_schema`: a copy without what is ours."""
_PRAGMAS = frozenset({"table_info", "table_xinfo", "foreign_key_list", "index_list", "index_info", "index_xinfo"})
TABLE_FUNCTIONS = frozenset({"json_each", "json_tree", *(f"pragma_{name}" for name in _PRAGMAS)})
_FUNCTION_NAMES = """
    abs avg char coalesce concat concat_ws count format glob group_concat hex ifnull iif instr length like likelihood likely
    lower ltrim max min nullif octet_length printf quote replace round rtrim sign soundex string_agg substr substring sum total
    trim typeof unhex unicode unlikely upper zeroblob
    row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value
    acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10 log2 mod pi pow power radians
    sin sinh sqrt tan tanh trunc
    json json_array json_array_length json_extract json_group_array json_group_object json_insert json_object json_patch
    json_quote json_remove json_replace json_set json_type json_valid -> ->>
    date time datetime julianday strftime unixepoch
"""
FUNCTIONS = frozenset(_FUNCTION_NAMES.split())
"""Functions whose result depends on their arguments alone. The date functions refuse `now`: see `functions`."""
_HIDDEN = (INTERNAL, "sqlite_", "pragma_", "dbstat", "fts", "rtree", "bytecode", "tables_used")
_WRITES = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE})
_ALWAYS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE})


class Role:
    """An authorizer. A reader may read the world's tables; a writer may change their rows too."""

    def __init__(self, tables: Collection[str], *, writes: bool, timed: bool = False) -> None:
        """`timed`: the world's time takes the place of the host's, so that asking for it is fine."""
        self._functions = FUNCTIONS | CURRENT.keys() if timed else FUNCTIONS
        self._tables = frozenset(tables)
        self._readable = self._tables | TABLE_FUNCTIONS | {SCHEMA_TABLE}
        self._writes = writes
        self.internal = False
        """True while the code of this package runs a statement of its own."""
        self.denied = ""
        """What was denied last, for the message; empty it before a statement."""
        self.wrote = False
        """Whether a statement asked to change rows; clear it before one."""

    def __call__(self, action: int, first: str | None, second: str | None, database: str | None, source: str | None) -> int:
        """SQLite's question. `source` is the innermost trigger or view that asks."""
        if self._allows(action, first or "", second or "", source or ""):
            return sqlite3.SQLITE_OK
        self.denied = _describe(action, first or "", second or "")
        return sqlite3.SQLITE_DENY

    def _allows(self, action: int, first: str, second: str, source: str) -> bool:
        if action in _ALWAYS or self.internal:
            return True
        if action == sqlite3.SQLITE_READ:
            return self._may_read(first, second, source)
        if action == sqlite3.SQLITE_FUNCTION:
            return second.lower() in self._functions or (self._writes and source.startswith(INTERNAL))
        if action in _WRITES:
            self.wrote = True
            return self._writes and (first in self._tables or source.startswith(INTERNAL))
        if action == sqlite3.SQLITE_PRAGMA:
            return first.lower() in _PRAGMAS
        return action == sqlite3.SQLITE_SAVEPOINT and self._writes

    def _may_read(self, table: str, column: str, source: str) -> bool:
        if table in self._readable or (self._writes and source.startswith(INTERNAL)):
            return True
        # Without a column, SQLite asks about the name in the FROM clause, which may be that of a subquery: `count(*)` of one.
        return not column and not table.lower().startswith(_HIDDEN)


def _describe(action: int, first: str, second: str) -> str:
    if action == sqlite3.SQLITE_FUNCTION:
        hint = "; it has no fixed result" if "random" in second or "current" in second.lower() else ""
        return f"the function {second}() is not available{hint}"
    if action == sqlite3.SQLITE_READ:
        return f"there is no table {first} to read"
    if action == sqlite3.SQLITE_PRAGMA:
        return f"PRAGMA {first} is not allowed; these are: {', '.join(sorted(_PRAGMAS))}"
    word = _STATEMENTS.get(action, f"action {action}")
    return f"{word} is not allowed" if action not in _WRITES else f"{word} on {first} is not allowed"


_STATEMENTS = {
    sqlite3.SQLITE_INSERT: "INSERT",
    sqlite3.SQLITE_UPDATE: "UPDATE",
    sqlite3.SQLITE_DELETE: "DELETE",
    sqlite3.SQLITE_ATTACH: "ATTACH (or VACUUM)",
    sqlite3.SQLITE_DETACH: "DETACH",
    sqlite3.SQLITE_TRANSACTION: "BEGIN, COMMIT or ROLLBACK",
    sqlite3.SQLITE_SAVEPOINT: "SAVEPOINT",
    sqlite3.SQLITE_ANALYZE: "ANALYZE",
    sqlite3.SQLITE_REINDEX: "REINDEX",
    **{
        getattr(sqlite3, f"SQLITE_{verb}_{temp}{what}"): f"{verb} {what.replace('VTABLE', 'VIRTUAL TABLE')}"
        for verb in ("CREATE", "DROP")
        for temp in ("", "TEMP_")
        for what in ("TABLE", "INDEX", "VIEW", "TRIGGER")
    },
    sqlite3.SQLITE_ALTER_TABLE: "ALTER TABLE",
    sqlite3.SQLITE_CREATE_VTABLE: "CREATE VIRTUAL TABLE",
    sqlite3.SQLITE_DROP_VTABLE: "DROP VIRTUAL TABLE",
}
