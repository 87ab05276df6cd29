"""States of a clone as data: sealed, and made again of the template, on both engines."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from tests.sandbox.database.conftest import both, customers, lines, orders
from wardian.sandbox.database.base import Template, WorldDatabase
from wardian.sandbox.database.journal import Window
from wardian.sandbox.database.postgres.sealing import _steps
from wardian.sandbox.database.sealed import SealedState
from wardian.sandbox.database.sqlite import sealing
from wardian.sandbox.errors import DatabaseProblem, LeakDetected, SnapshotRefused
from wardian.sandbox.fingerprint import Fingerprint

Act = Callable[[WorldDatabase, Session], Any]


def trade_names(database: WorldDatabase, session: Session) -> None:
    for number, name in ((1, "x"), (2, "Ada"), (1, "Bela")):
        session.execute(customers.update().where(customers.c.id == number).values(name=name))


def add(database: WorldDatabase, session: Session) -> None:
    number = database.allocate_id(session, "customers")
    row = {"id": number, "name": f"D\u00ed\x7f{number}", "active": False, "score": -0.5, "extra": {"a": [None]}}
    session.execute(customers.insert(), [row])


def cascade(database: WorldDatabase, session: Session) -> None:
    session.execute(customers.delete().where(customers.c.id == 3))
    session.execute(orders.update().where(orders.c.id == 1).values(id=99))


ACTS: list[Act] = [add, trade_names, cascade, lambda database, session: session.execute(lines.delete().where(lines.c.number == 2))]


def do(database: WorldDatabase, act: Act) -> None:
    with database.transaction() as session:
        act(database, session)


def all_rows(session: Session) -> list[list[tuple[Any, ...]]]:
    return [[tuple(row) for row in session.execute(select(table).order_by(*table.primary_key))] for table in (customers, orders, lines)]


@both
def test_a_state_and_its_older_copies_come_back(template: Template, database: WorldDatabase, engine_name: str) -> None:
    older = []
    for act in ACTS:
        older.append(database.freeze())
        do(database, act)
    sealed = database.seal(older)
    clone, copies = template.restore(sealed)
    try:
        assert clone.fingerprint() == clone.recompute() == database.fingerprint()
        assert clone.changes_since_start() == database.changes_since_start() != ()
        assert clone.take_changes() == ()
        for mine, theirs in zip(older, copies, strict=True):
            assert mine.fingerprint() == theirs.fingerprint()
            with mine.session() as one, theirs.session() as other:
                assert all_rows(one) == all_rows(other)
        if engine_name == "sqlite":
            assert clone.seal(copies) == sealed
        do(clone, add)
        do(database, add)
        assert clone.fingerprint() == database.fingerprint()
    finally:
        for copy in (*older, *copies):
            copy.close()
        clone.close()


@both
def test_one_seal_makes_many_clones_that_are_independent(template: Template, database: WorldDatabase) -> None:
    do(database, add)
    sealed = database.seal()
    clones = [template.restore(sealed)[0] for _ in range(2)]
    do(clones[0], trade_names)
    assert clones[1].fingerprint() == database.fingerprint() != clones[0].fingerprint()
    for clone in clones:
        clone.close()


@both
def test_another_template_is_refused(template: Template, database: WorldDatabase) -> None:
    with pytest.raises(SnapshotRefused, match="template other"):
        template.restore(replace(database.seal(), template_key="other"))


@both
def test_a_state_that_does_not_come_back_whole_is_a_leak(template: Template, database: WorldDatabase, engine_name: str) -> None:
    do(database, add)
    sealed = database.seal()
    body = sealed.present.body
    wrong = body[:-1] + bytes([body[-1] ^ 1]) if engine_name == "sqlite" else body.replace(b"-0.5", b"-1.5")
    assert wrong != body
    with pytest.raises(LeakDetected, match="database"):
        template.restore(replace(sealed, present=SealedState(sealed.present.fingerprint, wrong)))
    if engine_name == "postgres":
        with pytest.raises(LeakDetected, match="customers"):
            template.restore(replace(sealed, present=SealedState(Fingerprint({"customers": "none"}), body)))


@both
def test_an_open_transaction_is_no_moment_to_seal(database: WorldDatabase) -> None:
    with database.transaction(), pytest.raises(RuntimeError, match="transaction"):
        database.seal()


def test_an_image_may_shrink_grow_and_end_within_a_block() -> None:
    base = bytes(range(256)) * 40
    for image in (base, base[:5000], base + b"more", b"x" + base[1:-1], b"", bytes(20_000)):
        body = sealing.difference(image, base)
        assert sealing.applied(body, base) == image
    assert len(sealing.difference(base[:-1] + b"!", base)) < 3 * sealing.BLOCK


def test_steps_lead_from_any_state_to_any_other() -> None:
    a: Window
    b: Window
    a, b = {(0, (1,)): ([1, "a"], [1, "b"]), (0, (2,)): (None, [2, "n"])}, {(0, (1,)): ([1, "a"], None), (0, (3,)): ([3, "c"], [3, "d"])}
    assert list(_steps(a, b)) == [((0, (1,)), True, None), ((0, (3,)), True, [3, "d"]), ((0, (2,)), True, None)]
    assert list(_steps(a, a)) == []


@pytest.mark.parametrize("engine_name", ["postgres"])
def test_neither_tool_nor_agent_can_switch_foreign_keys_off(database: WorldDatabase) -> None:
    with pytest.raises(DatabaseProblem):
        database.query("SELECT set_config('session_replication_role', 'replica', true)")
    for statement in ("SET LOCAL session_replication_role = replica", "SELECT set_config('session_replication_role', 'replica', true)"):
        with pytest.raises(DatabaseProblem), database.transaction() as session:
            session.execute(text(statement))
    with pytest.raises(DatabaseProblem, match="foreign key"), database.transaction() as session:
        session.execute(orders.insert().values(id=900, customer_id=900, total=1))
    assert database.changes_since_start() == ()
