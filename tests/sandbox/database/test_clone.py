"""A clone: one call is one transaction, ids, changes, frozen copies, and what closing gives back."""

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from wardian.sandbox.database.base import RowChange, Template, TemplateSource, WorldDatabase
from wardian.sandbox.database.sqlite import SqliteTemplate
from wardian.sandbox.errors import DatabaseProblem, DatabaseProblemKind

from .conftest import both, customers, lines, orders


def run(session: Session, sql: str, *values: Any) -> None:
    session.connection().exec_driver_sql(sql, values)


@both
def test_a_clone_has_the_fingerprint_of_its_template(template: Template, database: WorldDatabase) -> None:
    assert database.fingerprint() == template.fingerprint == database.recompute()
    assert set(template.fingerprint.leaves) == {"customers", "orders", "lines", "(ids)"}
    assert database.template_key == template.key


@both
def test_a_clone_never_sees_what_another_did(template: Template, database: WorldDatabase) -> None:
    with database.transaction() as session:
        session.execute(lines.delete())
    other = template.clone()
    assert other.fingerprint() == template.fingerprint == other.recompute()
    other.close()


@both
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit, SystemExit])
def test_whatever_is_raised_undoes_the_call(database: WorldDatabase, error: type[BaseException]) -> None:
    before = database.fingerprint()
    with pytest.raises(error), database.transaction() as session:  # noqa: PT012 - what is undone happens in it
        session.execute(orders.update().values(total=0))
        database.allocate_id(session, "orders")
        raise error
    assert database.fingerprint() == before == database.recompute()
    assert database.take_changes() == ()


@both
def test_a_call_whose_last_write_fails_is_undone(database: WorldDatabase) -> None:
    before = database.fingerprint()
    with pytest.raises(DatabaseProblem) as caught, database.transaction() as session:  # noqa: PT012 - what is undone happens in it
        session.execute(orders.update().values(total=0))
        session.execute(customers.insert().values(id=9, name="Ada", active=True))
    assert caught.value.kind is DatabaseProblemKind.CONSTRAINT
    assert database.fingerprint() == before == database.recompute()


@both
def test_foreign_keys_hold(database: WorldDatabase) -> None:
    with pytest.raises(DatabaseProblem) as caught, database.transaction() as session:
        session.execute(orders.insert().values(id=9, customer_id=77, total=1))
    assert caught.value.kind is DatabaseProblemKind.CONSTRAINT


def test_a_fault_of_the_author_stays_what_it_is(database: WorldDatabase) -> None:
    with pytest.raises(OperationalError, match="no such table"), database.transaction() as session:
        session.execute(text("SELECT * FROM nowhere"))
    with database.transaction() as session:
        assert session.scalar(select(orders.c.total).where(orders.c.id == 1)) == 100


def test_a_statement_that_fails_midway_and_is_caught_leaves_no_trace(database: WorldDatabase) -> None:
    with database.transaction() as session:
        raw = session.connection()
        with pytest.raises(Exception, match="UNIQUE"):
            raw.exec_driver_sql("UPDATE customers SET name = 'same'")
        raw.exec_driver_sql("UPDATE orders SET total = 1 WHERE id = 1")
    assert database.fingerprint() == database.recompute()
    assert [(change.table, change.key) for change in database.take_changes()] == [("orders", (1,))]


def test_rows_before_a_failure_that_keeps_them_are_counted(database: WorldDatabase) -> None:
    with database.transaction() as session, pytest.raises(Exception, match="UNIQUE"):
        run(session, "INSERT OR FAIL INTO customers(id, name, active) VALUES (8, 'h', 1), (9, 'Ada', 1)")
    assert database.fingerprint() == database.recompute()
    assert [change.key for change in database.take_changes()] == [(8,)]


@both
def test_a_savepoint_undoes_its_part(database: WorldDatabase) -> None:
    with database.transaction() as session:
        session.execute(orders.update().where(orders.c.id == 1).values(total=1))
        nested = session.begin_nested()
        session.execute(orders.update().where(orders.c.id == 2).values(total=2))
        nested.rollback()
    assert database.fingerprint() == database.recompute()
    assert [change.key for change in database.take_changes()] == [(1,)]


@both
def test_a_call_cannot_end_its_own_transaction(database: WorldDatabase) -> None:
    before = database.fingerprint()
    for end in (Session.commit, Session.rollback):
        with pytest.raises(RuntimeError, match="one transaction"), database.transaction() as session:  # noqa: PT012 - what is undone happens in it
            session.execute(orders.update().values(total=0))
            getattr(session, end.__name__)()
    for sql in ("COMMIT", "ROLLBACK", "END", "BEGIN"):
        with pytest.raises(DatabaseProblem) as caught, database.transaction() as session:  # noqa: PT012 - what is undone happens in it
            session.execute(orders.update().values(total=0))
            run(session, sql)
        assert caught.value.kind is DatabaseProblemKind.FORBIDDEN
    with pytest.raises(ValueError), database.transaction() as session:  # noqa: PT012 - what is undone happens in it
        session.execute(orders.update().values(total=0))
        session.connection().commit()
        raise ValueError
    assert database.fingerprint() == before == database.recompute()


