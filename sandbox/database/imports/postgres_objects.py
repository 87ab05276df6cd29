"""Objects that no import may bring: those that change what statements of others mean, and those that bear our names."""

from wardian.sandbox.database.postgres.links import Link
from wardian.sandbox.database.rows import INTERNAL
from wardian.sandbox.errors import ImportRefused

_OWN = (
    "{0}.oid >= 16384 AND NOT EXISTS (SELECT 1 FROM pg_depend e WHERE e.classid = '{1}'::regclass AND e.objid = {0}.oid"
    " AND e.deptype = 'e')"
)
_CASTS = (
    "SELECT format_type(c.castsource, NULL) || ' AS ' || format_type(c.casttarget, NULL) FROM pg_cast c WHERE c.castfunc <> 0 AND"
    " NOT EXISTS (SELECT 1 FROM pg_depend i WHERE i.classid = 'pg_cast'::regclass AND i.objid = c.oid AND i.deptype = 'i') AND "
    + _OWN.format("c", "pg_cast")
    + " ORDER BY 1"
)
_OPERATORS = (
    "SELECT o.oid::regoperator::text FROM pg_operator o LEFT JOIN pg_type l ON l.oid = o.oprleft LEFT JOIN pg_type r ON r.oid = o.oprright"
    " WHERE coalesce(l.oid, 0) < 16384 AND coalesce(r.oid, 0) < 16384 AND " + _OWN.format("o", "pg_operator") + " ORDER BY 1"
)
_CONVERSIONS = "SELECT c.conname::text FROM pg_conversion c WHERE c.oid >= 16384 ORDER BY 1"
_NAMED = {
    "schema": ("pg_namespace", "nspname"),
    "relation": ("pg_class", "relname"),
    "routine": ("pg_proc", "proname"),
    "type": ("pg_type", "typname"),
    "trigger": ("pg_trigger", "tgname"),
    "constraint": ("pg_constraint", "conname"),
    "rule": ("pg_rewrite", "rulename"),
    "collation": ("pg_collation", "collname"),
    "statistics": ("pg_statistic_ext", "stxname"),
    "text search configuration": ("pg_ts_config", "cfgname"),
    "text search dictionary": ("pg_ts_dict", "dictname"),
}
"""Kinds of objects: their catalogue and the column with their names."""


def check_objects(link: Link) -> None:
    """Look at a database that a script has just filled. `link` is an administrator's, and reads the catalogue alone.

    Raises:
        ImportRefused: it holds an object that may not come.
    """
    for kind, (catalogue, column) in _NAMED.items():
        query = f"SELECT {column}::text FROM {catalogue} WHERE oid >= 16384 AND starts_with(lower({column}::text), %s) ORDER BY 1"
        if found := link.execute(query.encode(), (INTERNAL,)).fetchone():
            raise ImportRefused(f"{kind} {found[0]}: names that begin with {INTERNAL} are reserved; rename it in the source")
    for what, query, why in (
        ("cast", _CASTS, "a function would run wherever such a value is written; drop the cast and call the function by name"),
        ("operator", _OPERATORS, "it would change what statements on built-in types mean; drop it, or define it on a type of its own"),
        ("conversion", _CONVERSIONS, "it would change how texts are read; drop it"),
    ):
        if found := link.execute(query.encode()).fetchone():
            raise ImportRefused(f"{what} {found[0]}: {why}")
