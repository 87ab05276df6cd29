"""An agent's own writing statement inside a call, and reads of a frozen copy, the same on both engines."""

import pytest

from wardian.sandbox.database import QueryLimits, WorldDatabase, Written
from wardian.sandbox.database.base import Rows
from wardian.sandbox.errors import DatabaseProblem, DatabaseProblemKind

from .conftest import both


def execute(database: WorldDatabase, *statements: str, limits: QueryLimits | None = None) -> Written:
    with database.transaction() as session:
        return [database.execute(session, sql, limits) for sql in statements][-1]


@both
@pytest.mark.parametrize(
    ("sql", "count", "changed"),
    [
        ("UPDATE orders SET total = total + 1 WHERE id <= 2", 2, 2),
        ("INSERT INTO orders (id, customer_id, total) VALUES (50, 1, 5), (51, 2, 6);", 2, 2),
        ("DELETE FROM orders WHERE id = 1", 1, 3),  # and its lines with it
        ("WITH few AS (SELECT id FROM orders WHERE id < 3) UPDATE orders SET total = 9 WHERE id IN (SELECT id FROM few)", 2, 2),
        ("UPDATE orders SET total = 1 WHERE id = 999", 0, 0),
    ],
)
def test_a_writing_statement_counts_its_rows(database: WorldDatabase, sql: str, count: int, changed: int) -> None:
    assert execute(database, sql) == Written(count)
    assert len(database.take_changes()) == changed
    assert database.fingerprint() == database.recompute()


@both
def test_returned_rows_are_capped(database: WorldDatabase) -> None:
    written = execute(database, "DELETE FROM lines RETURNING number AS n", limits=QueryLimits(rows=3))
    assert written.count == 10
    assert written.returned is not None
    assert (written.returned.columns, len(written.returned.rows), written.returned.truncated) == (("n",), 3, True)


@both
@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELECT 1", DatabaseProblemKind.FORBIDDEN),
        ("WITH x AS (SELECT 1 AS a) SELECT a FROM x", DatabaseProblemKind.FORBIDDEN),
        ("DROP TABLE orders", DatabaseProblemKind.FORBIDDEN),
        ("CREATE TABLE mine (id INTEGER)", DatabaseProblemKind.FORBIDDEN),
        ("COMMIT", DatabaseProblemKind.FORBIDDEN),
        ("DELETE FROM lines; DELETE FROM orders", DatabaseProblemKind.FORBIDDEN),
        ("DELETE FROM wardian_sequences", DatabaseProblemKind.FORBIDDEN),
        ("UPDATE customers SET name = CURRENT_TIMESTAMP WHERE id = 1", DatabaseProblemKind.FORBIDDEN),
        ("UPDATE orders SET customer_id = 99 WHERE id = 1", DatabaseProblemKind.CONSTRAINT),
        ("UPDATE no_such_table SET x = 1", DatabaseProblemKind.SYNTAX),
        ("UPDATE orders SET total = :new WHERE id = 1", DatabaseProblemKind.SYNTAX),
        ("", DatabaseProblemKind.SYNTAX),
    ],
)
def test_what_is_no_change_of_rows_is_refused_and_leaves_nothing(database: WorldDatabase, sql: str, kind: DatabaseProblemKind) -> None:
    before = database.fingerprint()
    with pytest.raises(DatabaseProblem) as caught:
        execute(database, "UPDATE orders SET total = 0 WHERE id = 1", sql)
    assert caught.value.kind is kind
    assert database.fingerprint() == before == database.recompute()


@both
def test_a_statement_that_never_ends_is_stopped(database: WorldDatabase) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) UPDATE orders SET total = (SELECT max(i) FROM n)"
    with pytest.raises(DatabaseProblem) as caught:
        execute(database, endless, limits=QueryLimits(time_s=0.3, steps=500_000))
    assert caught.value.kind is DatabaseProblemKind.TOO_SLOW
    assert execute(database, "UPDATE orders SET total = 4 WHERE id = 1").count == 1


@both
def test_a_statement_that_changes_too_many_rows_is_stopped(database: WorldDatabase) -> None:
    before = database.fingerprint()
    with pytest.raises(DatabaseProblem, match="rows") as caught:
        execute(database, "DELETE FROM customers", limits=QueryLimits(changes=12))  # and all that refers to them
    assert caught.value.kind is DatabaseProblemKind.TOO_SLOW
    assert database.fingerprint() == before == database.recompute()
    assert execute(database, "DELETE FROM customers", limits=QueryLimits(changes=50)).count == 3


@both
def test_a_frozen_copy_answers_reads_alone(database: WorldDatabase) -> None:
    frozen = database.freeze()
    execute(database, "UPDATE orders SET total = 7 WHERE id = 1")
    sql = "SELECT total FROM orders WHERE id = 1"
    assert frozen.query(sql) == Rows(("total",), ((100,),))
    for wrong in ("DELETE FROM orders", "SELECT nothing FROM orders", "SELECT 1; SELECT 2"):
        with pytest.raises(DatabaseProblem):
            frozen.query(wrong)
    assert frozen.query(sql).rows == ((100,),)
    assert database.query(sql).rows == ((7,),)
    frozen.close()
    with pytest.raises(RuntimeError, match="closed"):
        frozen.query(sql)


@both
def test_words_of_a_refusal_are_the_same_in_every_process(database: WorldDatabase) -> None:
    with pytest.raises(DatabaseProblem) as caught:
        database.query("done")
    assert "SELECT, WITH" in str(caught.value)
