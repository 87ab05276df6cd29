"""The agent's own SQL: what it may read, what is refused, and that the database is usable and unchanged after each."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from wardian.sandbox.database.base import QueryLimits, WorldDatabase
from wardian.sandbox.errors import DatabaseProblem, DatabaseProblemKind

CROSS = "SELECT count(*) FROM " + ", ".join(f"lines l{i}, orders o{i}, customers c{i}" for i in range(4))
ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"


@pytest.fixture(autouse=True)
def unchanged(database: WorldDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing that is asked in this module may change rows, leave a file, or break the connection."""
    monkeypatch.chdir(tmp_path)
    before = database.fingerprint()
    yield
    assert database.recompute() == before == database.fingerprint()
    assert database.query("SELECT count(*) FROM customers").rows == ((3,),)
    assert os.listdir(tmp_path) == []
    with database.transaction() as session:
        assert session.connection().exec_driver_sql("SELECT count(*) FROM orders").scalar() == 7


def refused(database: WorldDatabase, sql: str, limits: QueryLimits | None = None) -> DatabaseProblem:
    with pytest.raises(DatabaseProblem) as caught:
        database.query(sql, limits=limits)
    return caught.value


def test_a_select_gives_columns_and_rows(database: WorldDatabase) -> None:
    found = database.query("SELECT id, name AS who, active, since FROM customers WHERE id < :top ORDER BY id", {"top": 3})
    assert found.columns == ("id", "who", "active", "since")
    assert found.rows == ((1, "Ada", 1, "2026-02-28T09:00:00.000Z"), (2, "Bela", 0, "2026-02-27T09:00:00.000Z"))
    assert not found.truncated


@pytest.mark.parametrize(
    "sql",
    [
        "/* x */ VACUUM INTO 'x.db'",
        ";VACUUM INTO 'w.db'",
        "-- c\nATTACH DATABASE 'y.db' AS y",
        "DETACH DATABASE main",
        "WITH x AS (SELECT 1) DELETE FROM customers WHERE id < 2",
        "WITH x AS (SELECT 1) INSERT INTO customers(id, name, active) SELECT 9, 'z', 1",
        "DELETE FROM customers RETURNING id",
        "EXPLAIN DELETE FROM customers",
        "UPDATE orders SET total = 0",
        "REPLACE INTO orders VALUES (1, 1, 1)",
        "DROP TABLE orders",
        "CREATE TABLE t(x)",
        "CREATE TEMP TABLE t(x)",
        "ALTER TABLE orders RENAME TO o",
        "PRAGMA query_only = OFF",
        "PRAGMA writable_schema = ON",
        "PRAGMA journal_mode = WAL",
        "PRAGMA recursive_triggers = OFF",
        "PRAGMA foreign_keys = OFF",
        "BEGIN",
        "COMMIT",
        "SAVEPOINT s",
        "SELECT load_extension('x')",
        "SELECT readfile('/etc/passwd')",
        "SELECT writefile('x', 'y')",
        "SELECT edit('x')",
        "SELECT fts3_tokenizer('simple')",
        "SELECT wardian_added(0, 0, 1, 'x', 1, '', 0, '')",
        "SELECT * FROM wardian_mark",
        "SELECT * FROM wardian_sequences",
        "SELECT * FROM 'sqlite_master'",
        "SELECT * FROM sqlite_stmt",
        "SELECT * FROM dbstat",
        "SELECT * FROM sqlite_temp_master",
        "SELECT 1; SELECT 2",
        "SELECT 1;;;SELECT 2",
        "SELECT 1; -- fine\n DROP TABLE orders",
        "SELECT changes(), last_insert_rowid()",
        "CREATE VIRTUAL TABLE v USING fts5(x)",
        "ANALYZE",
        "REINDEX",
    ],
)
def test_what_is_no_reading_is_forbidden(database: WorldDatabase, sql: str) -> None:
    assert refused(database, sql).kind in (DatabaseProblemKind.FORBIDDEN, DatabaseProblemKind.SYNTAX)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT random()",
        "SELECT hex(randomblob(4))",
        "SELECT CURRENT_TIMESTAMP",
        "SELECT current_date",
        "SELECT datetime('now')",
        "SELECT date('n' || 'ow')",
        "SELECT date()",
        "SELECT strftime('%Y')",
        "SELECT strftime('%Y', ' NOW ')",
        "SELECT unixepoch('now', '-1 day')",
        "SELECT datetime('2026-01-01', 'localtime')",
    ],
)
def test_what_has_no_fixed_result_is_forbidden(database: WorldDatabase, sql: str) -> None:
    assert refused(database, sql).kind is DatabaseProblemKind.FORBIDDEN


