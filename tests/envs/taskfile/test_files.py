"""Files of a task in a cell: what is set up, what is looked at, and what may have changed. The example tasks on Chinook."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

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
from wardian.sandbox.database.imports.workshop import open_workshop
from wardian.sandbox.pool import CellPool
from wardian.tools.faults import NONE

from ...sandbox.database.conftest import chinook_file  # noqa: TID252 - tests have no absolute names
from .conftest import one_task, tasks_in
from .test_loading import EXAMPLE
from .test_tasks import TASK, failed

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
async def chinook(file: str, place: Path) -> AsyncIterator[tuple[ImportedDatabase, Template]]:
    """The Chinook database as an import and as a template; for Postgres on one server."""
    source = str(chinook_file(file))
    async with AsyncExitStack() as stack:
        workshop = await stack.enter_async_context(open_workshop()) if file.endswith(".sql") else None
        imported = await import_database(source, "chinook", directory=place, workshop=workshop)
        choice = DatabaseChoice(DatabaseEngine(imported.engine), workshop.server.url if workshop else None)
        yield imported, await stack.enter_async_context(open_template(imported, choice))


@pytest.mark.anyio
@pytest.mark.parametrize("file", ["Chinook_Sqlite.sqlite", "Chinook_PostgreSql_SerialPKs.sql"])
async def test_the_example_tasks_are_sound_on_chinook(file: str, cells: CellPool, tmp_path: Path) -> None:
    async with chinook(file, tmp_path) as (imported, template):
        world = on_import(imported, load_tasks(EXAMPLE))
        async with ToolEnvironment(world, template=template, cells=cells, faults=NONE) as env:
            trials = [await try_task(env, family) for family in world.families if isinstance(family, WrittenTask)]
    assert [trial.problems for trial in trials] == [()] * 5
    assert [trial.idle_passes for trial in trials] == [()] * 5
