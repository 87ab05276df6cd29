"""What stands in an imported Postgres database, what had to go, and what of it SQLite would keep in another form."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import psycopg

from wardian.sandbox.database.imports.postgres_time import asks_for_time
from wardian.sandbox.database.imports.report import FOLLOWS, FROZEN, NO_KEY, Column, Kind, LeftOut, Note, Report, Table
from wardian.sandbox.database.imports.values import ColumnDigests
from wardian.sandbox.database.postgres.building import rows_of
from wardian.sandbox.database.postgres.cells import SEQUENCES_WIRE, Wire, quoted, wire
from wardian.sandbox.database.postgres.links import Link
from wardian.sandbox.database.rows import INTERNAL, any_shape
from wardian.sandbox.errors import ImportRefused, TemplateBroken

_KINDS = {
    "int2": Kind.INTEGER,
    "int4": Kind.INTEGER,
    "int8": Kind.INTEGER,
    "float8": Kind.REAL,
    "float4": Kind.REAL,
    "numeric": Kind.DECIMAL,
    "money": Kind.DECIMAL,
    "text": Kind.TEXT,
    "varchar": Kind.TEXT,
    "bpchar": Kind.TEXT,
    "name": Kind.TEXT,
    "citext": Kind.TEXT,
    "uuid": Kind.TEXT,
    "json": Kind.TEXT,
    "bool": Kind.FLAG,
    "bytea": Kind.BYTES,
    "timestamp": Kind.TIMESTAMP,
    "timestamptz": Kind.INSTANT,
    "date": Kind.DATE,
    "time": Kind.TIME,
}
_WHY_NOT = {
    "bool": "true or false; SQLite keeps 1 and 0",
    "numeric": "kept exactly, digit by digit; SQLite keeps a binary number",
    "money": "kept with a currency sign; SQLite keeps a binary number",
    "float4": "single precision; SQLite keeps double",
    "timestamptz": "kept in UTC; SQLite keeps the text that was written",
    "jsonb": "the server writes JSON anew; SQLite keeps the text that was written",
}
_FORMS: dict[Kind, Any] = {Kind.INTEGER: int, Kind.REAL: float, Kind.FLAG: bool, Kind.BYTES: bytes}
"""What the wire of a column is known by; all others travel as the server writes them."""
NUMBER = "wardian_row"
"""The key that a table gets which has none."""
_CHANCE = re.compile(r"\brandom\w*\(|\w*uuid\w*\(|\btimeofday\(", re.IGNORECASE)
_SERIAL = re.compile(r"\bnextval\(", re.IGNORECASE)
_COLUMNS = """
    SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), b.typname, NOT a.attnotnull,
           coalesce(pg_get_expr(d.adbin, d.adrelid), ''), a.attidentity, a.attgenerated <> ''
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_type t ON t.oid = a.atttypid JOIN pg_type b ON b.oid = CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END
    LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    ORDER BY c.relname COLLATE "C", a.attnum
"""
_KEYS = """
    SELECT DISTINCT ON (c.relname) c.relname,
           (SELECT array_agg(a.attname::text ORDER BY k.n) FROM unnest(i.indkey::int[]) WITH ORDINALITY k(attnum, n)
            JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum WHERE k.n <= i.indnkeyatts)
    FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
    WHERE c.relnamespace = 'public'::regnamespace AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL
        AND NOT EXISTS (SELECT 1 FROM unnest(i.indkey::int[]) k(attnum)
                        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum WHERE NOT a.attnotnull)
    ORDER BY c.relname, i.indisprimary DESC, i.indexrelid
