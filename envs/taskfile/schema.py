"""What may stand in a file of tasks. The models are the published JSON Schema; unknown keys are refused, and nothing is guessed."""

import re
from datetime import UTC, datetime
from typing import Annotated, Literal, Self, TypeAlias

import regex
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag, model_validator

from wardian.envs.task import Difficulty

Engine: TypeAlias = Literal["sqlite", "postgres"]
Cell: TypeAlias = bool | int | float | str | None
Pack: TypeAlias = Literal["query", "execute", "files", "shell", "wait"]
CELL_PACKS = frozenset({"files", "shell"})
WORKSPACE = "/workspace"
DEFAULT_POLICY = (
    "Work on the database with the tools that you have, and change nothing but what the task asks for. "
    "When you are done, say so in a message: it ends the task."
)


def workspace_path(path: str) -> str:
    """The absolute form of a path in the workspace; `*` stands for any text without a slash, `**` for any."""
    whole = path if path.startswith("/") else f"{WORKSPACE}/{path}"
    parts = whole.split("/")
    if not whole.startswith(f"{WORKSPACE}/") or any(part in ("", ".", "..") for part in parts[1:]) or not path.isprintable():
        raise ValueError(f"a path lies below {WORKSPACE} and has no '.', '..' or empty parts, such as report.csv; not {path!r}")
    return whole


def _pattern(text: str) -> str:
    try:
        re.compile(text)
        regex.compile(text, regex.MULTILINE)  # which looks for it: see `matching`
    except (re.error, regex.error) as error:
        raise ValueError(f"no regular expression: {error}") from error
    return text


def _one_of(*keys: str) -> Discriminator:
    """Tells objects apart by which of `keys` they hold. A tag stands in brackets, so that it is the name of no key."""

    def tell(value: object) -> str | None:
        names = value if isinstance(value, dict) else type(value).model_fields if isinstance(value, BaseModel) else ()
        return next((f"({key})" for key in keys if key in names), None)

    known = " or ".join(f"`{key}`" for key in keys)
    return Discriminator(tell, custom_error_type="which", custom_error_message=f"must be an object with the key {known}")


WorkspacePath = Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(workspace_path)]
Pattern = Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(_pattern)]
ID, NAME = r"^[a-z0-9][a-z0-9-]{0,62}$", r"^[a-z0-9][a-z0-9_-]{0,62}$"
Id = Annotated[str, Field(pattern=ID)]
Name = Annotated[str, Field(pattern=NAME)]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Queries(Model):
    """One statement for each engine, where names or functions differ."""

    sqlite: str | None = None
    postgres: str | None = None


class Scripts(Model):
    """Statements for each engine."""

    sqlite: tuple[str, ...] = ()
    postgres: tuple[str, ...] = ()


def _by_type(message: str, **forms: tuple[type, ...]) -> Discriminator:
    """Tells values apart by their types; `forms` are the tags."""

    def tell(value: object) -> str | None:
        return next((f"({tag})" for tag, types in forms.items() if type(value) in types), None)

    return Discriminator(tell, custom_error_type="form", custom_error_message=f"must be {message}")


_QUERY_FORM = _by_type("SQL, or an object with SQL for sqlite: and postgres:", text=(str,), engines=(dict, Queries))
_SCRIPT_FORM = _by_type(
    "SQL, a list of statements, or an object with such a list for sqlite: and postgres:",
    text=(str,),
    list=(list, tuple),
    engines=(dict, Scripts),
)
Query = Annotated[Annotated[str, Tag("(text)")] | Annotated[Queries, Tag("(engines)")], _QUERY_FORM]
Script = Annotated[
    Annotated[str, Tag("(text)")] | Annotated[tuple[str, ...], Tag("(list)")] | Annotated[Scripts, Tag("(engines)")],
    _SCRIPT_FORM,
]


class TextMatch(Model):
    """What a text must be. All that is given must hold."""

    equals: str | None = None
    """The whole text; a line break more or less at its very end makes no difference."""
    contains: tuple[str, ...] = ()
    """Each of these stands in it."""
    matches: Pattern | None = None
    """A regular expression (of Python) is found in it, within a second; `^` and `$` are the ends of lines."""

    @property
    def empty(self) -> bool:
        return self.equals is None and not self.contains and self.matches is None


class SqlCheck(Model):
    """A query on the final state, and what it must give."""

    name: Name
    sql: Query
    rows: tuple[tuple[Cell, ...], ...] | None = None
    """The expected rows."""
    count: int | None = Field(default=None, ge=0)
    """Or only how many there must be."""
    compare: Literal["unordered", "ordered", "contains"] = "unordered"
    """`unordered`: these rows and no others; `ordered`: in this order; `contains`: these among others."""
    tolerance: float = Field(default=0.0, ge=0.0)
    """Numbers may differ by so much."""
    hard: bool = False
    """When it fails, damage was done, which is worse than not succeeding."""

    @model_validator(mode="after")
    def _one_expectation(self) -> Self:
        if (self.rows is None) == (self.count is None):
            raise ValueError("give either rows or count")
        if len({len(row) for row in self.rows or ()}) > 1:
            raise ValueError("rows: all rows must have the same number of values")
        return self


class FileCheck(TextMatch):
    """A file in the workspace at the end, and what it must be."""

    name: Name
    file: WorkspacePath
    exists: bool = True
    """False: there must be no file."""
    json_equals: JsonValue = Field(default=None, alias="json")
    """The file is JSON of this value; numbers and the order of keys as JSON takes them."""
    hard: bool = False

    @property
    def wants_json(self) -> bool:
        return "json_equals" in self.model_fields_set

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if "*" in self.file:
            raise ValueError("file: one file, without *")
        if not self.exists and (self.wants_json or not self.empty):
            raise ValueError("exists: a file that must not be there has no content to look at")
        return self


