"""Faults that people reported of systems like this one, on both engines: cloning a database, types, and dialects."""

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Column, MetaData, Table, text
from sqlalchemy.orm import Session

from wardian.sandbox.database.base import Template, TemplateSource, WorldDatabase
from wardian.sandbox.database.postgres.server import PREFIX, Server
from wardian.sandbox.database.postgres.template import PostgresTemplate
from wardian.sandbox.database.sqlite import SqliteTemplate
from wardian.sandbox.database.types import Id, Instant, Text
from wardian.sandbox.errors import DatabaseProblem, DatabaseProblemKind, TemplateBroken

from .conftest import both, customers, lines, orders


def no_rows(session: Session, seed: int) -> None:
    """Leave the tables empty."""


def built(engine: str, source: TemplateSource, directory: Path, server: Server) -> Template:
    return SqliteTemplate.build(source, directory) if engine == "sqlite" else PostgresTemplate.build(source, server, spares=0)


@pytest.fixture
def westward(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process live in New York."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@both
def test_an_instant_is_the_same_wherever_the_process_lives(database: WorldDatabase, westward: None) -> None:
    moment = datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=2)))
    with database.transaction() as session:
        session.execute(customers.update().where(customers.c.id == 1).values(since=moment))
    with database.transaction() as session:
        kept = session.execute(customers.select().where(customers.c.id == 1)).one().since
    assert (kept, kept.tzinfo) == (moment, UTC)
    assert database.query("SELECT since FROM customers WHERE id = 1").rows[0][0] == "2026-03-29T00:30:00.000Z"
    assert database.recompute() == database.fingerprint()


@both
def test_a_statement_that_failed_takes_nothing_from_the_next(database: WorldDatabase) -> None:
    for wrong in ("selec 1", "SELECT nothing FROM orders", "SELECT id FROM orders WHERE"):
        with pytest.raises(DatabaseProblem):
            database.query(wrong)
        assert database.query("SELECT 1").rows == ((1,),)
    with pytest.raises(DatabaseProblem), database.transaction() as session:
        session.execute(orders.insert().values(id=1, customer_id=1, total=1))
    with database.transaction() as session:
        session.execute(orders.update().where(orders.c.id == 1).values(total=1))
    assert len(database.take_changes()) == 1


@both
def test_rows_that_came_and_went_are_no_change_and_their_order_is_no_state(database: WorldDatabase) -> None:
    before = database.fingerprint()
    with database.transaction() as session:
        session.execute(orders.insert().values(id=99, customer_id=1, total=1))
        session.execute(orders.delete().where(orders.c.id == 99))
        row = session.execute(lines.select().limit(1)).one()
        session.execute(lines.delete().where(lines.c.number == row.number))
        session.execute(lines.insert().values(**row._mapping))
    assert database.fingerprint() == before == database.recompute()
    assert database.take_changes() == database.changes_since_start() == ()


@both
def test_ids_go_on_above_every_id_that_was_given_by_hand(database: WorldDatabase) -> None:
    with database.transaction() as session:
        assert database.allocate_id(session, "orders") == 8
        session.execute(orders.insert().values(id=41, customer_id=1, total=1))
        assert database.allocate_id(session, "orders") == 42


@both
def test_numbers_that_are_none_are_refused_and_dialects_differ_only_as_documented(engine_name: str, database: WorldDatabase) -> None:
    for value in (float("nan"), float("inf")):
        with pytest.raises(DatabaseProblem) as caught, database.transaction() as session:
            session.execute(customers.update().values(score=value))
        assert caught.value.kind is DatabaseProblemKind.INVALID_VALUE
    with pytest.raises(DatabaseProblem):
        database.query('SELECT "no_such_column" FROM orders')
    if engine_name == "sqlite":
        assert database.query("SELECT 7 / 0, 'A' LIKE 'a', 7 / 2").rows == ((None, 1, 3),)
    else:
        with pytest.raises(DatabaseProblem, match="division by zero"):
            database.query("SELECT 7 / 0")
        assert database.query("SELECT 'A' LIKE 'a', 7 / 2").rows == ((False, 3),)


def test_a_numeric_of_postgres_is_a_number_as_long_as_one_can_hold_it(postgres_shop: PostgresTemplate) -> None:
    clone = postgres_shop.clone()
    row = clone.query(
        "SELECT 10.10, 10.10 * 3, 12345678901234567890.12, 123456789012345678901234567890::numeric, avg(id) FROM orders"
    ).rows[0]
    assert row == (10.1, 30.3, "12345678901234567890.12", "123456789012345678901234567890", 4)
    clone.close()


