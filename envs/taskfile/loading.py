"""A file of tasks, with the files that it names, checked and complete: nothing is read from the disk after this."""

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from wardian.envs.errors import TaskError
from wardian.envs.observation import has_control_token
from wardian.envs.taskfile import schema
from wardian.envs.taskfile.reading import MAX_BYTES, Document, read
from wardian.envs.taskfile.reading import Path as Field
from wardian.envs.taskfile.schema import CELL_PACKS, BudgetPart, Content, FileCheck, FilesRule, Shared, TaskFile, TaskSpec
from wardian.envs.taskfile.wording import message
from wardian.sandbox.fingerprint import digest
from wardian.tools.contract import Json

MAX_FILE_BYTES = 4 << 20
MAX_FILES_BYTES = 16 << 20
"""Of all files that the tasks bring along."""
SHOWN = 10
CONTROL = "holds what looks like a control token of a chat template, which would end the agent's turn; write it otherwise"


@dataclass(frozen=True, slots=True)
class Tasks:
    """Every task of a file, with defaults and contents filled in."""

    document: Document
    policy: str
    specs: tuple[TaskSpec, ...]

    def copy(self) -> str:
        """The same as JSON that stands alone; reading it gives equal tasks."""
        return written(self.policy, self.specs)

    @property
    def digest(self) -> str:
        """Content address: of what the tasks say, and not of how the file is written."""
        return digest(self.copy().encode())

    def place(self, spec: TaskSpec) -> Field:
        """Where a task stands in the file."""
        return ("tasks", self.specs.index(spec))


