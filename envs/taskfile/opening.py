"""Worlds of an imported database and a file of tasks, by name: `template/chinook`."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path

from wardian.envs.definition import WorldDefinition
from wardian.envs.errors import TaskError
from wardian.envs.registry import load_world
from wardian.envs.taskfile.family import WrittenTask
from wardian.envs.taskfile.loading import Tasks, load_tasks, written
from wardian.envs.taskfile.schema import Engine
from wardian.envs.taskfile.world import Tables, world_of
from wardian.sandbox.database.imports import ImportedDatabase, open_import
from wardian.sandbox.database.imports.report import Column
from wardian.sandbox.errors import ImportRefused

PREFIX = "template/"
COPY = "tasks.json"
"""Name of the copy that a run keeps of its tasks, beside its log."""


def own_world(template: str, tasks: Path) -> WorldDefinition:
    """The world of the tasks in a file on the imported database of that name.

    Raises:
        TaskError: there is no such template, or the file is wrong; names file, line, field and fix.
        TemplateBroken: what was imported cannot be read.
    """
    try:
        imported = open_import(template)
    except ImportRefused as error:
        raise TaskError(f"template: {error}") from error
    return on_import(imported, load_tasks(tasks))


def on_import(imported: ImportedDatabase, tasks: Tasks) -> WorldDefinition:
    """The world of `tasks` on an imported database.

    Raises:
        TaskError: a task does not fit it.
    """
    engine: Engine = "postgres" if imported.engine == "postgres" else "sqlite"
    world = world_of(f"{PREFIX}{imported.name}", engine, tables_of(imported), tasks)
    return replace(world, imported=imported)


def tables_of(imported: ImportedDatabase) -> Tables:
    """The tables of an imported database, described for an agent."""
    return {table.name: {column.name: _described(column, table.key) for column in table.columns} for table in imported.report.tables}


def _described(column: Column, key: tuple[str, ...]) -> str:
    rule = "primary key" if column.name in key else "" if column.nullable else "not null"
    return f"{column.declared.lower()} {rule}".strip()


def world_named(name: str, tasks: Path | None) -> WorldDefinition:
    """The world of that name, as records give it. `tasks` is the file of one on a template.

    Raises:
        TaskError: there is none, or its file of tasks is not there.
        TemplateBroken: what was imported cannot be read.
    """
    if not name.startswith(PREFIX):
        return load_world(name)
    if tasks is None:
        raise TaskError(f"tasks: {name} is played with a file of tasks; give --tasks FILE")
    return own_world(name.removeprefix(PREFIX), tasks)


def keep_copy(world: WorldDefinition, folder: Path) -> None:
    """Write the tasks of a world into `folder` as one file that stands alone; nothing for other worlds, or where there is one already."""
    specs = [family.spec for family in world.families if isinstance(family, WrittenTask)]
    path = folder / COPY
    if not specs or path.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{COPY}.", dir=folder)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(written(world.policy, specs))
    Path(name).replace(path)


def kept_copy(where: Path) -> Path | None:
    """The copy that the run kept whose log is at `where`, a folder or a file; that of twins is a folder above."""
    folder = where if where.is_dir() else where.parent
    return next((path for path in (folder / COPY, folder.parent / COPY) if path.is_file()), None)