@pytest.mark.parametrize(
    "sql",
    [
        "ATTACH DATABASE 'x.db' AS x",
        "VACUUM",
        "VACUUM INTO 'x.db'",
        "PRAGMA foreign_keys = OFF",
        "PRAGMA recursive_triggers = OFF",
        "PRAGMA writable_schema = ON",
        "CREATE TABLE x(y)",
        "CREATE TEMP TABLE x(y)",
        "DROP TABLE orders",
        "DROP TRIGGER wardian_update_0",
        "ALTER TABLE orders ADD COLUMN x",
        "UPDATE sqlite_master SET sql = ''",
        "UPDATE wardian_mark SET n = 0",
        "DELETE FROM wardian_sequences",
        "SELECT wardian_added(0, 0, 1, 2, 3)",
        "SELECT load_extension('x')",
        "SELECT random()",
        "SELECT CURRENT_TIMESTAMP",
    ],
)
def test_the_tool_role_owns_the_rows_and_nothing_else(database: WorldDatabase, sql: str) -> None:
    before = database.fingerprint()
    with pytest.raises(DatabaseProblem) as caught, database.transaction() as session:
        run(session, sql)
    assert caught.value.kind is DatabaseProblemKind.FORBIDDEN
    assert database.fingerprint() == before == database.recompute()
    assert not os.path.exists("x.db")


@both
def test_transactions_do_not_nest_and_hide_nothing_unfinished(database: WorldDatabase) -> None:
    with database.transaction() as session:
        for call in (database.transaction, database.freeze, database.recompute, database.close):
            with pytest.raises(RuntimeError, match="open"):
                _enter(call())
        with pytest.raises(RuntimeError, match="open"):
            database.query("SELECT 1")
        session.execute(orders.update().values(total=3))
    assert len(database.take_changes()) == 7


def _enter(found: Any) -> None:
    found.__enter__()


@both
def test_an_id_that_was_rolled_back_is_given_again(database: WorldDatabase) -> None:
    with pytest.raises(ValueError), database.transaction() as session:  # noqa: PT012 - what is undone happens in it
        assert database.allocate_id(session, "orders") == 8
        raise ValueError
    with database.transaction() as session:
        assert [database.allocate_id(session, "orders") for _ in range(2)] == [8, 9]


@both
def test_an_id_is_never_given_twice(database: WorldDatabase) -> None:
    with database.transaction() as session:
        session.execute(orders.insert().values(id=100, customer_id=1, total=1))
        assert database.allocate_id(session, "orders") == 101
    with database.transaction() as session:
        session.execute(orders.delete())
        assert database.allocate_id(session, "orders") == 102


@both
def test_ids_given_out_are_state_but_no_row_changes(database: WorldDatabase) -> None:
    before = database.fingerprint()
    with database.transaction() as session:
        database.allocate_id(session, "orders")
    assert [line.split(":")[0] for line in database.fingerprint().differences(before)] == ["(ids)"]
    assert database.fingerprint() == database.recompute()
    assert database.take_changes() == () == database.changes_since_start()


@both
def test_ids_need_a_table_with_one_key_and_the_running_session(database: WorldDatabase) -> None:
    with database.transaction() as session:
        for table in ("lines", "nothing", "wardian_mark"):
            with pytest.raises(ValueError, match=table):
                database.allocate_id(session, table)
    with pytest.raises(RuntimeError, match="running transaction"):
        database.allocate_id(session, "orders")


@both
def test_changes_are_net(database: WorldDatabase) -> None:
    with database.transaction() as session:
        session.execute(orders.insert().values(id=50, customer_id=1, total=1))
        session.execute(orders.update().where(orders.c.id == 1).values(total=5))
    first = {"id": 1, "customer_id": 2, "total": 100}
    added = RowChange("orders", (50,), None, {"id": 50, "customer_id": 1, "total": 1})
    assert database.take_changes() == (RowChange("orders", (1,), first, {**first, "total": 5}), added)
    with database.transaction() as session:
        session.execute(orders.delete().where(orders.c.id == 50))
        session.execute(orders.update().where(orders.c.id == 1).values(total=100))
    assert [(change.key, change.after) for change in database.take_changes()] == [((1,), first), ((50,), None)]
    assert database.changes_since_start() == () == database.take_changes()


def test_cascades_replacements_and_new_keys_are_changes(database: WorldDatabase) -> None:
    with database.transaction() as session:
        run(session, "REPLACE INTO customers(id, name, active) VALUES (9, 'Bela', 0)")
        run(session, "UPDATE orders SET id = 70 WHERE id = 3")
    assert database.fingerprint() == database.recompute()
    found = {(change.table, change.key): change.after is not None for change in database.take_changes()}
    assert {key for key in found if key[0] == "customers"} == {("customers", (2,)), ("customers", (9,))}
    assert (found["orders", (3,)], found["orders", (70,)]) == (False, True)
    assert ("lines", (70, 2)) in found


