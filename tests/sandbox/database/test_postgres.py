"""What only the Postgres engine has: its sealing, spares, rights, and what becomes of it when the server fails."""

import time
from collections.abc import Iterator

import pytest

from wardian.sandbox.database.base import QueryLimits, TemplateSource, WorldDatabase
from wardian.sandbox.database.postgres.clone import PostgresDatabase
from wardian.sandbox.database.postgres.server import Server
from wardian.sandbox.database.postgres.template import PostgresTemplate
from wardian.sandbox.database.sqlite import SqliteTemplate
from wardian.sandbox.errors import DatabaseProblem, DatabaseProblemKind

from .conftest import orders


@pytest.fixture
def clone(postgres_shop: PostgresTemplate) -> Iterator[PostgresDatabase]:
    made = postgres_shop.clone()
    yield made
    made.close()


def test_both_engines_have_one_fingerprint(postgres_shop: PostgresTemplate, shop: SqliteTemplate, clone: WorldDatabase) -> None:
    assert postgres_shop.fingerprint == shop.fingerprint == clone.recompute() == clone.fingerprint()


def test_the_same_call_leaves_the_same_fingerprint_and_changes(shop: SqliteTemplate, clone: WorldDatabase) -> None:
    other = shop.clone()
    for database in (clone, other):
        with database.transaction() as session:
            session.execute(orders.update().where(orders.c.id > 3).values(total=5))
            session.execute(orders.insert().values(id=database.allocate_id(session, "orders"), customer_id=1, total=2**62))
    assert clone.fingerprint() == other.fingerprint() == clone.recompute()
    assert clone.take_changes() == other.take_changes()
    other.close()


@pytest.mark.parametrize(
    "sql",
    [
        "COMMIT",
        "ROLLBACK",
        "RESET ROLE",
        "SET ROLE wardian_owner",
        "SET statement_timeout = 0",
        "SELECT set_config('role', 'wardian_owner', false)",
        "SELECT 1; RESET ROLE",
        "CREATE TABLE x(y int)",
        "CREATE TEMP TABLE x(y int)",
        "SELECT 1 AS y INTO x",
        "DROP TABLE orders",
        "ALTER TABLE orders DISABLE TRIGGER ALL",
        "TRUNCATE orders",
        "COPY orders TO PROGRAM 'cat'",
        "DO $$ BEGIN NULL; END $$",
        "UPDATE wardian_sequences SET last = 0",
        "DELETE FROM wardian_journal",
        "SELECT * FROM wardian_journal",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT lo_create(1)",
        "SELECT lo_import('/etc/passwd')",
        "SELECT pg_sleep(9)",
        "SELECT pg_terminate_backend(1)",
        "SELECT pg_advisory_lock(1)",
        "SELECT random()",
        "SELECT now()",
        "SELECT CURRENT_TIMESTAMP",
        "SELECT 'now'::timestamptz",
        "SELECT gen_random_uuid()",
        "SELECT * FROM pg_stat_activity",
        "SELECT rolname FROM pg_roles",
        "SELECT datname FROM pg_database",
        "SELECT query_to_xml('select 1', true, true, '')",
        "SELECT current_setting('server_version')",
        "SELECT xmin FROM orders",
        "SELECT ctid FROM orders",
        "SELECT nextval('wardian_journal_seq_seq')",
        "NOTIFY x",
        "LOCK TABLE orders",
    ],
)
def test_neither_a_tool_nor_an_agent_leaves_the_rows(clone: WorldDatabase, sql: str) -> None:
    before = clone.fingerprint()
    with pytest.raises(DatabaseProblem) as caught, clone.transaction() as session:
        session.connection().exec_driver_sql(sql)
    assert caught.value.kind is DatabaseProblemKind.FORBIDDEN
    with pytest.raises(DatabaseProblem):
        clone.query(sql)
    assert clone.fingerprint() == before == clone.recompute()
    assert clone.query("SELECT count(*) FROM orders").rows == ((7,),)


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE orders SET total = 0",
        "WITH x AS (DELETE FROM orders RETURNING id) SELECT * FROM x",
        "SELECT * FROM orders FOR UPDATE",
        "SELECT 1) AS q; DELETE FROM orders; SELECT * FROM (SELECT 1",
        "SELECT 1) AS q WHERE true OR (true",
        "SELECT $$a$$; DELETE FROM orders",
        "SELECT /* /* */ ; */ 1; DELETE FROM orders",
        "SELECT E'\\'; DELETE FROM orders; --'; DELETE FROM orders",
        "EXPLAIN ANALYZE DELETE FROM orders",
        "SELECT wardian_fits(1, 2), * FROM wardian_sequences",
        "SELECT pg_catalog.set_config('statement_timeout', '0', false)",
        "",
        "selec 1",
        "SELECT nothing FROM orders",
        "SELECT :missing",
    ],
)
def test_what_an_agent_may_not_ask_is_refused_and_harmless(clone: WorldDatabase, sql: str) -> None:
    with pytest.raises(DatabaseProblem) as caught:
        clone.query(sql)
    assert caught.value.kind in (DatabaseProblemKind.FORBIDDEN, DatabaseProblemKind.SYNTAX)
    assert clone.recompute() == clone.fingerprint()


