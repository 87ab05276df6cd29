"""Worlds by name, and their packaged files."""

from pathlib import Path
from typing import Any

import pytest

from wardian.envs.action import call
from wardian.envs.errors import TaskError
from wardian.envs.registry import known_worlds, load_world, open_environment, profile
from wardian.envs.resources import file_layer, read_text
from wardian.sandbox.database.choice import DatabaseChoice, DatabaseEngine


def test_a_built_in_world_is_loaded_by_its_name() -> None:
    assert load_world("toy").name == "toy"
    assert {"billing", "toy"} <= set(known_worlds())


def test_a_world_of_ones_own_is_named_by_its_function() -> None:
    assert load_world("wardian.envs.worlds.toy:definition").name == "toy"


@pytest.mark.parametrize(
    "name", ["nowhere", "no.such.module:definition", "wardian.envs.worlds.toy:nothing", "wardian.envs.registry:known_worlds"]
)
def test_a_wrong_name_says_what_is_wrong(name: str) -> None:
    with pytest.raises(TaskError, match=r"world: .*(built in are .*toy|cannot be loaded|no WorldDefinition)"):
        load_world(name)


def test_a_package_beside_is_named_by_its_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "desk").mkdir()
    (tmp_path / "desk" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TaskError, match="did you mean desk:definition"):
        load_world("desk")


def test_a_wrong_profile_lists_the_known() -> None:
    with pytest.raises(TaskError, match="none, mild, realistic, harsh"):
        profile("rough")


def test_texts_and_files_come_with_the_package() -> None:
    assert "Never write an item off" in load_world("toy").policy
    assert list(load_world("toy").files.entries) == ["/workspace/NOTES.txt"]
    with pytest.raises(TaskError, match=r"no file 'NONE\.md'"):
        read_text("wardian.envs.worlds.toy", "NONE.md")
    with pytest.raises(TaskError, match="no folder 'none'"):
        file_layer("wardian.envs.worlds.toy", "none")


@pytest.mark.parametrize(
    ("engine", "url", "message"),
    [
        ("mysql", None, "engine: give DatabaseEngine.SQLITE or DatabaseEngine.POSTGRES, not 'mysql'"),
        ("sqlite", None, "engine: give"),
        (DatabaseEngine.SQLITE, "postgresql://host/db", "url: SQLite has no server"),
    ],
)
def test_a_database_that_cannot_be_chosen_is_refused(engine: Any, url: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DatabaseChoice(engine, url)


@pytest.mark.anyio
@pytest.mark.parametrize("engine", DatabaseEngine)
async def test_an_environment_is_opened_with_all_that_it_needs(engine: DatabaseEngine, postgres_url: str) -> None:
    choice = DatabaseChoice(engine, postgres_url if engine is DatabaseEngine.POSTGRES else None)
    async with open_environment(load_world("toy"), faults="mild", database=choice) as env:
        first = await env.reset("lending-desk/easy/seed-1", seed=7)
        assert "requests.txt" in first.rendered
        step = await env.step(call("list_items"))
        assert len(step.observation.results[0]["result"]) == 18
        names = [schema["function"]["name"] for schema in env.tool_schemas]
        assert {"list_items", "lend_item", "read_file", "write_file"} <= set(names)