"""
_PARTS = """
    SELECT what, name FROM (
        SELECT oid AS space FROM pg_namespace WHERE nspname = %s
    ) n CROSS JOIN LATERAL (
        SELECT CASE WHEN relkind IN ('v', 'm') THEN 'view' ELSE 'table' END, relname::text FROM pg_class
            WHERE relnamespace = space AND relkind IN ('r', 'p', 'v', 'm')
        UNION ALL SELECT 'column', relname || '.' || attname FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid
            WHERE relnamespace = space AND relkind IN ('r', 'p') AND attnum > 0 AND NOT attisdropped
        UNION ALL SELECT 'default', relname || '.' || attname FROM pg_attrdef JOIN pg_class c ON c.oid = adrelid
            JOIN pg_attribute a ON a.attrelid = c.oid AND attnum = adnum WHERE relnamespace = space AND NOT attisdropped
        UNION ALL SELECT 'constraint', relname || '.' || conname FROM pg_constraint JOIN pg_class c ON c.oid = conrelid
            WHERE relnamespace = space
        UNION ALL SELECT 'trigger', relname || '.' || tgname FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid
            WHERE relnamespace = space AND NOT tgisinternal
        UNION ALL SELECT 'function', proname::text FROM pg_proc WHERE pronamespace = space
        UNION ALL SELECT 'type', typname::text FROM pg_type WHERE typnamespace = space AND typtype IN ('d', 'e', 'r')
    ) p(what, name) ORDER BY 1, 2
"""
_UNPROVED = """
    SELECT conrelid::regclass::text, conname FROM pg_constraint
    WHERE NOT convalidated AND connamespace = 'public'::regnamespace AND conrelid <> 0 ORDER BY 1, 2
