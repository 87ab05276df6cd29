"""A database of one's own and a file of tasks, as a world like any other."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from sqlalchemy import MetaData

from wardian.envs.definition import WorldDefinition
from wardian.envs.errors import TaskError
from wardian.envs.taskfile.attacks import ALLOWANCES, attacks_on
from wardian.envs.taskfile.changes import folded, rules_of
from wardian.envs.taskfile.checking import text_for
from wardian.envs.taskfile.family import TOOLS, WrittenTask, setup_of
from wardian.envs.taskfile.loading import Tasks
from wardian.envs.taskfile.reading import Path
from wardian.envs.taskfile.schema import CELL_PACKS, Engine, Queries, Scripts, SqlCheck, SqlStep, TaskSpec, ToolStep
from wardian.envs.taskfile.solution import call_of
from wardian.sandbox.database.base import TemplateSource
from wardian.tools.contract import Tool
from wardian.tools.packs.files import file_tools
from wardian.tools.packs.shell import SHELL
from wardian.tools.packs.sql import query_tools
from wardian.tools.packs.waiting import WAIT
from wardian.tools.packs.writing import execute_tool

Tables: TypeAlias = Mapping[str, Mapping[str, str]]
"""What each column of each table is, in words for the agent."""


def world_of(name: str, engine: Engine, tables: Tables, tasks: Tasks) -> WorldDefinition:
    """The world of `tasks` on the template called `name`, which has these tables.

    Raises:
        TaskError: a task does not fit the template; names file, line and field.
    """
    if problems := [problem for spec in tasks.specs for problem in _misfits(spec, tasks, engine, tables)]:
        raise TaskError("\n".join(str(problem) for problem in problems[:10]))
    packs: set[str] = {pack for spec in tasks.specs for pack in spec.tools or ()}
    return WorldDefinition(
        name=name,
        version=tasks.digest[:16],
        title=f"Tasks on the database {name}",
        policy=tasks.policy,
        template=TemplateSource(name, MetaData(), lambda session, seed: None),
        tools=tuple(tool for pack, made in _tools(tables, packs) if pack in packs for tool in made),
        families=tuple(WrittenTask(spec, engine, tasks) for spec in tasks.specs),
        needs_cell=bool(packs & CELL_PACKS),
        attacks={spec.id: attacks_on(spec) for spec in tasks.specs},
        allowances=ALLOWANCES,
    )


def _tools(tables: Tables, packs: set[str]) -> tuple[tuple[str, tuple[Tool[Any], ...]], ...]:
    return (
        ("query", query_tools(tables)),
        ("execute", (execute_tool(),)),
        ("files", file_tools(with_shell="shell" in packs)),
        ("shell", (SHELL,)),
        ("wait", (WAIT,)),
    )


def _misfits(spec: TaskSpec, tasks: Tasks, engine: Engine, tables: Tables) -> Iterator[TaskError]:
    place = tasks.place(spec)
    lacking = f"has no SQL for {engine}, the engine of this template; add {engine}:"
    for number, check in enumerate(spec.checks):
        if isinstance(check, SqlCheck) and not text_for(check.sql, engine):
            yield tasks.document.problem((*place, "checks", number, "sql"), lacking)
    if isinstance(spec.setup.sql, Scripts) and not setup_of(spec, engine):
        yield tasks.document.problem((*place, "setup", "sql"), lacking)
    yield from _steps(spec, tasks, engine, lacking)
    known = {folded(table): {folded(column) for column in columns} for table, columns in tables.items()}
    for rule in rules_of(spec.changes):
        columns = known.get(folded(rule.table))
        if columns is None:
            yield tasks.document.problem((*place, "changes"), f"there is no table {rule.table!r}; there are {', '.join(tables)}")
            continue
        absent = [name for name in (*rule.columns, *rule.where) if folded(name) not in columns]
        if absent:
            yield tasks.document.problem((*place, "changes"), f"the table {rule.table} has no column {absent[0]!r}")


def _steps(spec: TaskSpec, tasks: Tasks, engine: Engine, lacking: str) -> Iterator[TaskError]:
    place: Path = (*tasks.place(spec), "solution")
    given = [name for pack in spec.tools or () for name in TOOLS[pack]]
    for number, step in enumerate(spec.solution):
        if isinstance(step, SqlStep) and isinstance(step.sql, Queries) and not text_for(step.sql, engine):
            yield tasks.document.problem((*place, number, "sql"), lacking)
        elif isinstance(step, SqlStep | ToolStep) and (tool := call_of(step, engine, number)[0]) not in given:
            yield tasks.document.problem((*place, number), f"needs the tool {tool}, and the task's tools give {', '.join(given)}")
