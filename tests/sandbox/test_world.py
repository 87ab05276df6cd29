"""A world is one atomic state: nothing of an earlier episode can be in a new one without a leaf that shows it."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, Table
from sqlalchemy.orm import Session

from wardian.sandbox.database.base import TemplateSource
from wardian.sandbox.database.sqlite import SqliteTemplate
from wardian.sandbox.errors import LeakDetected
from wardian.sandbox.files import FileChange, FileChanges, FileKind
from wardian.sandbox.world import EpisodeMemory, World

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
metadata = MetaData()
things = Table("things", metadata, Column("id", Integer, primary_key=True), Column("n", Integer))


def seed_rows(session: Session, seed: int) -> None:
    session.execute(things.insert(), [{"id": 1, "n": 1}, {"id": 2, "n": 2}])


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> SqliteTemplate:
    directory: Path = tmp_path_factory.mktemp("templates")
    return SqliteTemplate.build(TemplateSource("things", metadata, seed_rows), directory)


@pytest.fixture
def world(template: SqliteTemplate) -> Any:
    made = World(start=START, seed=4, database=template.clone())
    yield made
    made.close()


def keep_row(world: World) -> None:
    assert world.database is not None
    with world.database.transaction() as session:
        session.execute(things.insert().values(id=3, n=3))


def keep_id(world: World) -> None:
    assert world.database is not None
    with world.database.transaction() as session:
        world.database.allocate_id(session, "things")


def keep_file(world: World) -> None:
    world.files = FileChanges({"/tmp/x": FileChange(FileKind.FILE, content="a" * 32)})


LEAKS: dict[str, Callable[[World], Any]] = {
    "database/things": keep_row,
    "database/(ids)": keep_id,
    "clock": lambda world: world.clock.advance(1),
    "streams": lambda world: world.streams["faults"].random(),
    "files": keep_file,
    "memory": lambda world: world.memory.revoked_scopes.append("refunds"),
}
MEMORY: dict[str, Callable[[EpisodeMemory], Any]] = {
    "call_counts": lambda memory: memory.call_counts.update(refund=1),
    "idempotency": lambda memory: memory.idempotency.update(key={"id": 1}),
    "pending": lambda memory: memory.pending.append(["settle", 5]),
    "notes": lambda memory: memory.notes.update(seen=True),
    "revoked_scopes": lambda memory: memory.revoked_scopes.append("refunds"),
}


def test_an_untouched_world_is_proven(world: World, template: SqliteTemplate) -> None:
    found = world.verify_start(template.fingerprint)
    assert set(found.leaves) == {"clock", "streams", "memory", "files", "database/things", "database/(ids)"}
    assert world.fingerprint() == found


@pytest.mark.parametrize("leaf", LEAKS)
def test_whatever_was_kept_is_found_and_named(world: World, template: SqliteTemplate, leaf: str) -> None:
    LEAKS[leaf](world)
    with pytest.raises(LeakDetected) as caught:
        world.verify_start(template.fingerprint)
    assert [line.split(":")[0] for line in caught.value.differences] == [leaf]


@pytest.mark.parametrize("field", EpisodeMemory.__slots__)
def test_every_field_of_our_memory_counts(field: str) -> None:
    memory = EpisodeMemory()
    MEMORY[field](memory)
    assert memory.digest() != EpisodeMemory().digest()


def test_a_world_without_a_database_is_proven_too() -> None:
    World(start=START, seed=1).verify_start(None)


def test_a_database_where_none_belongs_is_a_leak(world: World) -> None:
    with pytest.raises(LeakDetected, match="database/things"):
        world.verify_start(None)


def test_the_start_time_and_seed_are_the_tasks_not_the_worlds(template: SqliteTemplate) -> None:
    one, two = (World(start=START, seed=seed) for seed in (1, 2))
    assert [line.split(":")[0] for line in one.fingerprint().differences(two.fingerprint())] == ["streams"]