"""
_NOT_OF_EXTENSION = "NOT EXISTS (SELECT 1 FROM pg_depend e WHERE e.classid = '{0}'::regclass AND e.objid = {1}.oid AND e.deptype = 'e')"
_RELATIONS = (
    "SELECT relname FROM pg_class c WHERE relnamespace = 'public'::regnamespace AND relkind = ANY(%s) AND "
    + _NOT_OF_EXTENSION.format("pg_class", "c")
    + ' ORDER BY relname COLLATE "C"'
)


def tidy(link: Link, schema: str) -> tuple[LeftOut, ...]:
    """Make one schema, `public`, of a database that was just filled, and give what had to go. `link` is an administrator's.

    Raises:
        ImportRefused: nothing would be left, or tables are such that changes of them cannot be captured.
    """
    gone = [*_one_schema(link, schema), *_no_large_objects(link)]
    views = set(names_of(link, "v", "m"))
    link.execute("DROP SCHEMA information_schema CASCADE")
    lost = sorted(views - set(names_of(link, "v", "m")))
    gone += [LeftOut(what="view", name=name, why="it reads the information schema, which clones do not have") for name in lost]
    inherited = link.execute(
        "SELECT DISTINCT inhrelid::regclass::text FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid"
        " WHERE NOT c.relispartition AND relkind = 'r'"
    ).fetchall()
    if inherited:
        raise ImportRefused(f"table {inherited[0][0]}: inherits from another; changes of it cannot be captured; make it a table of its own")
    if not names_of(link, "r", "p"):
        raise ImportRefused("it holds no tables")
    return tuple(gone)


def prove_constraints(link: Link) -> None:
    """Look whether rows keep to constraints that were never asked of them (NOT VALID). `link` is the owner's.

    Raises:
        ImportRefused: some do not.
    """
    for table, name in link.execute(_UNPROVED).fetchall():
        try:
            link.execute(f"ALTER TABLE {table} VALIDATE CONSTRAINT {quoted(name)}".encode())
        except psycopg.IntegrityError as error:
            said = error.diag.message_detail or error.diag.message_primary
            raise ImportRefused(
                f"table {table}: rows do not keep to its constraint {name}, which is NOT VALID: {said};"
                " mend these rows, or drop it, in a copy"
            ) from error


def number_rows(link: Link) -> None:
    """Add a key to tables that have none, in the order in which the rows were written. `link` is the owner's.

    Raises:
        ImportRefused: a partitioned table has none.
    """
    keyed = {name for name, _ in link.execute(_KEYS).fetchall()}
    for name in names_of(link, "p"):
        if name not in keyed:
            raise ImportRefused(f"table {name}: it is partitioned and has no key to tell its rows apart; add a primary key")
    for name in names_of(link, "r"):
        if name not in keyed and not _is_partition(link, name):
            link.execute(f"ALTER TABLE public.{quoted(name)} ADD COLUMN {NUMBER} bigserial PRIMARY KEY".encode())


def _is_partition(link: Link, name: str) -> bool:
    row = link.execute("SELECT relispartition FROM pg_class WHERE oid = %s::regclass", (f"public.{quoted(name)}",)).fetchone()
    return bool(row and row[0])


def _one_schema(link: Link, schema: str) -> list[LeftOut]:
    rows = link.execute(
        "SELECT nspname, (SELECT count(*) FROM pg_class WHERE relnamespace = n.oid AND relkind IN ('r', 'p')) FROM pg_namespace n"
        " WHERE nspname NOT LIKE 'pg\\_%' AND nspname NOT IN ('information_schema') ORDER BY 1"
    ).fetchall()
    tables = dict(rows)
    if schema not in tables:
        raise ImportRefused(f"schema: there is no {schema!r}; there are: {', '.join(sorted(tables))}")
    if not tables[schema]:
        others = ", ".join(f"{name} ({count} tables)" for name, count in rows if count)
        raise ImportRefused(f"schema {schema} holds no tables" + (f"; name another with --schema: {others}" if others else ""))
    gone = [
        LeftOut(what="schema", name=f"{name}, {count} tables", why="one schema comes: see --schema")
        for name, count in rows
        if name != schema
    ]
    if schema != "public":
        _move_extensions(link, schema)
    before = link.execute(_PARTS, (schema,)).fetchall()
    for name in tables.keys() - {schema}:
        link.execute(f"DROP SCHEMA {quoted(name)} CASCADE".encode())
    left = set(link.execute(_PARTS, (schema,)).fetchall())
    gone += [LeftOut(what=what, name=name, why="it needs a schema that does not come") for what, name in before if (what, name) not in left]
    if schema != "public":
        link.execute(f"ALTER SCHEMA {quoted(schema)} RENAME TO public".encode())
    return [left for left in gone if not left.name.startswith("public, 0 ")]


def _move_extensions(link: Link, schema: str) -> None:
    for (name,) in link.execute("SELECT extname FROM pg_extension WHERE extnamespace = 'public'::regnamespace").fetchall():
        link.execute(f"ALTER EXTENSION {quoted(name)} SET SCHEMA {quoted(schema)}".encode())


def _no_large_objects(link: Link) -> list[LeftOut]:
    row = link.execute("SELECT count(*) FROM pg_largeobject_metadata").fetchone()
    count = int(row[0]) if row else 0
    link.execute("SELECT lo_unlink(oid) FROM pg_largeobject_metadata")
    return [LeftOut(what="large objects", name=str(count), count=count, why="keep bytes in a column of type bytea")] if count else []


def names_of(link: Link, *kinds: str) -> tuple[str, ...]:
    """Names of relations of these kinds in `public`, those of extensions left out."""
    return tuple(str(name) for (name,) in link.execute(_RELATIONS, (list(kinds),)).fetchall())


def inventory(link: Link, trimmed: Mapping[str, int]) -> Report:
    """Describe a database that `tidy` has been at; reads every row, as the owner. `trimmed`: texts that lost spaces at their end, by table.

    Raises:
        ImportRefused: a table is such that its changes cannot be captured.
    """
    keys = {name: tuple(columns) for name, columns in link.execute(_KEYS).fetchall()}
    tables: dict[str, list[Column]] = {}
    notes: list[Note] = []
    numbered: set[str] = set()
    for table, name, declared, base, nullable, default, identity, is_generated in link.execute(_COLUMNS).fetchall():
        if name == NUMBER:
            numbered.add(table)
            continue
        if is_generated:
            notes.append(Note(where=f"{table}.{name}", text=FOLLOWS))
            continue
        default = f"GENERATED {'ALWAYS' if identity == 'a' else 'BY DEFAULT'} AS IDENTITY" if identity else default
        kind = _KINDS.get(base, Kind.OTHER)
        why = _WHY_NOT.get(base, "" if kind is not Kind.OTHER else f"SQLite has no type {declared}")
        tables.setdefault(table, []).append(
            Column(name=name, declared=declared, kind=kind, nullable=nullable, default=default, cannot_agree=why)
        )
        notes += _notes(f"{table}.{name}", default)
    notes += [Note(where=name, text=f"has no key: the column {NUMBER}, which counts its rows, was added") for name in sorted(numbered)]
    _check_names([*tables, *names_of(link, "v", "m", "S")])
    return Report(
        tables=tuple(
            _table(link, name, columns, () if name in numbered else keys.get(name, ()), trimmed.get(name, 0))
            for name, columns in tables.items()
        ),
        views=names_of(link, "v", "m"),
        indexes=names_of(link, "i", "I"),
        triggers=_listed(link, "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgparentid = 0 ORDER BY 1"),
        functions=_listed(
            link,
            "SELECT proname FROM pg_proc p WHERE pronamespace = 'public'::regnamespace AND "
            + _NOT_OF_EXTENSION.format("pg_proc", "p")
            + " ORDER BY 1",
        ),
        sequences=tuple(name for name in names_of(link, "S") if not name.endswith(f"_{NUMBER}_seq")),
        notes=(*notes, *(Note(where=f"view {name}", text=FROZEN) for name in names_of(link, "m")), *_views_that_fail(link)),
    )


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        if name.lower().startswith(INTERNAL):
            raise ImportRefused(f"{name}: names that begin with {INTERNAL} are reserved; rename it in the source")


def _table(link: Link, name: str, columns: list[Column], key: tuple[str, ...], trimmed: int) -> Table:
    why = f"{trimmed} texts were written as N'... ', of which Postgres drops the spaces at the end" if trimmed else ""
    reason = why if key else "; ".join(filter(None, (NO_KEY, why)))
    table = Table(name=name, rows=0, key=key, columns=tuple(columns), number="" if key else NUMBER, cannot_agree=reason)
    try:
        of_table = wire_of(table)
    except TemplateBroken as error:
        raise ImportRefused(str(error)) from error
    digests = ColumnDigests([column.kind for column in columns], () if table.number else of_table.shape.key)
    row = link.execute(f"SELECT count(*) FROM public.{quoted(name)}".encode()).fetchone()
    with link.transaction():
        digests.add(row[: len(columns)] for row in rows_of(link, of_table))  # type: ignore[misc]
    summed = tuple(column.model_copy(update={"digest": one}) for column, one in zip(columns, digests.digests, strict=True))
    return table.model_copy(update={"rows": row[0] if row else 0, "columns": summed})


def wire_of(table: Table) -> Wire:
    """How rows of an imported table travel.

    Raises:
        TemplateBroken: changes of it cannot be captured.
    """
    columns = [(column.name, _FORMS.get(column.kind, "text")) for column in table.columns]
    if table.number:
        columns.append((table.number, int))
    names = tuple(name for name, _ in columns)
    shape = any_shape(table.name, names, tuple(names.index(column) for column in (table.key or names[-1:])))
    return wire(shape, columns)


def wires_of_report(report: Report) -> tuple[Wire, ...]:
    """Those of all tables by name, and of the ids given out."""
    return (*map(wire_of, report.tables), SEQUENCES_WIRE)


def _listed(link: Link, query: str) -> tuple[str, ...]:
    return tuple(str(name) for (name,) in link.execute(query.encode()).fetchall())


def _notes(where: str, default: str) -> list[Note]:
    if _SERIAL.search(default) or default.startswith("GENERATED"):
        return [
            Note(where=where, text="ids come from the world's own counter, which a rollback takes back, and is part of the fingerprint")
        ]
    if _CHANCE.search(default):
        return [Note(where=where, text=f"default {default} is refused in a clone, which has no chance of its own: inserts give the value")]
    if asks_for_time(default):
        return [Note(where=where, text=f"default {default} gives the world's time")]
    return []


def _views_that_fail(link: Link) -> list[Note]:
    notes = []
    for name in names_of(link, "v", "m"):
        try:
            with link.transaction():
                link.execute(f"SELECT * FROM public.{quoted(name)} LIMIT 0".encode())
        except psycopg.Error as error:
            notes.append(Note(where=f"view {name}", text=f"cannot be read: {' '.join(str(error).split())}"))
    return notes
