"""A small shop in a world database: every column type, composite keys, cascades, and a unique name."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from sqlalchemy import Column, ForeignKey, MetaData, Table
from sqlalchemy.orm import Session

from wardian.sandbox.database.base import Template, TemplateSource, WorldDatabase
from wardian.sandbox.database.imports import ImportedDatabase, import_database
from wardian.sandbox.database.imports.workshop import Workshop, open_workshop
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


@dataclass(frozen=True, slots=True)
class Importer:
    """Imports of Postgres databases, all in one workshop."""

    portal: BlockingPortal
    workshop: Workshop

    def take(self, source: object, name: str, directory: Path, **options: Any) -> ImportedDatabase:
        call = partial(import_database, str(source), name, directory=directory, workshop=self.workshop, **options)
        return self.portal.call(call)

    def program(self, *argv: str) -> bytes:
        """What a program of the workshop writes; it may ask its server."""
        return self.portal.call(self.workshop.program, argv)


@pytest.fixture(scope="session")
def importer() -> Iterator[Importer]:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(open_workshop()) as workshop:
        yield Importer(portal, workshop)


def chinook_file(name: str) -> Path:
    """A file of the Chinook database; skips where it is not beside the repository."""
    folder = os.environ.get("WARDIAN_SHARED_DATA", str(Path(__file__).parents[4] / "shared" / "data"))
    path = Path(folder) / "chinook" / name
    if not path.exists():
        if "WARDIAN_SHARED_DATA" in os.environ:
            pytest.fail(f"{path} is missing, though WARDIAN_SHARED_DATA promises it")
        pytest.skip("the Chinook database is not beside this repository; set WARDIAN_SHARED_DATA to demand it")
    return path
