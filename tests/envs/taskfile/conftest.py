"""A small shop of somebody's own, as a SQLite file that is imported and as a Postgres template of the same rows; tasks on either."""

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest
from sqlalchemy import Column, ForeignKey, MetaData, Table
from sqlalchemy.orm import Session

from wardian.envs.definition import WorldDefinition
from wardian.envs.environment import ToolEnvironment
from wardian.envs.taskfile.loading import Tasks, tasks_of
from wardian.envs.taskfile.opening import on_import
from wardian.envs.taskfile.reading import read
from wardian.envs.taskfile.world import world_of
from wardian.sandbox.database.base import Template, TemplateSource
from wardian.sandbox.database.imports import ImportedDatabase, import_database
from wardian.sandbox.database.postgres.server import Server
from wardian.sandbox.database.postgres.template import PostgresTemplate
from wardian.sandbox.database.types import Flag, Id, Instant, Real, Text
from wardian.tools.faults import NONE

SCRIPT = """
CREATE TABLE People (PeopleId INTEGER PRIMARY KEY, Name TEXT NOT NULL, Active BOOLEAN NOT NULL, Since DATETIME);
CREATE TABLE Sale (SaleId INTEGER PRIMARY KEY, PeopleId INTEGER NOT NULL REFERENCES People, Amount NUMERIC(10,2) NOT NULL);
INSERT INTO People VALUES (1, 'Ada', 1, '2025-03-01 09:00:00'), (2, 'Bela', 0, NULL), (3, 'Chen', 1, '2025-03-02 10:30:00');
INSERT INTO Sale VALUES (1, 1, 0.1), (2, 1, 0.2), (3, 3, 5.94), (4, 2, 1.5);
"""
metadata = MetaData()
people = Table(
    "people",
    metadata,
    Column("people_id", Id, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("active", Flag, nullable=False),
    Column("since", Instant),
)
sales = Table(
    "sale",
    metadata,
    Column("sale_id", Id, primary_key=True, autoincrement=False),
    Column("people_id", Id, ForeignKey("people.people_id"), nullable=False),
    Column("amount", Real, nullable=False),
)


def seed_rows(session: Session, seed: int) -> None:
    since = {1: datetime(2025, 3, 1, 9, tzinfo=UTC), 2: None, 3: datetime(2025, 3, 2, 10, 30, tzinfo=UTC)}
    names = {1: "Ada", 2: "Bela", 3: "Chen"}
    session.execute(people.insert(), [{"people_id": i, "name": names[i], "active": i != 2, "since": since[i]} for i in names])
    rows = ((1, 1, 0.1), (2, 1, 0.2), (3, 3, 5.94), (4, 2, 1.5))
    session.execute(sales.insert(), [{"sale_id": i, "people_id": who, "amount": amount} for i, who, amount in rows])


@pytest.fixture(scope="session")
def shop_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shop") / "shop.sqlite"
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript(SCRIPT)
    return path


@pytest.fixture(scope="session")
def shop(shop_file: Path, tmp_path_factory: pytest.TempPathFactory) -> ImportedDatabase:
    place = tmp_path_factory.mktemp("imports")
    return anyio.run(lambda: import_database(str(shop_file), "shop", directory=place))


@pytest.fixture(scope="session")
def sqlite_shop(shop: ImportedDatabase) -> Template:
    return shop.sqlite_template()


@pytest.fixture(scope="session")
def postgres_shop(server: Server) -> Iterator[Template]:
    template = PostgresTemplate.build(TemplateSource("own shop", metadata, seed_rows), server, spares=1)
    yield template
    template.close()


both = pytest.mark.parametrize("engine_name", ["sqlite", "postgres"])
"""Marks what holds on every engine."""
Play: TypeAlias = Callable[..., Any]


@pytest.fixture
def engine_name() -> str:
    return "sqlite"


@pytest.fixture
def template(engine_name: str, request: pytest.FixtureRequest) -> Template:
    found: Template = request.getfixturevalue(f"{engine_name}_shop")
    return found


@pytest.fixture
def make_world(engine_name: str, shop: ImportedDatabase) -> Callable[[Tasks], WorldDefinition]:
    """The world of tasks on the shop."""

    def make(tasks: Tasks) -> WorldDefinition:
        if engine_name == "sqlite":
            return on_import(shop, tasks)
        tables = {table.name: {column.name: str(column.type) for column in table.columns} for table in metadata.tables.values()}
        return world_of("shop", "postgres", tables, tasks)

    return make


@pytest.fixture
def open_world(make_world: Callable[[Tasks], WorldDefinition], template: Template) -> Play:
    """An environment of the tasks in a YAML text."""

    @asynccontextmanager
    async def opened(text: str) -> AsyncIterator[ToolEnvironment]:
        world = make_world(tasks_in(text))
        async with ToolEnvironment(world, template=template, cells=None, faults=NONE) as env:
            yield env

    return opened


def tasks_in(text: str, folder: Path = Path("/nowhere")) -> Tasks:
    return tasks_of(read(text, "tasks.yaml"), folder)


def one_task(**parts: str) -> str:
    """A file of one task, whose parts are YAML; those that are left out are sound."""
    sound = {
        "id": "raise",
        "instruction": "Make Ada's first sale 7.",
        "tools": "[query, execute]",
        "checks": "[{name: amount, sql: SELECT amount FROM Sale, rows: [[7]]}]",
        "solution": "[{sql: UPDATE Sale SET Amount = 7}]",
    }
    return "version: 1\ntasks:\n  - " + "\n    ".join(f"{name}: {value}" for name, value in (sound | parts).items()) + "\n"
