"""A task of a file as a family: it has one difficulty, and its seeds tell episodes apart and change nothing."""

import base64

from wardian.envs.action import Observation
from wardian.envs.errors import TaskError
from wardian.envs.family import Family, Solution
from wardian.envs.splits import Split
from wardian.envs.task import Budgets, Difficulty, Task, TaskId
from wardian.envs.taskfile.asking import CheckBroken
from wardian.envs.taskfile.checking import verdict_of
from wardian.envs.taskfile.loading import Tasks, dumped
from wardian.envs.taskfile.reading import Path as Field
from wardian.envs.taskfile.schema import START, Content, Engine, FileCheck, Scripts, TaskSpec
from wardian.envs.taskfile.solution import solve
from wardian.envs.taskfile.splitting import statements
from wardian.envs.verifier import FinalState, Verdict
from wardian.sandbox.files import FileEntry, FileLayer

TOOLS = {
    "query": ("describe_database", "query_database"),
    "execute": ("execute_sql",),
    "files": ("read_file", "write_file", "edit_file", "list_files", "find_files", "search_files"),
    "shell": ("shell",),
    "wait": ("wait",),
}
"""Names of the tools of each pack."""


class WrittenTask(Family):
    """One task of the file `tasks`, on a template of `engine`."""

    def __init__(self, spec: TaskSpec, engine: Engine, tasks: Tasks) -> None:
        self.name = spec.id
        self.spec = spec
        self._tasks = tasks
        self.engine: Engine = engine
        self.difficulties = (spec.difficulty or Difficulty.MEDIUM,)
        self.evidence_files = tuple(sorted({check.file for check in spec.checks if isinstance(check, FileCheck)}))

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of the tools that the agent gets."""
        return tuple(name for pack in dict.fromkeys(self.spec.tools or ()) for name in TOOLS[pack])

    @property
    def task_id(self) -> TaskId:
        """Of its first episode."""
        return TaskId(self.name, self.difficulties[0], 0)

    def generate(self, difficulty: Difficulty, seed: int) -> Task:
        if difficulty not in self.difficulties:
            only = self.difficulties[0].value
            raise TaskError(f"difficulty: the task {self.name} is {only}, and there is no {difficulty.value} one of it")
        spec = self.spec
        return Task(
            id=TaskId(self.name, difficulty, seed),
            instruction=spec.instruction,
            start=spec.start or START,
            parameters={"task": dumped(spec)},
            setup=setup_of(spec, self.engine),
            files=FileLayer({path: FileEntry(_data(content)) for path, content in spec.setup.files.items()}),
            tools=self.tools,
            budgets=Budgets(**spec.budgets.model_dump(exclude_none=True)),
            split=self.split_at(difficulty, seed),
        )

    def split_at(self, difficulty: Difficulty, seed: int) -> str:
        return self.spec.split or Split.TRAIN

    def verify(self, state: FinalState) -> Verdict:
        try:
            return verdict_of(self.spec, self.engine, state)
        except CheckBroken as error:
            number = [check.name for check in self.spec.checks].index(error.check)
            raise self.problem(("checks", number, "sql"), str(error)) from error

    def problem(self, part: Field, message: str) -> TaskError:
        """An error that names file, line, column and field of a part of this task."""
        return self._tasks.document.problem((*self._tasks.place(self.spec), *part), message)

    def reference(self, first: Observation) -> Solution:
        return solve(self.spec.solution, self.engine, "wait" in (self.spec.tools or ()))


def setup_of(spec: TaskSpec, engine: Engine) -> tuple[str, ...]:
    """The statements of a task's setup, one each."""
    sql = spec.setup.sql
    if isinstance(sql, Scripts):
        sql = getattr(sql, engine)
    scripts = (sql,) if isinstance(sql, str) else sql
    return tuple(statement for script in scripts for statement in statements(script))


def _data(content: str | Content) -> bytes:
    return content.encode() if isinstance(content, str) else base64.b64decode(content.base64 or "")
