"""Files of a task in a cell: what is set up, what is looked at, and what may have changed. The example tasks on Chinook."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from wardian.envs.action import Message, call
from wardian.envs.environment import ToolEnvironment
from wardian.envs.registry import cell_spec
from wardian.envs.taskfile.family import WrittenTask
from wardian.envs.taskfile.loading import load_tasks
from wardian.envs.taskfile.opening import on_import
from wardian.envs.taskfile.trial import try_task
from wardian.sandbox.database.base import Template
from wardian.sandbox.database.choice import DatabaseChoice, DatabaseEngine, open_template
from wardian.sandbox.database.imports import ImportedDatabase, import_database
from wardian.sandbox.pool import CellPool
from wardian.tools.faults import NONE

from .conftest import one_task, tasks_in
from .test_loading import EXAMPLE
from .test_tasks import TASK, failed

CHINOOK = Path(__file__).parents[4] / "shared" / "data" / "chinook"
CHECKS = """[
  {name: text, file: out/a.txt, equals: "one\\ntwo", contains: [wo], matches: '^two$'},
  {name: other-text, file: out/a.txt, equals: one},
  {name: no-line, file: out/a.txt, matches: '^wo$'},
  {name: json, file: out/b.json, json: {n: [1, 2.5], ok: true}},
  {name: other-json, file: out/b.json, json: {n: [1, 2.5], ok: 1}},
  {name: no-json, file: out/a.txt, json: null},
  {name: there, file: out/c.bin},
  {name: no-text, file: out/c.bin, contains: [x]},
  {name: absent, file: out/none, exists: false},
  {name: not-absent, file: out/a.txt, exists: false},
  {name: missing, file: out/none},
  {name: kept, file: given.txt, equals: given},
  {name: removed, file: gone.txt, exists: false},
  {name: folder, file: out},
  {name: link, file: link.txt, equals: given},
]""".replace("\n", "\n      ")
COMMAND = r"""mkdir out; cd out; printf 'one\ntwo\n' > a.txt; echo '{"ok": true, "n": [1.0, 2.5]}' > b.json; printf '\377' > c.bin
cd ..; rm gone.txt; ln -s given.txt link.txt; echo x > /tmp/scratch"""


@pytest.fixture(scope="module")
async def cells(anyio_backend: str, shop: ImportedDatabase) -> AsyncIterator[CellPool]:
    async with CellPool(cell_spec(on_import(shop, tasks_in(one_task(tools="[query, execute, shell]")))), size=1) as pool:
        yield pool


@pytest.mark.anyio
async def test_files_are_set_up_and_looked_at(shop: ImportedDatabase, sqlite_shop: Template, cells: CellPool) -> None:
    setup = "{files: {given.txt: given, gone.txt: {text: x}}}"
    world = on_import(shop, tasks_in(one_task(tools="[query, execute, shell]", checks=CHECKS, setup=setup)))
    async with ToolEnvironment(world, template=sqlite_shop, cells=cells, faults=NONE) as env:
        await env.reset(TASK)
        step = await env.step(call("shell", command=COMMAND))
        assert step.observation.results[0]["result"]["exit_code"] == 0
        step = await env.step(Message("Done."))
    expected = ["other-text", "no-line", "other-json", "no-json", "no-text", "not-absent", "missing", "folder", "link"]
    assert failed(step.info.verdict) == expected


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("changes", "command", "expected"),
    [
        ("{}", "echo 7 > a.txt; echo x > /tmp/y", []),
        ("{}", "echo 7 > a.txt; echo x > b.txt", ["changes"]),
        ("{}", "echo 7 > a.txt; echo y > given.txt", ["changes"]),
        ("{only: [{file: 'logs/*.log'}]}", "echo 7 > a.txt; mkdir logs; touch logs/x.log", []),
        ("{only: [{file: 'logs/*.log'}]}", "echo 7 > a.txt; mkdir -p logs/in; touch logs/in/x.log", ["changes"]),
        ("{only: [{file: '**'}], never: [{file: given.txt}]}", "echo 7 > a.txt; mkdir -p logs/in; touch logs/in/x.log", []),
        ("{only: [{file: '**'}], never: [{file: given.txt}]}", "echo 7 > a.txt; rm given.txt", ["never"]),
    ],
)
async def test_other_files_of_the_workspace_must_be_as_they_were(
    shop: ImportedDatabase, sqlite_shop: Template, cells: CellPool, changes: str, command: str, expected: list[str]
) -> None:
    parts = {"checks": "[{name: a, file: a.txt, equals: '7'}]", "setup": "{files: {given.txt: given}}", "changes": changes}
    world = on_import(shop, tasks_in(one_task(tools="[query, execute, shell]", **parts)))
    async with ToolEnvironment(world, template=sqlite_shop, cells=cells, faults=NONE) as env:
        await env.reset(TASK)
        await env.step(call("shell", command=command))
        step = await env.step(Message("Done."))
    assert failed(step.info.verdict) == expected


@asynccontextmanager
async def chinook(file: str, place: Path, url: str | None) -> AsyncIterator[tuple[ImportedDatabase, Template]]:
    if not (CHINOOK / file).exists():
        pytest.skip(f"no {CHINOOK / file}")
    imported = await import_database(str(CHINOOK / file), "chinook", directory=place)
    async with open_template(imported, DatabaseChoice(DatabaseEngine(imported.engine), url)) as template:
        yield imported, template


@pytest.mark.anyio
@pytest.mark.parametrize("file", ["Chinook_Sqlite.sqlite"])
async def test_the_example_tasks_are_sound_on_chinook(file: str, cells: CellPool, tmp_path: Path, request: Any) -> None:
    url = request.getfixturevalue("postgres_url") if file.endswith(".sql") else None
    async with chinook(file, tmp_path, url) as (imported, template):
        world = on_import(imported, load_tasks(EXAMPLE))
        async with ToolEnvironment(world, template=template, cells=cells, faults=NONE) as env:
            trials = [await try_task(env, family) for family in world.families if isinstance(family, WrittenTask)]
    assert [trial.problems for trial in trials] == [()] * 5
    assert [trial.idle_passes for trial in trials] == [()] * 5
