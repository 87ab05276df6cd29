"""What may be done inside a world's database, said in rights: who owns, who writes, who reads, and which functions there are."""

from collections.abc import Collection

from wardian.sandbox.database.postgres.cells import quoted
from wardian.sandbox.database.postgres.links import Link
from wardian.sandbox.database.postgres.roles import AGENTS, KEEPER, OWNER, TOOLS
from wardian.sandbox.database.postgres.stopping import measure_first

_STABLE = """
    array_to_json array_to_string concat concat_ws convert convert_from convert_to date date_cmp_timestamptz date_eq_timestamptz
    date_ge_timestamptz date_gt_timestamptz date_le_timestamptz date_lt_timestamptz date_ne_timestamptz date_part date_trunc enum_first
    enum_last enum_range extract format generate_series in_range interval_pl_timestamptz json_agg json_agg_finalfn json_agg_transfn
    json_build_array json_build_object json_object_agg json_object_agg_finalfn json_object_agg_transfn json_populate_record
    json_populate_recordset json_to_record json_to_recordset jsonb_agg jsonb_agg_finalfn jsonb_agg_transfn jsonb_build_array
    jsonb_build_object jsonb_object_agg jsonb_object_agg_finalfn jsonb_object_agg_transfn jsonb_populate_record jsonb_populate_recordset
    jsonb_to_record jsonb_to_recordset length make_timestamptz overlaps quote_literal quote_nullable row_to_json time timestamp
    timestamp_cmp_timestamptz timestamp_eq_timestamptz timestamp_ge_timestamptz timestamp_gt_timestamptz timestamp_le_timestamptz
    timestamp_lt_timestamptz timestamp_ne_timestamptz timestamptz timestamptz_cmp_date timestamptz_cmp_timestamp timestamptz_eq_date
    timestamptz_eq_timestamp timestamptz_ge_date timestamptz_ge_timestamp timestamptz_gt_date timestamptz_gt_timestamp
    timestamptz_le_date timestamptz_le_timestamp timestamptz_lt_date timestamptz_lt_timestamp timestamptz_mi_interval
    timestamptz_ne_date timestamptz_ne_timestamp timestamptz_pl_interval timezone to_char to_date to_json to_jsonb to_number
    to_timestamp textanycat anytextcat
"""
_UNFIT = (
    "pg_.*|inet_.*|lo_.*|query_to_.*|.*_to_xml.*|.*_to_xmlschema.*|database_to_.*|xml.*|system|bernoulli|acl.*|makeaclitem|hash_aclitem.*"
    "|satisfies_hash_partition|poly_(?!in$|out$).*|path_inter|path_distance|bitposition"
)
"""Immutable by declaration, and none of an agent's business; or of no limit, see `stopping`."""
_UNFIT_FORMS = ("timezone(text, time with time zone)", "position(bit, bit)", "jsonb_delete(jsonb, text[])")
"""A zone's offset as it is today; and two of no limit."""


def take_functions_away(link: Link) -> None:
    """Leave to everybody only functions whose result depends on their arguments alone (the time zone and formats are fixed)."""
    names = link.execute(
        """
        SELECT string_agg(oid::regprocedure::text, ', ') FROM pg_proc
        WHERE pronamespace = 'pg_catalog'::regnamespace
          AND (provolatile = 'v' OR (provolatile = 's' AND proname <> ALL (%s)) OR proname ~ %s OR oid = ANY (%s::regprocedure[]))
        """,
        (_STABLE.split(), f"^({_UNFIT})$", list(_UNFIT_FORMS)),
    ).fetchone()
    assert names is not None
    link.execute(f"REVOKE EXECUTE ON ROUTINE {names[0]} FROM PUBLIC")
    measure_first(link)
    link.execute("REVOKE USAGE ON LANGUAGE plpgsql FROM PUBLIC")
    link.execute("GRANT USAGE ON LANGUAGE plpgsql TO " + OWNER)


def close_schemas(link: Link) -> None:
    """No catalogue and no large object for anybody; in `public`, rows only. The information schema is replaced by `describe`."""
    link.execute("REVOKE ALL ON ALL TABLES IN SCHEMA pg_catalog FROM PUBLIC")
    link.execute("DROP SCHEMA information_schema CASCADE")
    link.execute("CREATE SCHEMA information_schema")
    link.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
    link.execute(f"GRANT ALL ON SCHEMA public TO {OWNER}")
    link.execute(f"GRANT USAGE ON SCHEMA public, information_schema TO {TOOLS}, {AGENTS}")


def open_tables(link: Link, tables: Collection[str]) -> None:
    """Give rows of the world's tables: tools may change them, agents may read them."""
    names = ", ".join(f"public.{quoted(name)}" for name in sorted(tables))
    if names:
        link.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {names} TO {TOOLS}")
        link.execute(f"GRANT SELECT ON {names} TO {AGENTS}")


def describe(link: Link, tables: Collection[str], views: Collection[str] = ()) -> None:
    """Fill an information schema of our own: the server's would show names that differ from clone to clone."""
    link.execute("CREATE TABLE information_schema.tables (table_schema text, table_name text, table_type text)")
    link.execute(
        "CREATE TABLE information_schema.columns (table_schema text, table_name text, column_name text, ordinal_position bigint,"
        " is_nullable text, data_type text)"
    )
    for name in sorted([*tables, *views]):
        link.execute("INSERT INTO information_schema.tables VALUES ('public', %s, %s)", (name, "BASE TABLE" if name in tables else "VIEW"))
        link.execute(
            "INSERT INTO information_schema.columns SELECT 'public', %s, attname, row_number() OVER (ORDER BY attnum),"
            " CASE WHEN attnotnull THEN 'NO' ELSE 'YES' END, regexp_replace(format_type("
            "CASE typtype WHEN 'd' THEN typbasetype ELSE pg_type.oid END, NULL), '^public[.]', '')"
            " FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped",
            (name, f"public.{quoted(name)}"),
        )
    link.execute(f"GRANT SELECT ON information_schema.tables, information_schema.columns TO {TOOLS}, {AGENTS}")


def keep_apart(link: Link, tables: Collection[str]) -> None:
    """Take the capture of changes out of reach of who owns the tables, as whom Postgres runs cascades and the triggers that they fire."""
    link.execute(f"GRANT USAGE ON SCHEMA public TO {KEEPER}")
    link.execute(f"ALTER TABLE public.wardian_journal OWNER TO {KEEPER}")
    ours = "SELECT tgfoid::regprocedure::text FROM pg_trigger WHERE starts_with(tgname::text, 'wardian_') AND tgparentid = 0"
    for (signature,) in link.execute(ours).fetchall():
        link.execute(f"ALTER FUNCTION {signature} OWNER TO {KEEPER}".encode())
    for name in sorted(tables):
        link.execute(f"REVOKE TRUNCATE ON public.{quoted(name)} FROM {OWNER}".encode())
    link.execute(
        "CREATE FUNCTION public.wardian_still() RETURNS event_trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$ BEGIN"
        " PERFORM FROM pg_authid LIMIT 0;"  # which only a superuser may
        " EXCEPTION WHEN insufficient_privilege THEN"
        " RAISE EXCEPTION 'the schema of a world stays as it is' USING ERRCODE = '42501'; END $$"
    )
    link.execute("CREATE EVENT TRIGGER wardian_still ON ddl_command_start EXECUTE FUNCTION public.wardian_still()")
