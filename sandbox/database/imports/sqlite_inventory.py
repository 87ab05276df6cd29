"""What stands in a SQLite database, table by table, and what of it Postgres would keep in another form."""

import re
import sqlite3

from wardian.sandbox.database.imports.report import FOLLOWS, NO_KEY, Column, Kind, LeftOut, Note, Report, Table
from wardian.sandbox.database.imports.values import ColumnDigests
from wardian.sandbox.database.rows import Stored, TableShape
from wardian.sandbox.database.sqlite.connection import quoted, rows_of

_KINDS = (
    (r"BOOL", Kind.FLAG),
    (r"TIMESTAMP.*(TZ|WITH TIME ZONE)", Kind.INSTANT),
    (r"DATETIME|TIMESTAMP", Kind.TIMESTAMP),
    (r"DATE", Kind.DATE),
    (r"TIME", Kind.TIME),
    (r"INT", Kind.INTEGER),
    (r"CHAR|CLOB|TEXT|STRING|UUID|JSON", Kind.TEXT),
    (r"BLOB|BINARY|BYTEA", Kind.BYTES),
    (r"REAL|FLOA|DOUB", Kind.REAL),
    (r"NUMERIC|DECIMAL|MONEY", Kind.DECIMAL),
)
_FORMS = {
    Kind.TIMESTAMP: ("[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9]*", "2026-03-01 09:00:00"),
    Kind.INSTANT: ("[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9]*+00", "2026-03-01 09:00:00+00"),
    Kind.DATE: ("[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]", "2026-03-01"),
    Kind.TIME: ("[0-9][0-9]:[0-9][0-9]:[0-9][0-9]*", "09:00:00"),
}
"""How Postgres writes times, as a GLOB pattern and an example."""
_CLASSES = {Kind.INTEGER: {"integer"}, Kind.REAL: {"real"}, Kind.TEXT: {"text"}, Kind.BYTES: {"blob"}}
_TIME = re.compile(r"\bCURRENT_(TIMESTAMP|DATE|TIME)\b|'now'", re.IGNORECASE)
_CHANCE = re.compile(r"\brandom(blob)?\s*\(", re.IGNORECASE)
CHANCE = "asks for chance, which no clone has of its own: using it is refused"
_NOCASE = re.compile(r"COLLATE\s+[\"'`\[]?NOCASE", re.IGNORECASE)


def inventory(raw: sqlite3.Connection, shapes: tuple[TableShape, ...]) -> Report:
    """Describe the database behind `raw`; `shapes` are those of its tables."""
    schema = raw.execute("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema ORDER BY name").fetchall()
    named = {kind: tuple(name for found, name, _, _ in schema if found == kind and not name.startswith("sqlite_")) for kind, *_ in schema}
    texts = {name: sql for kind, name, _, sql in schema if kind == "table"}
    tables = tuple(_table(raw, shape) for shape in shapes)
    counted = tuple(shape.name for shape in shapes if re.search(r"\bAUTOINCREMENT\b", texts[shape.name], re.IGNORECASE))
    notes = [note for table in tables for note in _notes(table, texts[table.name])]
    notes += [note for table in tables for note in _generated(raw, table.name)]
    notes += [Note(where=name, text="AUTOINCREMENT: ids of removed rows are not given out again") for name in counted]
    notes += [
        Note(where=f"{kind} {name}", text=CHANCE if _CHANCE.search(sql) else "uses the world's time")
        for kind, name, _, sql in schema
        if kind in ("view", "trigger") and (_TIME.search(sql) or _CHANCE.search(sql))
    ]
    notes += _views_that_fail(raw, named.get("view", ()))
    return Report(
        tables=tables,
        views=named.get("view", ()),
        indexes=named.get("index", ()),
        triggers=named.get("trigger", ()),
        sequences=counted,
        notes=tuple(notes),
    )


