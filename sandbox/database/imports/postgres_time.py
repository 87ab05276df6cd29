"""The world's time in place of the host's, in what an imported Postgres database fills in by itself: defaults, functions, views."""

import re

from wardian.sandbox.database.postgres.cells import quoted
from wardian.sandbox.database.postgres.links import Link
from wardian.sandbox.database.postgres.roles import AGENTS, CLONES, TOOLS

_NOW = "public.wardian_now()"
_WORDS = {
    r"(?:pg_catalog\.)?\b(?:now|transaction_timestamp|statement_timestamp|clock_timestamp)\s*\(\s*\)": _NOW,
    r"\bCURRENT_TIMESTAMP\b(?:\s*\(\d\))?": _NOW,
    r"\bLOCALTIMESTAMP\b(?:\s*\(\d\))?": f"({_NOW})::timestamp without time zone",
    r"\bCURRENT_DATE\b": f"({_NOW})::date",
    r"\bCURRENT_TIME\b(?:\s*\(\d\))?": f"({_NOW})::time with time zone",
    r"\bLOCALTIME\b(?:\s*\(\d\))?": f"({_NOW})::time without time zone",
}
_TOKEN = re.compile(rf"(?:'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/)|(?P<time>{'|'.join(_WORDS)})", re.IGNORECASE | re.DOTALL)
_CLOCK = """
    CREATE TABLE public.wardian_clock (now timestamp with time zone);
    INSERT INTO public.wardian_clock VALUES (NULL);
    CREATE FUNCTION public.wardian_now() RETURNS timestamp with time zone LANGUAGE plpgsql
    STABLE SECURITY DEFINER SET search_path = public AS $$
    DECLARE told timestamp with time zone;
    BEGIN
        SELECT now INTO told FROM public.wardian_clock;
        IF told IS NULL THEN
            RAISE EXCEPTION 'there is no time in this world; give the value' USING ERRCODE = '42501';
        END IF;
        RETURN told;
    END $$;
    REVOKE ALL ON FUNCTION public.wardian_now() FROM PUBLIC;
"""
_DEFAULTS = """
    SELECT c.relname, a.attname, pg_get_expr(d.adbin, d.adrelid)
    FROM pg_attrdef d JOIN pg_class c ON c.oid = d.adrelid JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.adnum
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND a.attgenerated = ''
"""
_FUNCTIONS = """
    SELECT pg_get_functiondef(p.oid) FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
    WHERE p.pronamespace = 'public'::regnamespace AND p.prokind IN ('f', 'p') AND l.lanname IN ('sql', 'plpgsql')
      AND NOT EXISTS (SELECT 1 FROM pg_depend e WHERE e.classid = 'pg_proc'::regclass AND e.objid = p.oid AND e.deptype = 'e')
"""
_VIEWS = "SELECT relname, pg_get_viewdef(oid) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'v'"


def asks_for_time(sql: str) -> bool:
    """Whether SQL has words that stand for the host's time."""
    return any(found.group("time") for found in _TOKEN.finditer(sql))


def in_the_world(sql: str) -> str:
    """The same SQL with the world's time in their place; texts and comments are left alone."""
    return _TOKEN.sub(lambda found: _instead(found.group()) if found.group("time") else found.group(), sql)


def _instead(word: str) -> str:
    return next(new for pattern, new in _WORDS.items() if re.fullmatch(pattern, word, re.IGNORECASE))


def set_the_clock_up(link: Link) -> None:
    """Make the clock, and let defaults, functions and views look at it. `link` is the owner's."""
    defaults = link.execute(_DEFAULTS).fetchall()
    functions = link.execute(_FUNCTIONS).fetchall()
    views = link.execute(_VIEWS).fetchall()
    link.execute(_CLOCK)
    link.execute(f"GRANT UPDATE ON public.wardian_clock TO {CLONES}")
    link.execute(f"GRANT EXECUTE ON FUNCTION public.wardian_now() TO {TOOLS}, {AGENTS}")
    for table, column, default in defaults:
        if asks_for_time(default):
            place = f"ALTER TABLE public.{quoted(table)} ALTER COLUMN {quoted(column)}"
            link.execute(f"{place} SET DEFAULT {in_the_world(default)}".encode())
    for (definition,) in functions:
        if asks_for_time(definition):
            link.execute(in_the_world(definition).encode())
    for view, definition in views:
        if asks_for_time(definition):
            link.execute(f"CREATE OR REPLACE VIEW public.{quoted(view)} AS {in_the_world(definition)}".encode())