def test_every_kind_of_value_has_one_form(clone: WorldDatabase) -> None:
    sql = (
        "SELECT NULL, 1, 2.5, '-0'::float8, '\\x00ff'::bytea, 'Infinity'::float8, 'NaN'::float8, true, sum(total), avg(total),"
        " min(c.since), date '2026-01-02', interval '1 day', array[1,2], json_build_object('a', 1) FROM orders, customers c WHERE c.id = 1"
    )
    row = clone.query(sql).rows[0]
    assert row[:11] == (None, 1, 2.5, 0.0, "\\x00ff", "Infinity", "NaN", True, 2800, 400, "2026-02-28T09:00:00.000Z")
    assert row[11:] == ("2026-01-02", "P1D", "{1,2}", '{"a" : 1}')


HUGE = "10::numeric ^ 5000"


def test_a_number_of_more_than_64_bits_is_a_text(clone: WorldDatabase) -> None:
    ends = "9223372036854775807::numeric, 9223372036854775808::numeric"
    row = clone.query(f"SELECT {ends}, {HUGE}, {HUGE} + 0.5, 1 / ({HUGE}), array[{HUGE}], '-Infinity'::numeric").rows[0]
    assert row[:2] == (2**63 - 1, str(2**63))
    assert [str(value)[:3] for value in row[2:]] == ["100", "100", "0", "{10", "-In"]
    with clone.transaction() as session:
        written = clone.execute(session, f"UPDATE customers SET name = 'x' WHERE id = 1 RETURNING {HUGE}")
    assert written.returned is not None
    assert len(str(written.returned.rows[0][0])) == 5001 + len(".0000000000000000")


ODD = (
    "'294276-01-01'::timestamptz",
    "'infinity'::timestamptz",
    "'4713-01-01 BC'::timestamptz",
    "'infinity'::date",
    "'24:00'::time",
    "'12:00+15:59:59'::timetz",
    "interval '-178000000 years'",
    "'NaN'::numeric",
    "'{\"a\": 1e400}'::jsonb",
    "('1' || repeat('0', 5000))::json",
    "'$1.00'::money",
    "'[1,)'::numrange",
    "'{[1,2)}'::int4multirange",
    "B'101'",
    "'a'::\"char\"",
    "ROW(1, NULL)",
    "'10.0.0.1/8'::inet",
    "'\\xff00'::bytea",
    "array['\\xff'::bytea]",
)


def test_no_value_is_too_odd_to_be_read(clone: WorldDatabase) -> None:
    for value in clone.query(f"SELECT {', '.join(ODD)}").rows[0]:
        assert isinstance(value, str)


def test_parameters_are_values(clone: WorldDatabase) -> None:
    found = clone.query("SELECT id, :name::text FROM orders WHERE id < :top ORDER BY id", {"top": 2, "name": "' ; --"})
    assert found.rows == ((1, "' ; --"),)


def test_time_memory_rows_and_bytes_are_limited(clone: WorldDatabase) -> None:
    started = time.monotonic()
    for sql, kind in (
        ("SELECT count(*) FROM generate_series(1, 10000000000)", DatabaseProblemKind.TOO_SLOW),
        ("SELECT repeat('x', 100000)", DatabaseProblemKind.INVALID_VALUE),
        ("SELECT length(repeat('x', 1000000000))", DatabaseProblemKind.TOO_SLOW),
        ("SELECT 1 / 0", DatabaseProblemKind.INVALID_VALUE),
    ):
        with pytest.raises(DatabaseProblem) as caught:
            clone.query(sql, limits=QueryLimits(time_s=0.5, bytes=1000))
        assert caught.value.kind is kind, sql
    assert time.monotonic() - started < 20
    found = clone.query("SELECT * FROM generate_series(1, 1000)", limits=QueryLimits(rows=120))
    assert (len(found.rows), found.truncated) == (120, True)


