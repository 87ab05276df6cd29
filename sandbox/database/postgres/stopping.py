"""Functions that no time limit stops: the server looks for a cancel between rows and not inside them, and some take time that grows with
the product of two sizes. While one runs, no statement of that connection ends and no database of the server can be dropped.

Where people use them, a function of ours takes the place: it measures its arguments first. The server's own goes on under another name.
Where nobody does, `walls` takes them away.
"""

from wardian.sandbox.database.postgres.links import Link
from wardian.sandbox.database.postgres.statements import PLAIN

MOST = 100_000_000
"""Product of two sizes in bytes or elements; about a third of a second."""
_TEXTS = """
    translate(text,text,text) btrim(text,text) ltrim(text,text) rtrim(text,text) btrim(bytea,bytea) ltrim(bytea,bytea) rtrim(bytea,bytea)
    strpos(text,text) position(text,text) position(bytea,bytea) replace(text,text,text) split_part(text,text,integer)
    string_to_array(text,text) string_to_array(text,text,text) string_to_table(text,text) string_to_table(text,text,text)
"""
_ALONE = "normalize(text,text) is_normalized(text,text)"
_FORM = "DEFAULT 'NFC'"
"""Of the second argument of these, where it is left out."""
_ARRAYS = "arraycontains(anyarray,anyarray) arraycontained(anyarray,anyarray) arrayoverlap(anyarray,anyarray)"
_JSON = "jsonb_contains(jsonb,jsonb) jsonb_contained(jsonb,jsonb)"
_MEASURED = {
    _TEXTS: "pg_catalog.octet_length($1)::pg_catalog.int8 * pg_catalog.octet_length($2)",
    _ALONE: "pg_catalog.octet_length($1)::pg_catalog.int8 * pg_catalog.octet_length($1)",
    _ARRAYS: "pg_catalog.cardinality($1)::pg_catalog.int8 * pg_catalog.cardinality($2)",
    _JSON: "pg_catalog.octet_length($1::pg_catalog.text)::pg_catalog.int8 * pg_catalog.octet_length($2::pg_catalog.text)",
}
"""Signatures, and how much work a call of one is."""
_FOUND = """
    SELECT oid::int8, pg_get_function_result(oid), proisstrict, proretset FROM pg_proc WHERE oid = %s::regprocedure
"""


def measure_first(link: Link) -> None:
    """Put measuring functions in the place of those that no limit stops; as an administrator. Once per database."""
    for signatures, work in _MEASURED.items():
        for signature in signatures.split():
            _measure(link, signature, work)


def _measure(link: Link, signature: str, work: str) -> None:
    found = link.execute(_FOUND, (f"pg_catalog.{signature}",)).fetchone()
    assert found is not None, "every supported version has all of them"
    number, result, strict, many = found
    name, types = signature.removesuffix(")").split("(")
    given = ", ".join(f"${place}" for place in range(1, types.count(",") + 2))
    call = f"pg_catalog.{PLAIN}{name}({given})"
    link.execute(f"ALTER FUNCTION pg_catalog.{signature} RENAME TO {PLAIN}{name}".encode())
    taken = f"{types} {_FORM}" if signature in _ALONE else types
    link.execute(
        f"CREATE FUNCTION pg_catalog.{name}({taken}) RETURNS {result} LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE"
        f" {'STRICT' if strict else ''} AS $$ BEGIN IF {work} > {MOST} THEN"
        f" RAISE EXCEPTION '{name}: its arguments are too long together; narrow them' USING ERRCODE = '54000'; END IF;"
        f" {f'RETURN QUERY SELECT {call}' if many else f'RETURN {call}'}; END $$".encode()
    )
    link.execute("UPDATE pg_operator SET oprcode = %s::regprocedure WHERE oprcode = %s::oid", (f"pg_catalog.{signature}", number))
