"""Spares rehearse what restores do: only where there are restores, and without a trace."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from wardian.sandbox.database.base import TemplateSource
from wardian.sandbox.database.postgres.clone import PostgresDatabase
from wardian.sandbox.database.postgres.server import Server
from wardian.sandbox.database.postgres.template import PostgresTemplate

from .conftest import lines, orders

ROWS = "SELECT ctid::text, xmin::text, xmax::text, t::text FROM public.{} t ORDER BY ctid"
SIZES = """
    SELECT relname, pg_relation_size(oid, 'main'), pg_relation_size(oid, 'fsm'), pg_relation_size(oid, 'vm') FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i', 'S') ORDER BY relname
"""
GIVEN_OUT = "SELECT last_value, log_cnt, is_called FROM public.wardian_journal_seq_seq"
LAST_SAID = "SELECT query FROM pg_stat_activity WHERE datname = %s"


@pytest.fixture
def template(shop_source: TemplateSource, server: Server) -> Iterator[PostgresTemplate]:
    """One whose spares are made by the tests."""
    built = PostgresTemplate.build(replace(shop_source, name="rehearsed"), server, spares=0)
    yield built
    built.close()


def change_and_restore(template: PostgresTemplate) -> None:
    """Restore a state in which rows of two tables were added, changed and removed."""
    with closing(template.clone()) as changed:
        with changed.transaction() as session:
            session.execute(orders.update().where(orders.c.id == 1).values(total=5))
            session.execute(lines.delete().where(lines.c.number == 3))
            session.execute(lines.insert().values(order_id=1, number=100, what="more"))
            changed.allocate_id(session, "orders")
        template.restore(changed.seal())[0].close()


def said_last(clone: PostgresDatabase, server: Server) -> str:
    with server.admin() as admin:
        found = admin.execute(LAST_SAID, (clone.name,)).fetchone()
    assert found is not None
    return str(found[0])


def traces(clone: PostgresDatabase, server: Server) -> dict[str, list[Any]]:
    """Every row with its place and its transaction, and the size of all that is stored."""
    tables = [wire.shape.name for wire in clone.wires] + ["wardian_journal"]
    with psycopg.connect(server.url_of(clone.name)) as admin:
        rows = {name: admin.execute(ROWS.format(name).encode()).fetchall() for name in tables}
        return {**rows, "sizes": admin.execute(SIZES).fetchall(), "given out": admin.execute(GIVEN_OUT).fetchall()}


def test_a_spare_rehearses_after_a_restore_and_not_before(template: PostgresTemplate, server: Server) -> None:
    with closing(PostgresDatabase(template._sealed, template._spare_copy())) as before:
        assert said_last(before, server).startswith("SELECT (SELECT count(*)")
    change_and_restore(template)
    with closing(PostgresDatabase(template._sealed, template._spare_copy())) as after:
        for does in ("DELETE FROM", "INSERT INTO"):
            for table in ("lines", "orders"):
                assert f'{does} public."{table}"' in said_last(after, server)


def test_a_rehearsal_leaves_no_trace(template: PostgresTemplate, server: Server) -> None:
    change_and_restore(template)
    with closing(PostgresDatabase(template._sealed, template._spare_copy())) as rehearsed, closing(template.clone_at_once()) as plain:
        assert traces(rehearsed, server) == traces(plain, server)
        assert rehearsed.recompute() == rehearsed.fingerprint() == template.fingerprint
        assert rehearsed.changes_since_start() == ()
        assert rehearsed.link.info.transaction_status == TransactionStatus.IDLE
        assert rehearsed.link.execute("SHOW session_replication_role").fetchone() == ("origin",)


def test_a_state_comes_back_the_same_into_a_spare_that_rehearsed(template: PostgresTemplate, server: Server) -> None:
    change_and_restore(template)
    copies = template._spare_copy(), template._copy()
    restored = []
    with closing(template.clone()) as changed:
        with changed.transaction() as session:
            session.execute(orders.update().where(orders.c.id < 4).values(total=7))
        sealed = changed.seal()
    for copy in copies:
        template._keeper._spares.append(copy)
        restored.append(template.restore(sealed)[0])
    assert restored[0].fingerprint() == restored[1].fingerprint() == sealed.present.fingerprint
    found = [[(place, row) for place, _, _, row in traces(one, server)["orders"]] for one in restored]
    assert found[0] == found[1]
    for one in restored:
        one.close()
