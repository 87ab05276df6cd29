"""Triggers of somebody's that lead back to themselves, such as one that stamps the row of its own table.

SQLite does not fire a trigger while it runs, unless triggers are set to be recursive. Worlds set that, since only then are rows
reported that a REPLACE removes. A database with such triggers keeps SQLite's default, or each stamp would stamp again; on it
REPLACE is refused.
"""

import re
import sqlite3

MARK = "wardian_flat"
"""The table that says so in an image."""
REPLACES = re.compile(r"\bOR\s+REPLACE\b|\bREPLACE\s+INTO\b|\bON\s+CONFLICT\s+REPLACE\b", re.IGNORECASE)
NO_REPLACE = "REPLACE is refused here, since triggers of this database lead back to themselves; use UPDATE, or ON CONFLICT DO UPDATE"
_WRITTEN = re.compile(
    r"\b(?:INTO|UPDATE(?:\s+OR\s+\w+)?|FROM)\s+(?:[\"'`\[]?main[\"'`\]]?\.)?(\"[^\"]+\"|`[^`]+`|\[[^\]]+\]|\w+)", re.IGNORECASE
)


def has_circles(connection: sqlite3.Connection) -> bool:
    """Whether a trigger's own table may be written by what it does, at once or by way of others."""
    writes: dict[str, set[str]] = {}
    for table, sql in connection.execute("SELECT tbl_name, sql FROM sqlite_schema WHERE type = 'trigger'"):
        _, _, body = re.split(r"\b(BEGIN)\b", sql, maxsplit=1, flags=re.IGNORECASE)
        writes.setdefault(table.lower(), set()).update(name.strip("\"'`[]").lower() for name in _WRITTEN.findall(body))
    return any(table in _reached(table, writes) for table in writes)


def _reached(start: str, writes: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    ahead = [start]
    while ahead:
        new = writes.get(ahead.pop(), set()) - found
        found |= new
        ahead += new
    return found


def is_flat(connection: sqlite3.Connection) -> bool:
    """Whether an image is marked so."""
    return connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (MARK,)).fetchone() is not None