def load_tasks(path: Path) -> Tasks:
    """Read a file of tasks, and the files beside it that it names.

    Raises:
        TaskError: it cannot be read, or something in it is wrong; names file, line, column, field and fix for each.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TaskError(f"tasks: {path} cannot be read: {error.strerror}; name a YAML file") from error
    if len(data) > MAX_BYTES:
        raise TaskError(f"tasks: {path} has {len(data)} bytes; at most {MAX_BYTES} are read")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise TaskError(f"{path}:{line}: is no UTF-8 text; save it as UTF-8") from error
    return tasks_of(read(text, str(path)), path.parent)


def tasks_of(document: Document, folder: Path) -> Tasks:
    """The tasks of a document; files that it names are looked for in `folder`.

    Raises:
        TaskError: as `load_tasks`.
    """
    if not isinstance(document.data, dict):
        raise document.problem((), "must be an object with version: and tasks:")
    try:
        found = TaskFile.model_validate_json(json.dumps(document.data))
    except ValidationError as error:
        raise TaskError("\n".join(_lines(document, error))) from error
    except ValueError as error:  # of a text that JSON has no form for
        raise document.problem((), str(error)) from error
    contents = _Contents(document, folder)
    specs, problems = [], []
    for number, spec in enumerate(_with_defaults(one, found.defaults) for one in found.tasks):
        try:
            specs.append(contents.fill(spec, number))
        except TaskError as error:
            specs.append(spec)
            problems.append(error)
    tasks = Tasks(document, found.policy, tuple(specs))
    problems += _problems(tasks)
    if problems:
        raise TaskError("\n".join(str(problem) for problem in problems[:SHOWN]))
    return tasks


def _with_defaults(spec: TaskSpec, defaults: Shared) -> TaskSpec:
    shared = {name: getattr(defaults, name) for name in Shared.model_fields if name != "budgets" and getattr(spec, name) is None}
    budgets = defaults.budgets.model_dump(exclude_none=True) | spec.budgets.model_dump(exclude_none=True)
    update = {name: value for name, value in shared.items() if value is not None}
    return spec.model_copy(update=update | ({"budgets": BudgetPart(**budgets)} if budgets else {}))


class _Contents:
    """Fills in what tasks bring along from files."""

    def __init__(self, document: Document, folder: Path) -> None:
        self._document = document
        self._folder = folder.resolve()
        self._left = MAX_FILES_BYTES

    def fill(self, spec: TaskSpec, number: int) -> TaskSpec:
        """The task with the bytes of its files."""
        place: Field = ("tasks", number, "setup", "files")
        written = {schema.workspace_path(name): name for name in _names(self._document.data, place)}
        files: dict[str, str | Content] = {}
        for name, content in spec.setup.files.items():
            data = self._bytes(content, (*place, written.get(name, name)))
            files[name] = _as_content(data)
        return spec.model_copy(update={"setup": spec.setup.model_copy(update={"files": files})}) if files else spec

    def _bytes(self, content: str | Content, place: Field) -> bytes:
        if isinstance(content, str) or content.text is not None:
            data = (content if isinstance(content, str) else str(content.text)).encode()
        elif content.base64 is not None:
            try:
                data = base64.b64decode(content.base64, validate=True)
            except (binascii.Error, ValueError) as error:
                raise self._document.problem((*place, "base64"), f"is no base64: {error}") from error
        else:
            data = self._read(str(content.source), (*place, "from"))
        self._left -= len(data)
        if len(data) > MAX_FILE_BYTES or self._left < 0:
            raise self._document.problem(place, f"too large: a file may have {MAX_FILE_BYTES} bytes, all together {MAX_FILES_BYTES}")
        return data

    def _read(self, name: str, place: Field) -> bytes:
        path = (self._folder / name).resolve()
        if Path(name).is_absolute() or not path.is_relative_to(self._folder):
            raise self._document.problem(place, f"{name!r} leads out of the folder of this file; name one in it or below it")
        try:
            if not path.is_file():
                raise self._document.problem(place, f"{name!r}: there is no such file in {self._folder}")
            with path.open("rb") as file:
                return file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise self._document.problem(place, f"{name!r} cannot be read: {error.strerror}") from error


def _names(data: Any, place: Field) -> list[str]:
    for part in place:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return []
    return list(data or ())


def _as_content(data: bytes) -> str | Content:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return Content(base64=base64.b64encode(data).decode("ascii"))


def _problems(tasks: Tasks) -> Iterator[TaskError]:
    """What one model alone cannot see."""
    if has_control_token(tasks.policy):
        yield tasks.document.problem(("policy",), CONTROL)
    ids: dict[str, int] = {}
    for number, spec in enumerate(tasks.specs):
        place: Field = ("tasks", number)
        first = ids.setdefault(spec.id, number)
        if first != number:
            yield tasks.document.problem((*place, "id"), f"{spec.id!r} is the id of tasks[{first}] too; each task needs one of its own")
        if has_control_token(spec.instruction):
            yield tasks.document.problem((*place, "instruction"), CONTROL)
        if not spec.tools:
            yield tasks.document.problem((*place, "tools"), "is missing; list them here or under defaults")
            continue
        if _has_files(spec) and not set(spec.tools) & CELL_PACKS:
            yield tasks.document.problem(
                (*place, "tools"), "the task has files, and no tool that reaches them; add files or shell, or take the files out"
            )


def _has_files(spec: TaskSpec) -> bool:
    only = () if isinstance(spec.changes.only, str) else spec.changes.only
    parts = (*spec.checks, *only, *spec.changes.never)
    return bool(spec.setup.files) or any(isinstance(one, FileCheck | FilesRule) for one in parts)


def written(policy: str, specs: Sequence[TaskSpec]) -> str:
    """Tasks as a file that stands alone."""
    return json.dumps({"version": 1, "policy": policy, "tasks": [dumped(spec) for spec in specs]}, ensure_ascii=False, indent=1) + "\n"


def dumped(spec: TaskSpec) -> dict[str, Json]:
    """A task as plain data: what it says, and no default of ours."""
    found: dict[str, Json] = spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return found


def _lines(document: Document, error: ValidationError) -> list[str]:
    found = [(_field(document, one["loc"], one["type"] == "missing"), one) for one in error.errors(include_url=False)]
    # An item that is wrong makes its list look too short as well.
    inner = {path[:number] for path, _ in found for number in range(len(path))}
    by_path: dict[Field, list[Any]] = {}
    for path, one in sorted(found, key=lambda pair: document.place(pair[0])):
        if one["type"] != "too_short" or path not in inner:
            by_path.setdefault(path, []).append(one)
    lines = [str(document.problem(path, message(path, problems))) for path, problems in by_path.items()]
    return lines if len(lines) <= SHOWN else [*lines[:SHOWN], f"and {len(lines) - SHOWN} more"]


def _field(document: Document, parts: tuple[str | int, ...], missing: bool) -> Field:
    """The place in the file that an error of the models means: names of alternatives are no part of it."""
    path: Field = ()
    for number, part in enumerate(parts):
        if (*path, part) in document.places or (missing and number == len(parts) - 1):
            path = (*path, part)
    return path