class AnswerCheck(Model):
    """The agent's last message, and what it must say. For what only words can show; a claim of success is none."""

    name: Name
    answer: TextMatch
    hard: bool = False

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.answer.empty:
            raise ValueError("answer: give equals, contains or matches")
        return self


Check = Annotated[
    Annotated[SqlCheck, Tag("(sql)")] | Annotated[FileCheck, Tag("(file)")] | Annotated[AnswerCheck, Tag("(answer)")],
    _one_of("sql", "file", "answer"),
]


class RowsRule(Model):
    """Changes of rows of a table. Names are compared without case and underscores, so that `InvoiceLine` is `invoice_line` too."""

    table: str = Field(min_length=1)
    columns: tuple[str, ...] = ()
    """Changes of these columns alone; empty: of any."""
    where: dict[str, Cell | tuple[Cell, ...]] = Field(default_factory=dict)
    """Of rows with these values alone, before and after; a list means any of them."""
    kinds: tuple[Literal["add", "change", "remove"], ...] = ()
    """Empty: all; with `columns`, only `change`."""


class FilesRule(Model):
    """Changes of files in the workspace."""

    file: WorkspacePath
    """`*` stands for any text without a slash, `**` for any text."""


Rule = Annotated[Annotated[RowsRule, Tag("(table)")] | Annotated[FilesRule, Tag("(file)")], _one_of("table", "file")]


OnlyThese = Annotated[
    Annotated[tuple[Rule, ...], Tag("(rules)")] | Annotated[Literal["any"], Tag("(word)")],
    _by_type("a list of rules, or the word any", rules=(list, tuple), word=(str,)),
]


class Changes(Model):
    """What the agent may have changed. By default nothing but the files that checks name."""

    only: OnlyThese = ()
    """All else must be as it was; `any`: everything may change but what `never` names."""
    never: tuple[Rule, ...] = ()
    """Must not change though `only` would allow it; damage when it does."""


class Content(Model):
    """What a file of a task holds: exactly one of these."""

    text: str | None = None
    base64: str | None = None
    """Its bytes."""
    source: str | None = Field(default=None, alias="from")
    """A file beside the YAML file or below it."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if sum(value is not None for value in (self.text, self.base64, self.source)) != 1:
            raise ValueError("give exactly one of text, base64 and from")
        return self


FileContent = Annotated[
    Annotated[str, Tag("(text)")] | Annotated[Content, Tag("(object)")],
    _by_type("a text, or an object with text, base64 or from", text=(str,), object=(dict, Content)),
]


class Setup(Model):
    """What is done before the episode begins: the agent finds the result."""

    sql: Script = ()
    """INSERT, UPDATE and DELETE."""
    files: dict[WorkspacePath, FileContent] = Field(default_factory=dict)


class SqlStep(Model):
    """One statement, by the tool that it needs."""

    sql: Query


class ToolStep(Model):
    """One call of a tool."""

    tool: str = Field(min_length=1)
    arguments: dict[str, JsonValue] = Field(default_factory=dict)


class MessageStep(Model):
    """The last message, which ends the episode."""

    message: str


Step = Annotated[
    Annotated[SqlStep, Tag("(sql)")] | Annotated[ToolStep, Tag("(tool)")] | Annotated[MessageStep, Tag("(message)")],
    _one_of("sql", "tool", "message"),
]


class BudgetPart(Model):
    """How much an episode may take. Left out: Wardian's own default."""

    steps: int | None = Field(default=None, ge=1)
    tokens: int | None = Field(default=None, ge=1)
    virtual_s: int | None = Field(default=None, ge=1)
    """World time."""
    invalid_streak: int | None = Field(default=None, ge=1)


class Shared(Model):
    """What `defaults` may say for all tasks, and each task for itself."""

    tools: tuple[Pack, ...] | None = Field(default=None, min_length=1)
    """`query`: look at tables and read by SQL. `execute`: change rows by SQL. `files`, `shell`: in a cell. `wait`: let world time pass."""
    start: AwareDatetime | None = None
    """World time at the first step."""
    difficulty: Difficulty | None = None
    split: Literal["train", "eval", "heldout"] | None = None
    tags: tuple[str, ...] | None = None
    budgets: BudgetPart = BudgetPart()


class TaskSpec(Shared):
    id: Id
    instruction: str = Field(min_length=1)
    setup: Setup = Setup()
    checks: tuple[Check, ...] = Field(min_length=1)
    changes: Changes = Changes()
    solution: tuple[Step, ...] = Field(min_length=1)
    """The reference: `wardian tasks check` demands that it passes. The policy `expert` plays it."""

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        names = [check.name for check in self.checks]
        if twice := sorted({name for name in names if names.count(name) > 1 or name in OURS}):
            raise ValueError(f"checks: the name {twice[0]!r} is taken; each check needs one of its own")
        if any(isinstance(step, MessageStep) for step in self.solution[:-1]):
            raise ValueError("solution: a message ends the episode, so it stands last")
        return self


CHANGES, NEVER = OURS = ("changes", "never")
"""The names of the checks that nothing else was changed, and nothing that must never be."""


class TaskFile(Model):
    version: Literal[1]
    """Of this format."""
    policy: str = DEFAULT_POLICY
    """The manual that the agent reads beside the instruction."""
    defaults: Shared = Shared()
    tasks: tuple[TaskSpec, ...] = Field(min_length=1, max_length=1000)


START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
"""World time at the first step where the file says nothing."""


def json_schema() -> dict[str, JsonValue]:
    """The JSON Schema of a file of tasks."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **TaskFile.model_json_schema(by_alias=True)}