def _table(raw: sqlite3.Connection, shape: TableShape) -> Table:
    found = raw.execute(f"PRAGMA table_info({quoted(shape.name)})").fetchall()
    kinds = [kind_of(declared) for _, _, declared, *_ in found]
    number = shape.columns[0] if len(shape.columns) > len(found) else ""
    digests = ColumnDigests(kinds, () if number else shape.key)
    digests.add(row[1:] if number else row for row in rows_of(raw, shape))
    columns = tuple(
        Column(
            name=name,
            declared=declared,
            kind=kind,
            nullable=not filled and not place,
            default=default or "",
            cannot_agree=_why_not(raw, shape.name, name, declared, kind),
            digest=digest,
        )
        for (_, name, declared, filled, default, place), kind, digest in zip(found, kinds, digests.digests, strict=True)
    )
    rows = raw.execute(f"SELECT count(*) FROM {quoted(shape.name)}").fetchone()[0]
    key = () if number else tuple(shape.columns[position] for position in shape.key)
    why = NO_KEY if number else ""
    return Table(name=shape.name, rows=rows, key=key, columns=columns, number=number, cannot_agree=why)


def kind_of(declared: str) -> Kind:
    """What a declared type means to people. SQLite itself keeps any value in almost any column."""
    return next((kind for pattern, kind in _KINDS if re.search(pattern, declared.upper())), Kind.OTHER)


def _why_not(raw: sqlite3.Connection, table: str, column: str, declared: str, kind: Kind) -> str:
    """Why Postgres would have another canonical form for the same value; looks at the values too."""
    if kind is Kind.FLAG:
        return "kept as 0 and 1; Postgres has true and false"
    if kind is Kind.DECIMAL:
        return f"{declared} is kept as a binary number; Postgres keeps numeric exactly, digit by digit"
    held = {found for (found,) in raw.execute(f"SELECT DISTINCT typeof({quoted(column)}) FROM {quoted(table)}")} - {"null"}
    if kind in _FORMS:
        return _why_no_time(raw, table, column, kind, held)
    allowed = _CLASSES.get(kind)
    if allowed is None:
        return f"its type {declared!r} means none of Postgres'" if declared else "it has no type; Postgres needs one"
    return f"{declared} holds {_listed(held - allowed)} too; Postgres has one type per column" if held - allowed else ""


def _why_no_time(raw: sqlite3.Connection, table: str, column: str, kind: Kind, held: set[str]) -> str:
    if held - {"text"}:
        return f"times kept as {_listed(held)}; Postgres keeps them as {kind.value}"
    pattern, example = _FORMS[kind]
    other: tuple[Stored] | None = raw.execute(
        f"SELECT {quoted(column)} FROM {quoted(table)} WHERE {quoted(column)} NOT GLOB ? LIMIT 1", (pattern,)
    ).fetchone()
    return "" if other is None else f"times as text such as {str(other[0])[:40]!r}; Postgres writes {example!r}"


def _views_that_fail(raw: sqlite3.Connection, views: tuple[str, ...]) -> list[Note]:
    notes = []
    for name in views:
        try:
            raw.execute(f"SELECT * FROM {quoted(name)} LIMIT 0")
        except sqlite3.Error as error:
            notes.append(Note(where=f"view {name}", text=f"cannot be read: {error}"))
    return notes


def _generated(raw: sqlite3.Connection, table: str) -> list[Note]:
    names = [name for _, name, *_, hidden in raw.execute(f"PRAGMA table_xinfo({quoted(table)})") if hidden in (2, 3)]
    return [Note(where=f"{table}.{name}", text=FOLLOWS) for name in names]


def _listed(classes: set[str]) -> str:
    return " and ".join(sorted(classes))


def _notes(table: Table, sql: str) -> list[Note]:
    notes = []
    for column in table.columns:
        where = f"{table.name}.{column.name}"
        if _CHANCE.search(column.default):
            notes.append(Note(where=where, text=f"default {column.default}: {CHANCE}"))
        elif _TIME.search(column.default):
            notes.append(Note(where=where, text=f"default {column.default} gives the world's time"))
    if _NOCASE.search(sql):
        notes.append(Note(where=table.name, text="has a column that compares without case (NOCASE); Postgres' text does not"))
    return notes


def left_out_of(raw: sqlite3.Connection) -> tuple[LeftOut, ...]:
    """Settings of the file that clones do not have."""
    version, application = (raw.execute(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "application_id"))
    found = (("user_version", version), ("application_id", application))
    return tuple(LeftOut(what="setting", name=f"{name} {value}", why="agents cannot read it") for name, value in found if value)
