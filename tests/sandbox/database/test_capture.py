"""The fingerprint that is kept step by step is always that of the rows, whatever was done and undone."""

from typing import Any, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy.orm import Session

from wardian.sandbox.database.base import Scalar, WorldDatabase
from wardian.sandbox.database.rows import TableShape, summed
from wardian.sandbox.database.sqlite import SqliteTemplate

Statement: TypeAlias = tuple[str, tuple[Any, ...]]
ids = st.integers(0, 9)
names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=3)
scores = st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-5, 5).map(float)
statements = st.one_of(
    st.tuples(st.just("INSERT INTO customers(id, name, active, score) VALUES (?, ?, 1, ?)"), st.tuples(ids, names, scores)),
    st.tuples(st.just("REPLACE INTO customers(id, name, active, score) VALUES (?, ?, 0, ?)"), st.tuples(ids, names, scores)),
    st.tuples(st.just("INSERT OR IGNORE INTO customers(id, name, active) VALUES (?, ?, 0), (?, ?, 1)"), st.tuples(ids, names, ids, names)),
    st.tuples(st.just("INSERT OR FAIL INTO customers(id, name, active) VALUES (?, ?, 0), (?, ?, 1)"), st.tuples(ids, names, ids, names)),
    st.tuples(st.just("UPDATE OR REPLACE customers SET id = ?, name = ? WHERE id = ?"), st.tuples(ids, names, ids)),
    st.tuples(st.just("UPDATE customers SET id = id + ? WHERE id > ?"), st.tuples(ids, ids)),
    st.tuples(st.just("UPDATE customers SET name = ? WHERE id > ?"), st.tuples(names, ids)),
    st.tuples(st.just("DELETE FROM customers WHERE id = ?"), st.tuples(ids)),
    st.tuples(
        st.just("INSERT INTO orders VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET total = total + 1"),
        st.tuples(ids, ids, st.integers(-(2**63), 2**63 - 2)),
    ),
    st.tuples(st.just("UPDATE OR IGNORE orders SET id = ? WHERE customer_id = ?"), st.tuples(ids, ids)),
    st.tuples(st.just("INSERT INTO lines VALUES (?, ?, ?)"), st.tuples(ids, ids, names)),
    st.tuples(st.just("DELETE FROM lines WHERE number > ?"), st.tuples(ids)),
)
parts = st.lists(st.tuples(st.sampled_from(["plain", "kept", "undone"]), st.lists(statements, max_size=4)), max_size=3)
calls = st.lists(st.tuples(st.booleans(), parts), max_size=4)


class Undo(Exception):
    """Ends a call, so that it is rolled back."""


@settings(max_examples=150, deadline=None)
@given(calls)
def test_incremental_is_recomputed(shop: SqliteTemplate, calls: list[tuple[bool, list[tuple[str, list[Statement]]]]]) -> None:
    database = shop.clone()
    rows = _rows(database)
    for kept, parts in calls:
        before = database.fingerprint()
        try:
            with database.transaction() as session:
                for mode, sequence in parts:
                    _part(session, mode, sequence)
                if not kept:
                    raise Undo
        except Undo:
            assert database.fingerprint() == before
        assert database.fingerprint() == database.recompute()
        rows = _changed(rows, database)
        assert rows == _rows(database)
    start = shop.clone()
    assert _applied(_rows(start), database.changes_since_start()) == rows
    start.close()
    database.close()


def _part(session: Session, mode: str, sequence: list[Statement]) -> None:
    nested = session.begin_nested() if mode != "plain" else None
    for sql, values in sequence:
        try:
            session.connection().exec_driver_sql(sql, values)
        except Exception as error:
            if "constraint" not in str(error).lower() and "cannot store" not in str(error) and "overflow" not in str(error):
                raise
    if nested is not None:
        nested.commit() if mode == "kept" else nested.rollback()


def _rows(database: WorldDatabase) -> dict[Any, Any]:
    found = {}
    for table, key in (("customers", 1), ("orders", 1), ("lines", 2)):
        answer = database.query(f"SELECT * FROM {table}")
        for row in answer.rows:
            found[table, row[:key]] = {name: _canonical(name, value) for name, value in zip(answer.columns, row, strict=True)}
    return found


def _canonical(name: str, value: Any) -> Scalar:
    if name == "active":
        return bool(value)
    return repr(value) if isinstance(value, float) else value


def _changed(rows: dict[Any, Any], database: WorldDatabase) -> dict[Any, Any]:
    return _applied(rows, database.take_changes())


def _applied(rows: dict[Any, Any], changes: Any) -> dict[Any, Any]:
    rows = dict(rows)
    for change in changes:
        assert rows.get((change.table, change.key)) == change.before
        if change.after is None:
            del rows[change.table, change.key]
        else:
            rows[change.table, change.key] = change.after
    return rows


@given(st.permutations(range(6)))
def test_a_sum_does_not_depend_on_order(order: list[int]) -> None:
    shape = TableShape("t", ("id", "x"), (0,))
    assert summed(shape, [(i, "x") for i in order]) == summed(shape, [(i, "x") for i in range(6)])


def test_values_of_different_kinds_are_different_rows() -> None:
    shape = TableShape("t", ("id", "x"), (0,))
    values = (None, 0, 0.0, "0", False, b"0", "", "None", "null", '{"bytes":"30"}')
    assert len({shape.digest((1, value)) for value in values}) == len(values)


def test_equal_rows_by_another_way_are_an_equal_state(shop: SqliteTemplate, database: WorldDatabase) -> None:
    with database.transaction() as session:
        raw = session.connection()
        raw.exec_driver_sql("INSERT INTO customers(id, name, active) VALUES (50, 'x', 1)")
        raw.exec_driver_sql("DELETE FROM customers WHERE id = 50")
        raw.exec_driver_sql("UPDATE lines SET number = number + 100")
    with database.transaction() as session:
        session.connection().exec_driver_sql("UPDATE lines SET number = number - 100")
    assert database.fingerprint() == shop.fingerprint == database.recompute()