@both
def test_text_that_no_engine_keeps_is_refused_by_both_and_odd_text_is_kept_by_both(database: WorldDatabase) -> None:
    for wrong in ("a\x00b", "a\ud83d"):
        with pytest.raises(DatabaseProblem) as caught, database.transaction() as session:
            session.execute(customers.update().where(customers.c.id == 1).values(name=wrong))
        assert caught.value.kind is DatabaseProblemKind.INVALID_VALUE
    odd = "\U0001f378 e\u0301 \u202e \\x41 %s :a '\" \r\n"
    with database.transaction() as session:
        session.execute(customers.update().where(customers.c.id == 1).values(name=odd))
    assert database.query("SELECT name FROM customers WHERE id = 1").rows == ((odd,),)
    assert database.recompute() == database.fingerprint()


@both
def test_names_of_worlds_may_be_long_and_alike(engine_name: str, shop_source: TemplateSource, tmp_path: Path, server: Server) -> None:
    sources = [replace(shop_source, name="Wörld " * 40 + end) for end in ("1", "2")]
    found = [built(engine_name, source, tmp_path, server) for source in sources]
    assert found[0].key != found[1].key
    for template in found:
        clone = template.clone()
        assert clone.recompute() == template.fingerprint
        clone.close()
        if isinstance(template, PostgresTemplate):
            template.close()


@pytest.mark.parametrize("name", ["t" * 64, "ü" * 32])
@pytest.mark.parametrize("place", ["table", "column"])
def test_a_name_that_postgres_would_cut_short_is_refused(name: str, place: str, server: Server) -> None:
    metadata = MetaData()
    key = Column("id", Id, primary_key=True, autoincrement=False)
    Table(name if place == "table" else "things", metadata, key, Column(name if place == "column" else "what", Text))
    with pytest.raises(TemplateBroken, match="63 bytes"):
        PostgresTemplate.build(TemplateSource("long", metadata, no_rows), server, spares=0)


@both
@pytest.mark.parametrize("default", ["CURRENT_TIMESTAMP", "now()", "'now'", "(current_date)"])
def test_a_default_that_asks_the_host_is_refused(engine_name: str, default: str, tmp_path: Path, server: Server) -> None:
    metadata = MetaData()
    Table("things", metadata, Column("id", Id, primary_key=True, autoincrement=False), Column("at", Instant, server_default=text(default)))
    with pytest.raises(TemplateBroken, match=r"things\.at: .*default"):
        built(engine_name, TemplateSource("asking", metadata, no_rows), tmp_path, server)


def test_a_copy_that_lacks_rows_is_never_handed_out(shop_source: TemplateSource, server: Server) -> None:
    template = PostgresTemplate.build(replace(shop_source, name="robbed"), server, spares=0)
    name = f"{PREFIX}t_{template.key}"
    with server.admin() as admin:
        admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true".encode())
        with psycopg.connect(server.url_of(name), autocommit=True) as link:
            link.execute("DELETE FROM public.lines WHERE number = 1")
    with pytest.raises(TemplateBroken, match="rows in its tables"):
        template.clone()
    template.close()


@pytest.mark.parametrize(
    "lost",
    [
        "DELETE FROM public.lines",
        "TRUNCATE public.lines",
        "DELETE FROM public.wardian_sequences WHERE name = 'orders'",
        "DROP TABLE public.lines",
    ],
)
def test_whatever_a_copy_lacks_is_seen(lost: str, postgres_shop: PostgresTemplate, server: Server) -> None:
    with closing(postgres_shop.clone_at_once()) as clone:
        postgres_shop._check_counts(clone.link)
        with psycopg.connect(server.url_of(clone.name), autocommit=True) as admin:
            admin.execute(lost.encode())
        with pytest.raises(TemplateBroken, match=r"rows in its tables|lacks a table"):
            postgres_shop._check_counts(clone.link)


def test_what_is_said_of_a_database_is_said_of_its_copies_too(postgres_shop: PostgresTemplate, server: Server) -> None:
    clone = postgres_shop.clone()
    with server.admin() as admin:
        row = admin.execute(
            "SELECT has_database_privilege('wardian_tools', oid, 'CONNECT'), shobj_description(oid, 'pg_database') FROM pg_database"
            " WHERE datname = %s",
            (clone._copy.name,),
        ).fetchone()
    assert row is not None
    assert row[0] is False
    assert "owner.pid" in row[1]
    for name, value in (("temp_file_limit", "128MB"), ("lock_timeout", "5s")):
        assert clone._copy.link.execute(f"SHOW {name}".encode()).fetchone() == (value,)
    clone.close()
