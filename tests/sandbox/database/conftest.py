"""A small shop in a world database: every column type, composite keys, cascades, and a unique name."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Column, ForeignKey, MetaData, Table
from sqlalchemy.orm import Session

from wardian.sandbox.database.base import Template, TemplateSource, WorldDatabase
from wardian.sandbox.database.postgres.server import Server
from wardian.sandbox.database.postgres.template import PostgresTemplate
from wardian.sandbox.database.sqlite import SqliteTemplate
from wardian.sandbox.database.types import Count, Flag, Id, Instant, JsonValue, Money, Real, Text

metadata = MetaData()
customers = Table(
    "customers",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False, unique=True),
    Column("active", Flag, nullable=False),
    Column("since", Instant),
    Column("score", Real),
    Column("extra", JsonValue),
)
orders = Table(
    "orders",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("customer_id", Id, ForeignKey("customers.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("total", Money, nullable=False),
)
lines = Table(
    "lines",
    metadata,
    Column("order_id", Id, ForeignKey("orders.id", ondelete="CASCADE", onupdate="CASCADE"), primary_key=True),
    Column("number", Count, primary_key=True),
    Column("what", Text),
)
OPENING = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)


def seed_rows(session: Session, seed: int) -> None:
    names = ("Ada", "Bela", "Chen")
    session.execute(
        customers.insert(),
        [
            {"id": i, "name": name, "active": i != 2, "since": OPENING - timedelta(days=i), "score": i / 4, "extra": {"seed": seed}}
            for i, name in enumerate(names, start=1)
        ],
    )
    session.execute(orders.insert(), [{"id": i, "customer_id": 1 + i % 3, "total": 100 * i} for i in range(1, 8)])
    session.execute(lines.insert(), [{"order_id": 1 + i % 5, "number": i, "what": f"thing {i}"} for i in range(10)])


@pytest.fixture(scope="session")
def shop_source() -> TemplateSource:
    return TemplateSource("shop", metadata, seed_rows, seed=7)


@pytest.fixture(scope="session")
def shop(shop_source: TemplateSource, tmp_path_factory: pytest.TempPathFactory) -> SqliteTemplate:
    return SqliteTemplate.build(shop_source, tmp_path_factory.mktemp("templates"))


@pytest.fixture(scope="session")
def postgres_shop(shop_source: TemplateSource, server: Server) -> Iterator[PostgresTemplate]:
    template = PostgresTemplate.build(shop_source, server, spares=2)
    yield template
    template.close()


both = pytest.mark.parametrize("engine_name", ["sqlite", "postgres"])
"""Marks what holds on every engine."""


@pytest.fixture
def engine_name() -> str:
    return "sqlite"


@pytest.fixture
def template(engine_name: str, request: pytest.FixtureRequest) -> Template:
    found: Template = request.getfixturevalue("shop" if engine_name == "sqlite" else "postgres_shop")
    return found


@pytest.fixture
def database(template: Template) -> Iterator[WorldDatabase]:
    clone = template.clone()
    yield clone
    clone.close()