@pytest.mark.parametrize(
    "expression",
    [
        "translate(repeat('a', 200000), repeat('b', 100000), '')",
        "trim(both repeat('b', 100000) || 'a' from repeat('a', 200000))",
        "strpos(repeat('a', 4000000), 'b' || repeat('a', 1000000))",
        "position(convert_to('b' || repeat('a', 1000000), 'UTF8') in convert_to(repeat('a', 4000000), 'UTF8'))",
        "replace(repeat('a', 4000000), 'b' || repeat('a', 1000000), '')",
        "(SELECT array_agg(x) FROM generate_series(1, 200000) x) && (SELECT array_agg(-x) FROM generate_series(1, 200000) x)",
        "(SELECT array_agg(x) FROM generate_series(1, 200000) x) @> (SELECT array_agg(x) FROM generate_series(1, 200000) x)",
        "(SELECT jsonb_agg(i) FROM generate_series(1, 200000) i) @> (SELECT jsonb_agg(i) FROM generate_series(1, 200000) i)",
        "(SELECT jsonb_agg(i) FROM generate_series(1, 200000) i) - (SELECT array_agg(i::text) FROM generate_series(1, 200000) i)",
        "normalize(repeat(E'\\u0301\\u0323', 200000))",
        "polygon('(' || repeat('(0,0),', 99999) || '(1,1))') && polygon('(' || repeat('(5,0),', 99999) || '(1,9))')",
        "position(B'1' in B'01')",
        "XMLPARSE(CONTENT '<a/>')",
        "('{<a/>}')::xml[]",
        "wardian_plain_translate('a', 'b', 'c')",
        "pg_catalog.\"wardian_plain_replace\"('a', 'b', 'c')",
        "acldefault('r', 10)",
        "makeaclitem(10, 10, 'SELECT', false)",
        "'wardian_agents=r/wardian_owner'::aclitem",
        "satisfies_hash_partition(1259::oid, 2, 0, 1)",
        "(repeat('!', 30000) || 'a')::tsquery",
    ],
)
def test_what_no_limit_stops_or_what_breaks_nothing_of_ours_is_refused_at_once(clone: WorldDatabase, expression: str) -> None:
    with pytest.raises(DatabaseProblem) as caught:
        clone.query(f"SELECT ({expression}) IS NULL", limits=QueryLimits(time_s=30))
    assert caught.value.kind in (DatabaseProblemKind.FORBIDDEN, DatabaseProblemKind.INVALID_VALUE)
    assert clone.query("SELECT 1").rows == ((1,),)


def test_what_stands_in_a_functions_place_gives_the_same(clone: WorldDatabase) -> None:
    found = clone.query(
        "SELECT translate('abc', 'b', 'x'), trim('  a '), trim(both 'x' from 'xax'), position('b' in 'abc'), strpos('abc', 'z'),"
        " replace('abc', 'b', 'x'), split_part('a,b', ',', 2), string_to_array('a,b', ','), string_to_array('a,', ',', ''),"
        " string_to_array('ab', NULL), string_to_array(NULL, ',') IS NULL, replace('a', NULL, 'b') IS NULL,"
        " ARRAY[1, 2] @> ARRAY[1], ARRAY[1] <@ ARRAY[1, 2], ARRAY['a'] && ARRAY['b'], '{\"a\": 1}'::jsonb @> '{\"a\": 1}',"
        " normalize('a'), normalize('a', NFD), 'a' IS NORMALIZED, btrim('\\x0011'::bytea, '\\x00'::bytea),"
        " (SELECT count(*) FROM string_to_table('a,b', ',') AS one)"
    )
    assert found.columns[:4] == ("translate", "btrim", "btrim", "position")
    text = ("axc", "a", "a", 2, 0, "axc", "b", "{a,b}", "{a,NULL}", "{a,b}")
    assert found.rows == ((*text, True, True, True, True, False, True, "a", "a", True, "\\x11", 2),)