def test_dates_of_the_world_can_be_worked_with(database: WorldDatabase) -> None:
    sql = "SELECT date(since, '+1 day'), strftime('%Y-%m', since), julianday(since) FROM customers WHERE id = 1"
    assert database.query(sql).rows == (("2026-03-01", "2026-02", 2461099.875),)


@pytest.mark.parametrize("sql", ["", "  ", ";", "-- nothing", "/* open", "selec 1", "SELECT FROM", "SELECT 'open", "SELECT no FROM orders"])
def test_what_is_no_sql_is_a_syntax_problem(database: WorldDatabase, sql: str) -> None:
    assert refused(database, sql).kind is DatabaseProblemKind.SYNTAX


@pytest.mark.parametrize("sql", ["SELECT \x00 1", "SELECT '\ud800'", "SELECT " + "1," * 40_000 + "1"])
def test_what_is_no_text_is_a_syntax_problem(database: WorldDatabase, sql: str) -> None:
    assert refused(database, sql).kind is DatabaseProblemKind.SYNTAX


def test_a_double_quoted_name_is_never_a_string(database: WorldDatabase) -> None:
    assert "no such column" in str(refused(database, 'SELECT "no_such_col" FROM customers'))
    assert refused(database, 'SELECT 1 FROM customers WHERE name = "Ada"').kind is DatabaseProblemKind.SYNTAX
    found = database.query('SELECT "name" AS "a ""b`" FROM "customers" AS "c" WHERE "c"."id" = 1 ORDER BY "a ""b`"')
    assert (found.columns, found.rows) == (('a "b`',), (("Ada",),))


def test_quotes_inside_strings_and_comments_are_left_alone(database: WorldDatabase) -> None:
    assert database.query("SELECT 'a \"b\" ; -- c', 'it''s' /* \"x ; */ -- ; \" \n;  ").rows == (('a "b" ; -- c', "it's"),)


def test_the_schema_is_readable_without_what_is_ours(database: WorldDatabase) -> None:
    names = {row[0] for row in database.query('SELECT name FROM "sqlite_master"').rows}
    assert {"customers", "orders", "lines"} <= names
    assert None not in names
    assert not [name for name in names if "wardian" in str(name)]
    assert database.query("SELECT count(*) FROM main.sqlite_schema WHERE sql LIKE '%wardian%'").rows == ((0,),)
    assert [row[1] for row in database.query("PRAGMA table_info(orders)").rows] == ["id", "customer_id", "total"]
    assert database.query("SELECT count(*) FROM pragma_table_info('orders')").rows == ((3,),)
    assert database.query("SELECT e.value FROM customers c, json_each(c.extra) e WHERE c.id = 1").rows == ((7,),)


@pytest.mark.parametrize("sql", [ENDLESS, CROSS])
def test_endless_work_is_stopped_at_the_same_place_everywhere(database: WorldDatabase, sql: str) -> None:
    problem = refused(database, sql, QueryLimits(time_s=60.0, steps=100_000))
    assert problem.kind is DatabaseProblemKind.TOO_SLOW
    assert "too much work" in str(problem)


def test_time_is_limited_too(database: WorldDatabase) -> None:
    started = time.monotonic()
    problem = refused(database, ENDLESS, QueryLimits(time_s=0.05, steps=10**12))
    assert problem.kind is DatabaseProblemKind.TOO_SLOW
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT length(zeroblob(500000000))",
        "SELECT replace(printf('%.*c', 60000, 'x'), 'x', 'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy')",
        "WITH RECURSIVE d(x) AS (SELECT 'xx' UNION ALL SELECT x || x FROM d) SELECT max(length(x)) FROM d",
        "SELECT 'a' LIKE printf('%.*c', 60000, '%')",
        "SELECT 'a' GLOB printf('%.*c', 60000, '*')",
        "SELECT sum(9223372036854775807) FROM customers",
        "SELECT abs(-9223372036854775807 - 1)",
        "SELECT json_extract('{', '$.a')",
    ],
)
def test_bombs_are_refused_in_no_time(database: WorldDatabase, sql: str) -> None:
    started = time.monotonic()
    assert refused(database, sql).kind in (DatabaseProblemKind.INVALID_VALUE, DatabaseProblemKind.SYNTAX)
    assert time.monotonic() - started < 2


