"""Whatever a call does, both engines have the same fingerprint and the same changes after it."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from wardian.sandbox.database.base import WorldDatabase
from wardian.sandbox.database.postgres.template import PostgresTemplate
from wardian.sandbox.database.sqlite import SqliteTemplate

ids = st.integers(0, 9)
words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=3)
scores = st.none() | st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)
SQL = (
    "INSERT INTO customers(id, name, active, score) VALUES (:a, :w, true, :s)",
    "INSERT INTO customers(id, name, active) VALUES (:a, :w, true) ON CONFLICT (id) DO UPDATE SET name = excluded.name, active = false",
    "UPDATE customers SET name = :w, score = :s WHERE id > :a",
    "UPDATE customers SET id = :b WHERE id = :a",
    "DELETE FROM customers WHERE id = :a",
    "INSERT INTO orders VALUES (:a, :b, :c) ON CONFLICT (id) DO UPDATE SET total = orders.total + 1",
    "UPDATE orders SET id = id + 100 WHERE id = :a",
    "UPDATE orders SET customer_id = :b WHERE customer_id = :a",
    "INSERT INTO lines VALUES (:a, :b, :w)",
    "UPDATE lines SET number = number + 50 WHERE order_id = :a",
    "DELETE FROM lines WHERE number > :a",
    "DELETE FROM orders",
)
values = st.fixed_dictionaries({"a": ids, "b": ids, "c": st.integers(-(2**63), 2**63 - 2), "w": words, "s": scores})
statements = st.tuples(st.sampled_from(SQL), values)
calls = st.lists(st.tuples(st.booleans(), st.lists(statements, max_size=5)), max_size=4)


class Undo(Exception):
    """Ends a call, so that it is rolled back."""


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls)
def test_engines_agree_after_every_call(shop: SqliteTemplate, postgres_shop: PostgresTemplate, calls: Any) -> None:
    one, other = shop.clone(), postgres_shop.clone()
    for kept, sequence in calls:
        assert _called(one, kept, sequence) == _called(other, kept, sequence)
        assert one.fingerprint() == other.fingerprint() == other.recompute()
        assert one.take_changes() == other.take_changes()
    assert one.changes_since_start() == other.changes_since_start()
    one.close()
    other.close()


def _called(database: WorldDatabase, kept: bool, sequence: Any) -> list[bool]:
    """Run a call, each statement in a savepoint of its own; which of them the engine took."""
    taken = []
    try:
        with database.transaction() as session:
            for sql, bound in sequence:
                nested = session.begin_nested()
                try:
                    session.execute(text(sql), {name: value for name, value in bound.items() if f":{name}" in sql})
                    nested.commit()
                    taken.append(True)
                except DBAPIError:
                    nested.rollback()
                    taken.append(False)
            if not kept:
                raise Undo
    except Undo:
        pass
    return taken