def test_neither_the_servers_settings_nor_the_shells_are_those_of_a_clone(
    postgres_url: str, shop_source: TemplateSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = Server.open(postgres_url)
    template = PostgresTemplate.build(shop_source, mine, spares=0)
    odd = {"standard_conforming_strings": "off", "default_transaction_read_only": "on", "DateStyle": "'SQL, DMY'"}
    with mine.admin() as admin:
        for name, value in odd.items():
            admin.execute(f"ALTER ROLE {mine.worker} SET {name} = {value}".encode())
    for name, value in (("PGTZ", "America/New_York"), ("PGDATESTYLE", "German"), ("PGCLIENTENCODING", "LATIN1")):
        monkeypatch.setenv(name, value)
    clone = template.clone()
    assert clone.query("SELECT '\\' || 'é', '02/01/2026'::date, since::text FROM customers WHERE id = 1").rows == (
        ("\\é", "2026-02-01", "2026-02-28 09:00:00+00"),
    )
    with clone.transaction() as session:
        session.execute(orders.update().values(total=1))
    assert clone.recompute() == clone.fingerprint()
    clone.close()
    template.close()
    mine.close()


def test_limits_hold_in_a_clone_though_no_template_hands_them_on(clone: PostgresDatabase) -> None:
    idle = "idle_in_transaction_session_timeout"
    for name, value in (("statement_timeout", "20s"), (idle, "2min"), ("TimeZone", "UTC"), ("search_path", "public"), ("jit", "off")):
        row = clone._copy.link.execute(f"SHOW {name}".encode()).fetchone()
        assert row is not None
        assert row[0] == value
    frozen = clone.freeze()
    with frozen.session():
        reader = clone._moment.reader
        assert reader is not None
        assert reader.execute(f"SHOW {idle}".encode()).fetchone() == ("0",), "a snapshot waits for its readers"
    frozen.close()


def test_the_schema_is_shown_without_what_is_ours(clone: WorldDatabase) -> None:
    assert clone.query("SELECT table_name FROM information_schema.tables ORDER BY 1").rows == (("customers",), ("lines",), ("orders",))
    found = clone.query(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'customers' ORDER BY ordinal_position"
    )
    assert found.rows[3:5] == (("since", "timestamp with time zone"), ("score", "double precision"))


@pytest.mark.parametrize(
    "expression",
    [
        "('n' || 'ow')::timestamptz",
        "CAST(:word AS timestamptz)",
        "CAST(:word AS date)",
        "concat('to', 'day')::date",
        "reverse('worromot')::timestamp",
        "lower('YESTERDAY')::date",
        "('n' || 'ow')::time",
        "('n' || 'ow')::timetz",
        "'{now}'::timestamptz[]",
        "('{n' || 'ow}')::timestamptz[]",
        "'[now,infinity]'::tstzrange",
        "tstzrange(('n' || 'ow')::timestamptz, NULL)",
        '(SELECT a FROM jsonb_to_recordset(\'[{"a": "now"}]\') AS x(a timestamptz))',
        '(SELECT a FROM json_to_recordset(\'[{"a": "now"}]\') AS x(a wardian_instant))',
        '(jsonb_populate_record(NULL::customers, \'{"since": "now"}\')).since',
        "'(1,Ada,true,now,,)'::customers",
        "age(timestamptz '2020-01-01')",
        "age(timestamp '2020-01-01')",
        "'12:00+00'::timetz AT TIME ZONE 'America/New_York'",
        "clock_timestamp()",
        "statement_timestamp()",
        "transaction_timestamp()",
        "timeofday()",
        "pg_catalog.now()",
        "LOCALTIME(0)",
        "'orders'::regclass::oid",
        "'{orders}'::_regclass",
        "CAST('wardian_tools' AS \"regrole\")::oid",
        "pg_typeof(1)::oid",
        "txid_current()",
        "version()",
    ],
)
def test_no_disguise_of_the_hosts_time_or_numbers_is_let_through(clone: WorldDatabase, expression: str) -> None:
    with pytest.raises(DatabaseProblem):
        clone.query(f"SELECT {expression}", {"word": "now"})
    sql = expression.replace(":word", "('n' || 'ow')")
    with pytest.raises(DatabaseProblem), clone.transaction() as session:
        session.connection().exec_driver_sql(f"SELECT {sql}")


def test_times_of_the_world_can_be_worked_with(clone: WorldDatabase) -> None:
    found = clone.query(
        "SELECT since::date, date_trunc('month', since), since + interval '1 day', extract(year FROM since)::int, since AT TIME ZONE"
        " 'America/New_York', timestamptz '2026-03-29 02:30:00 EST', to_char(since, 'Day'), '10:00 UTC'::timetz,"
        " age(since, '2026-01-01') FROM customers WHERE id = 1"
    )
    assert found.rows[0][:4] == ("2026-02-28", "2026-02-01T00:00:00.000Z", "2026-03-01T09:00:00.000Z", 2026)
    assert found.rows[0][5] == "2026-03-29T07:30:00.000Z"