@both
def test_a_frozen_copy_does_not_move(template: Template, database: WorldDatabase) -> None:
    frozen = database.freeze()
    for total in (1, 2):
        with database.transaction() as session:
            session.execute(orders.update().values(total=total))
    later = database.freeze()
    database.close()
    for copy, total in ((frozen, 2800), (later, 14)):
        with copy.session() as session:
            assert sum(session.scalars(select(orders.c.total))) == total
    assert frozen.fingerprint() == template.fingerprint != later.fingerprint()
    frozen.close()
    frozen.close()
    with pytest.raises(RuntimeError, match="closed"), frozen.session():
        pass


@both
def test_a_copy_read_during_a_transaction_shows_what_was_committed(database: WorldDatabase) -> None:
    frozen = database.freeze()
    with database.transaction() as session:
        session.execute(lines.insert(), [{"order_id": 1, "number": i, "what": "x" * 500} for i in range(100, 9000)])
        session.execute(orders.update().values(total=0))
        with frozen.session() as reader:
            assert sum(reader.scalars(select(orders.c.total))) == 2800
            assert len(reader.scalars(select(lines.c.number)).all()) == 10
    assert database.fingerprint() == database.recompute()


def test_a_frozen_copy_refuses_writing(database: WorldDatabase) -> None:
    frozen = database.freeze()
    for sql in ("UPDATE orders SET total = 0", "PRAGMA query_only = OFF", "CREATE TABLE t(x)", "ATTACH 'x' AS x", "COMMIT"):
        with pytest.raises(DatabaseProblem) as caught, frozen.session() as session:
            run(session, sql)
        assert caught.value.kind is DatabaseProblemKind.FORBIDDEN


class Base(DeclarativeBase):
    pass


class Note(Base):
    __tablename__ = "notes"
    id: Mapped[int] = mapped_column(primary_key=True)
    body: Mapped[str]


def seed_notes(session: Session, seed: int) -> None:
    session.add(Note(id=1, body="one"))


@pytest.fixture
def notes(tmp_path: Any) -> Iterator[WorldDatabase]:
    clone = SqliteTemplate.build(TemplateSource("notes", Base.metadata, seed_notes), tmp_path).clone()
    yield clone
    clone.close()


def test_objects_work_as_in_any_session(notes: WorldDatabase) -> None:
    with notes.transaction() as session:
        note = session.get(Note, 1)
        assert note is not None
        note.body = "two"
        session.add(Note(id=2, body="new"))
    assert (note.body, len(notes.take_changes())) == ("two", 2)
    assert notes.fingerprint() == notes.recompute()


def test_a_change_in_a_frozen_session_is_refused_even_unflushed(notes: WorldDatabase) -> None:
    with pytest.raises(DatabaseProblem), notes.freeze().session() as session:
        session.scalars(select(Note)).one().body = "changed"


@both
def test_a_verifier_reads_while_tools_write(database: WorldDatabase) -> None:
    errors: list[BaseException] = []

    def verify() -> None:
        try:
            for _ in range(100):
                frozen = database.freeze()
                with frozen.session() as session:
                    assert len(set(session.scalars(select(orders.c.total)))) in (1, 7)
                frozen.close()
                database.query("SELECT sum(total) FROM orders")
        except BaseException as error:  # noqa: BLE001 - handed to the test
            errors.append(error)

    readers = [threading.Thread(target=verify) for _ in range(2)]
    for reader in readers:
        reader.start()
    for total in range(100):
        with database.transaction() as session:
            session.execute(orders.update().values(total=total))
    for reader in readers:
        reader.join()
    assert errors == []
    assert database.fingerprint() == database.recompute()


def files_open() -> int:
    """Open files that have a name: sockets and waits of another test's spares come and go meanwhile."""
    links = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            links.append(os.readlink(f"/proc/self/fd/{name}"))
    return sum(link.startswith("/") and not link.startswith("/proc/") for link in links)


def test_closing_gives_everything_back(shop: SqliteTemplate) -> None:
    def round_trip() -> None:
        clone = shop.clone()
        with clone.transaction() as session:
            session.execute(orders.update().values(total=0))
        clone.query("SELECT date(since) FROM customers")
        clone.freeze().close()
        clone.close()
        clone.close()

    round_trip()
    before = files_open()
    for _ in range(200):
        round_trip()
    assert files_open() <= before


@both
def test_a_closed_clone_says_so(template: Template) -> None:
    clone = template.clone()
    clone.close()
    for call in (lambda: _enter(clone.transaction()), clone.freeze, clone.recompute, lambda: clone.query("SELECT 1")):
        with pytest.raises(RuntimeError, match="closed"):
            call()