def test_a_value_that_no_limit_lets_be_made_is_null(database: WorldDatabase) -> None:
    assert database.query("SELECT printf('%.*c', 500000000, 'x'), printf('%0500000000d', 1)").rows == ((None, None),)


COPIED = ", ".join(f"c{i} AS (SELECT a.x FROM c{i - 1} a, c{i - 1} b)" for i in range(1, 40))
SUBSTITUTED = ", ".join(f'c{i}(x) AS (SELECT x + x FROM "C{i - 1}")' for i in range(1, 40))


@pytest.mark.parametrize(
    "sql",
    [
        f"WITH c0 AS (SELECT 1 x), {COPIED} SELECT * FROM c39",
        f"WITH c0 AS (SELECT 1 x), {COPIED} SELECT * FROM c18",
        f"WITH c0(x) AS (SELECT 1), {SUBSTITUTED} SELECT * FROM c39",
        "WITH a AS (" * 30 + "SELECT 1 x" + ") SELECT m.x FROM a m, 'a' n" * 30,
        "SELECT x+x+x+x+x+x+x+x x FROM (" * 12 + "SELECT total x FROM orders" + ")" * 12,
    ],
)
def test_statements_that_multiply_are_refused_in_no_time(database: WorldDatabase, sql: str) -> None:
    started = time.monotonic()
    assert refused(database, sql).kind is DatabaseProblemKind.TOO_SLOW
    assert time.monotonic() - started < 2


def test_an_ordinary_report_is_not_refused(database: WorldDatabase) -> None:
    sql = """
        WITH spent AS (SELECT customer_id, sum(total) AS total, count(*) AS orders FROM orders GROUP BY customer_id),
             best AS (SELECT customer_id, total FROM spent WHERE total = (SELECT max(total) FROM spent)),
             named AS (SELECT c.name, s.total, s.orders FROM spent s JOIN customers c ON c.id = s.customer_id)
        SELECT n.name, n.total, n.orders, CASE WHEN n.total > 500 THEN 'big' WHEN n.total > 100 THEN 'small' ELSE 'none' END AS size
        FROM named n JOIN customers c ON c.name = n.name LEFT JOIN best b ON b.customer_id = c.id ORDER BY n.total DESC, n.name
    """
    assert database.query(sql).rows == (("Bela", 1200, 3, "big"), ("Ada", 900, 2, "big"), ("Chen", 700, 2, "big"))


def test_rows_and_bytes_are_capped(database: WorldDatabase) -> None:
    found = database.query("SELECT number FROM lines ORDER BY number", limits=QueryLimits(rows=4))
    assert (found.rows, found.truncated) == (((0,), (1,), (2,), (3,)), True)
    assert not database.query("SELECT number FROM lines", limits=QueryLimits(rows=10)).truncated
    found = database.query("SELECT printf('%.*c', 400, 'é') FROM lines", limits=QueryLimits(bytes=1000))
    assert (len(found.rows), found.truncated) == (1, True)


def test_every_kind_of_value_has_one_form(database: WorldDatabase) -> None:
    sql = "SELECT NULL, 1, 2.5, -0.0, x'00ff', 9e999, -9e999, 9e999 - 9e999, 'é', CAST(x'ff41' AS TEXT)"
    assert database.query(sql).rows == ((None, 1, 2.5, 0.0, "\\x00ff", "Infinity", "-Infinity", None, "é", "�A"),)
    assert str(database.query("SELECT -0.0").rows[0][0]) == "0.0"


def test_bad_parameters_are_problems(database: WorldDatabase) -> None:
    for values in ({}, {"x": 2**63}, {"x": "\ud800"}):
        with pytest.raises(DatabaseProblem):
            database.query("SELECT :x", values)


def test_a_tool_keeps_its_rights_after_a_query(database: WorldDatabase) -> None:
    for _ in range(2):
        with database.transaction() as session:
            session.connection().exec_driver_sql("UPDATE orders SET total = total")
        assert refused(database, "UPDATE orders SET total = total").kind is DatabaseProblemKind.FORBIDDEN
