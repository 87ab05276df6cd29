"""A template on a Postgres server, of an import: a login without power runs the kept script, then walls and capture are put up."""

import gzip
from dataclasses import dataclass

import psycopg

from wardian.sandbox.database.imports.postgres_inventory import wires_of_report
from wardian.sandbox.database.imports.postgres_objects import check_objects
from wardian.sandbox.database.imports.postgres_script import PostgresScript
from wardian.sandbox.database.imports.postgres_session import powerless
from wardian.sandbox.database.imports.postgres_time import set_the_clock_up
from wardian.sandbox.database.imports.report import LeftOut, Manifest
from wardian.sandbox.database.keys import import_key
from wardian.sandbox.database.postgres import capture, walls
from wardian.sandbox.database.postgres.building import Sums, sums_of
from wardian.sandbox.database.postgres.cells import quoted
from wardian.sandbox.database.postgres.dialect import PostgresEngine
from wardian.sandbox.database.postgres.links import Link, connected
from wardian.sandbox.database.postgres.recipe import Recipe
from wardian.sandbox.database.postgres.roles import AGENTS, OWNER, TOOLS
from wardian.sandbox.database.postgres.server import Server
from wardian.sandbox.database.rows import fingerprint_of
from wardian.sandbox.errors import ImportRefused, TemplateBroken

_SEQUENCES = r"""
    SELECT s.relname, s.oid::regclass::text, c.relname, a.attname, a.attidentity <> '', q.seqincrement
    FROM pg_class s JOIN pg_sequence q ON q.seqrelid = s.oid
    LEFT JOIN pg_depend d ON d.refobjid = s.oid AND d.refclassid = 'pg_class'::regclass AND d.classid = 'pg_attrdef'::regclass
    LEFT JOIN pg_attrdef f ON f.oid = d.objid
    LEFT JOIN pg_depend i ON i.objid = s.oid AND i.classid = 'pg_class'::regclass AND i.deptype = 'i' AND i.refobjsubid > 0
    JOIN pg_class c ON c.oid = coalesce(f.adrelid, i.refobjid)
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = coalesce(f.adnum, i.refobjsubid)
    WHERE s.relnamespace = 'public'::regnamespace AND s.relkind = 'S' AND NOT c.relispartition AND c.relname NOT LIKE 'wardian\_%'
    ORDER BY 1, 3, 4
"""
_HIDING = "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relrowsecurity"
_NEXT = """
    CREATE FUNCTION public.wardian_next(text) RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
    $wardian$ UPDATE public.wardian_sequences SET last = last + CASE {steps} END WHERE name = $1 RETURNING last $wardian$
"""


@dataclass(frozen=True, slots=True)
class Counter:
    """A column whose ids the database gives out."""

    name: str
    """Of its line in `wardian_sequences`; the table's where the column is its key."""
    table: str
    column: str
    is_identity: bool
    step: int
    last: int
    """The last id given out."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What running a script has shown."""

    left_out: tuple[LeftOut, ...]
    trimmed: dict[str, int]
    """How many texts lost spaces at their end, by table."""


class ImportRecipe(Recipe):
    """What a kept script makes. `artifact` is the script, packed."""

    timed = True

    def __init__(self, manifest: Manifest, artifact: bytes) -> None:
        self.name = manifest.name
        self.wires = wires_of_report(manifest.report)
        self._manifest, self._artifact = manifest, artifact

    def key(self, version: int, engine: PostgresEngine) -> str:
        return import_key(self._manifest.artifact_digest, f"postgres {version}")

    def fill(self, server: Server, database: str, engine: PostgresEngine) -> Sums:
        needed = int(self._manifest.engine_version.split(".")[0])
        if server.version // 10000 < needed:
            raise TemplateBroken(
                f"import {self.name}: it was made with Postgres {needed}, and the server is Postgres {server.version // 10000};"
                " use a newer server, or leave out --db-url"
            )
        try:
            load(server, database, gzip.decompress(self._artifact).decode("latin-1"), f"import {self.name}")
            sums = self._enclose(server, database)
        except ImportRefused as error:
            raise TemplateBroken(str(error)) from error
        except psycopg.Error as error:
            raise TemplateBroken(f"import {self.name}: {' '.join(str(error).split())}") from error
        self._check(sums)
        return sums

    def _enclose(self, server: Server, database: str) -> Sums:
        """Make a world of a database that holds the tables. What reads rows or calls functions is done by their owner; see `powerless`."""
        with powerless(server, database) as link:
            link.execute("ANALYZE")  # the last that calls functions of the import as their owner
        with connected(server.url_of(database)) as link:
            _open_functions(link)  # while all of them are the import's
        with powerless(server, database) as link:
            set_the_clock_up(link)
            counters = self._counters(link)
        with connected(server.url_of(database)) as link:
            self._close(link)
        with powerless(server, database) as link:
            link.execute("SET search_path = pg_catalog, pg_temp")
            capture.make_journal(link)
            capture.fill_sequences(link, self.wires)
            _count_here(link, counters)
            capture.install_triggers(link, self.wires)
        link = server.connect(database)
        try:
            sums = sums_of(link, self.wires)
        finally:
            server.disconnect(link)
        with connected(server.url_of(database)) as link:
            walls.keep_apart(link, [table.name for table in self._manifest.report.tables])
            link.execute("VACUUM FULL pg_catalog.pg_proc")
            link.execute("VACUUM (FREEZE)")
        return sums

    def _close(self, link: Link) -> None:
        """Put the walls up. `link` is an administrator's."""
        report = self._manifest.report
        tables = [table.name for table in report.tables]
        for (name,) in link.execute(_HIDING).fetchall():
            link.execute(f"ALTER TABLE {name} DISABLE ROW LEVEL SECURITY".encode())
        walls.close_schemas(link)
        walls.describe(link, tables, report.views)
        walls.take_functions_away(link)
        walls.open_tables(link, tables)
        for view in report.views:
            link.execute(f"GRANT SELECT ON public.{quoted(view)} TO {TOOLS}, {AGENTS}".encode())
            link.execute(f"GRANT INSERT, UPDATE, DELETE ON public.{quoted(view)} TO {TOOLS}".encode())

    def _counters(self, link: Link) -> list[Counter]:
        """Who gives out ids of the import's columns; before the catalogue is closed."""
        keys = {wire.shape.name: tuple(wire.shape.columns[position] for position in wire.shape.key) for wire in self.wires}
        found = []
        for sequence, identifier, table, column, is_identity, step in link.execute(_SEQUENCES).fetchall():
            before = f"SELECT last_value - CASE WHEN is_called THEN 0 ELSE {step} END FROM {identifier}"
            row = link.execute(before.encode()).fetchone()
            name = table if keys.get(table) == (column,) else f"sequence {sequence}"
            found.append(Counter(name, table, column, bool(is_identity), int(step), int(row[0]) if row else 0))
        return found

    def _check(self, sums: Sums) -> None:
        shapes = [wire.shape for wire in self.wires]
        leaves = fingerprint_of(shapes, zip(sums.counts, sums.totals, strict=True)).leaves
        for table in self._manifest.report.tables:
            if table.fingerprint and leaves[table.name] != table.fingerprint:
                raise TemplateBroken(
                    f"import {self.name}: table {table.name} is {leaves[table.name]} on this server and was {table.fingerprint};"
                    " its values are written in another way there; leave out --db-url"
                )


