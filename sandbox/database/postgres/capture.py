"""Triggers that report what changes in a database to a journal beside it. What is undone takes its reports back with it."""

from collections.abc import Sequence

from wardian.sandbox.database.postgres.cells import Wire, quoted
from wardian.sandbox.database.postgres.links import Link
from wardian.sandbox.database.postgres.roles import AGENTS, CLONES

TAKE = "SELECT seq, table_no, added, cells FROM public.wardian_journal WHERE seq > {}"
"""The reports after a number, in no order. They stay: who works in a clone may not remove one."""
_EVENTS = {
    "INSERT": ("REFERENCING NEW TABLE AS new_rows", (("true", "new_rows"),)),
    "DELETE": ("REFERENCING OLD TABLE AS old_rows", (("false", "old_rows"),)),
    "UPDATE": ("REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows", (("false", "old_rows"), ("true", "new_rows"))),
}


def make_types(link: Link) -> None:
    """Types that take only what is kept exactly, however it is written; as the owner."""
    link.execute("CREATE DOMAIN public.wardian_real AS double precision CHECK (VALUE > '-Infinity' AND VALUE < 'Infinity')")
    link.execute(
        "CREATE DOMAIN public.wardian_instant AS timestamp with time zone CHECK (VALUE >= '0001-01-01 00:00:00+00' AND"
        " VALUE < '10000-01-01 00:00:00+00' AND VALUE = date_trunc('milliseconds', VALUE))"
    )


def make_journal(link: Link) -> None:
    """The journal, the ids given out, and the guard of an agent's rows; as the owner."""
    link.execute(
        "CREATE TABLE public.wardian_journal"
        " (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, table_no int NOT NULL, added bool NOT NULL, cells text[])"
    )
    link.execute("CREATE TABLE public.wardian_sequences (name text PRIMARY KEY, last bigint NOT NULL)")
    link.execute(f"GRANT SELECT ON public.wardian_journal TO {CLONES}")
    link.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON public.wardian_sequences TO {CLONES}")
    link.execute(
        "CREATE FUNCTION public.wardian_fits(size int, most int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN IF size > most THEN"
        " RAISE EXCEPTION 'a row has % bytes; at most % are allowed', size, most USING ERRCODE = '54000'; END IF; RETURN true; END $$"
    )
    link.execute("REVOKE ALL ON FUNCTION public.wardian_fits(int, int) FROM PUBLIC")
    link.execute(f"GRANT EXECUTE ON FUNCTION public.wardian_fits(int, int) TO {AGENTS}")


def fill_sequences(link: Link, wires: Sequence[Wire]) -> None:
    """One line for each table with a single key column: its highest id so far, or 0."""
    for wire in wires[:-1]:
        if len(wire.shape.key) == 1:
            position = wire.shape.key[0]
            highest = (
                f"(SELECT greatest(coalesce(max({quoted(wire.shape.columns[position])}), 0), 0) FROM public.{quoted(wire.shape.name)})"
                if wire.readers[position] is int
                else "0"
            )
            link.execute(f"INSERT INTO public.wardian_sequences SELECT %s, {highest}", (wire.shape.name,))


def install_triggers(link: Link, wires: Sequence[Wire]) -> None:
    """Three triggers per table, `wardian_sequences` included; they run as the owner, whoever changes a row."""
    for number, wire in enumerate(wires):
        for event, (referencing, parts) in _EVENTS.items():
            name = f"public.wardian_{event.lower()}_{number}"
            body = " ".join(
                f"INSERT INTO public.wardian_journal(table_no, added, cells) SELECT {number}, {added}, {wire.array} FROM {rows};"
                for added, rows in parts
            )
            link.execute(
                f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER"
                " SET search_path = pg_catalog, public, pg_temp AS"
                f" $wardian$ BEGIN {body} RETURN NULL; END $wardian$"
            )
            link.execute(f"REVOKE ALL ON FUNCTION {name}() FROM PUBLIC")
            link.execute(
                f"CREATE TRIGGER {name.removeprefix('public.')} AFTER {event} ON public.{quoted(wire.shape.name)} {referencing}"
                f" FOR EACH STATEMENT EXECUTE FUNCTION {name}()"
            )
            # Also when a state is put back, for which foreign keys are switched off.
            link.execute(f"ALTER TABLE public.{quoted(wire.shape.name)} ENABLE ALWAYS TRIGGER {name.removeprefix('public.')}")