def _count_here(link: Link, counters: list[Counter]) -> None:
    """Let the world count: in a table whose changes are captured, which a rollback takes back. As the owner."""
    if not counters:
        return
    steps = " ".join(f"WHEN name = {_literal(one.name)} THEN {one.step}" for one in counters)
    link.execute(_NEXT.replace("{steps}", steps).encode())
    link.execute("REVOKE ALL ON FUNCTION public.wardian_next(text) FROM PUBLIC")
    link.execute(f"GRANT EXECUTE ON FUNCTION public.wardian_next(text) TO {TOOLS}")
    for one in counters:
        link.execute(
            "INSERT INTO public.wardian_sequences VALUES (%s, %s) ON CONFLICT (name) DO UPDATE"
            " SET last = greatest(wardian_sequences.last, excluded.last)",
            (one.name, one.last),
        )
        place = f"ALTER TABLE public.{quoted(one.table)} ALTER COLUMN {quoted(one.column)}"
        if one.is_identity:
            link.execute(f"{place} DROP IDENTITY".encode())
        link.execute(f"{place} SET DEFAULT public.wardian_next({_literal(one.name)})".encode())


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def load(server: Server, database: str, script: str, name: str) -> Loaded:
    """Run a script on an empty database of ours, as this process's login, and let one role own what it made. Gives what was left out.

    Raises:
        ImportRefused: it cannot be run whole.
        DatabaseLost: the server is at fault.
    """
    with connected(server.url_of(database)) as link:
        link.execute(f"ALTER SCHEMA public OWNER TO {OWNER}")
        link.execute(f"GRANT CREATE, TEMPORARY ON DATABASE {quoted(database)} TO {OWNER}".encode())
    try:
        with powerless(server, database) as link:
            run = PostgresScript(link, server.url)
            left_out = run.run(script)
        server.admit()
        with connected(server.url_of(database)) as link:
            link.execute(f"REASSIGN OWNED BY {server.login} TO {OWNER}")
            link.execute(f"REVOKE CREATE, TEMPORARY ON DATABASE {quoted(database)} FROM {OWNER}".encode())
            check_objects(link)
    except ImportRefused as error:
        raise ImportRefused(f"{name}: {error}") from error
    return Loaded(left_out, dict(run.trimmed))


def _open_functions(link: Link) -> None:
    """Of the import's own functions, tools may call all; agents those that change nothing; of extensions, those that are not volatile.

    None keeps the power of its owner: what an agent talks it into must not reach the capture of changes. To be called before functions of
    our own are there. `link` is an administrator's.
    """
    definers = "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosecdef"
    for (signature,) in link.execute(definers).fetchall():
        link.execute(f"ALTER ROUTINE {signature} SECURITY INVOKER".encode())
    rows = link.execute(
        "SELECT p.oid::regprocedure::text, EXISTS (SELECT 1 FROM pg_depend e WHERE e.classid = 'pg_proc'::regclass AND e.objid = p.oid AND"
        " e.deptype = 'e') FROM pg_proc p WHERE pronamespace = 'public'::regnamespace"
        " AND provolatile = 'v'"
    ).fetchall()
    for signature, of_extension in rows:
        link.execute(f"REVOKE ALL ON ROUTINE {signature} FROM PUBLIC".encode())
        if not of_extension:
            link.execute(f"GRANT EXECUTE ON ROUTINE {signature} TO {TOOLS}".encode())
