"""A file of tasks is whole or refused, and every refusal names line, field and fix."""

import json
import re
from pathlib import Path

import jsonschema
import pytest

from wardian.envs.errors import TaskError
from wardian.envs.taskfile.loading import MAX_FILE_BYTES, load_tasks
from wardian.envs.taskfile.reading import read
from wardian.envs.taskfile.schema import BudgetPart, Changes, TaskSpec, json_schema

from .conftest import one_task, tasks_in

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "chinook" / "tasks.yaml"
PAGE = (ROOT / "docs" / "your-own-database.md").read_text()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"idd": "x"}, "tasks.yaml:8:5: tasks[0].idd: there is no such key here; did you mean id?"),
        ({"solution": "[{tool: wait, sql: x}]"}, "tasks[0].solution[0].tool: this key has no place here, or none beside the others here"),
        (
            {"tools": "[sql]"},
            "tasks.yaml:5:13: tasks[0].tools[0]: must be 'query', 'execute', 'files', 'shell' or 'wait', not 'sql'",
        ),
        ({"id": "A b"}, "tasks[0].id: must be lower-case letters, digits and -, such as fix-total"),
        ({"instruction": "''"}, "tasks[0].instruction: must not be empty; write a text"),
        ({"instruction": "say <|im_end|>"}, "tasks.yaml:4:5: tasks[0].instruction: holds what looks like a control token"),
        ({"instruction": "5"}, "tasks[0].instruction: must be a text in quotes, not 5"),
        ({"checks": "[]"}, "tasks[0].checks: must not be empty; write at least one"),
        (
            {"checks": "[{name: a, sql: x, rows: 1}]"},
            "checks[0].rows: must be a list of rows, each a list of values, such as [[1]], not 1",
        ),
        (
            {"checks": "[{name: a, sql: x, rows: [1]}]"},
            "checks[0].rows[0]: must be a list of rows, each a list of values, such as",
        ),
        ({"checks": "[{name: a, sql: x, rows: [[[1]]]}]"}, "rows[0][0]: must be one value: a text, a number, true, false or null, not [1]"),
        ({"budgets": "5"}, "tasks[0].budgets: must be an object such as {key: value}, not 5"),
        ({"budgets": "{steps: x}"}, "tasks[0].budgets.steps: must be a whole number, not 'x'"),
        ({"checks": "[{name: a, rows: [[1]]}]"}, "tasks[0].checks[0]: must be an object with the key `sql` or `file` or `answer`"),
        ({"checks": "[{name: a, sql: x}]"}, "tasks[0].checks[0]: give either rows or count"),
        ({"checks": "[{name: a, sql: x, rows: [[1], [1, 2]]}]"}, "all rows must have the same number of values"),
        ({"checks": "[{name: a, sql: x, count: 1, hard: no}]"}, "tasks[0].checks[0].hard: must be true or false, not 'no'"),
        ({"checks": "[{name: changes, sql: x, count: 1}]"}, "the name 'changes' is taken"),
        ({"checks": "[{name: a, answer: {matches: '('}}]"}, "tasks[0].checks[0].answer.matches: no regular expression"),
        ({"checks": "[{name: a, answer: {}}]"}, "answer: give equals, contains or matches"),
        ({"checks": "[{name: a, file: ../x}]", "tools": "[shell]"}, "tasks[0].checks[0].file: a path lies below /workspace"),
        ({"checks": "[{name: a, file: x}]"}, "tasks[0].tools: the task has files, and no tool that reaches them"),
        ({"changes": "{only: all}"}, "tasks[0].changes.only: must be 'any', not 'all'"),
        ({"changes": "{only: [{tabel: x}]}"}, "tasks[0].changes.only[0]: must be an object with the key `table` or `file`"),
        ({"setup": "{sql: INSERT INTO t VALUES (1, 2)}"}, "inside { } a text with a comma must stand in quotes"),
        ({"setup": "{sql: 5}"}, "tasks[0].setup.sql: must be SQL, a list of statements"),
        ({"setup": "{files: {a: {from: b, text: c}}}", "tools": "[files]"}, "give exactly one of text, base64 and from"),
        ({"setup": "{files: {a: {base64: '?'}}}", "tools": "[files]"}, "tasks[0].setup.files.a.base64: is no base64"),
        ({"solution": "[{message: a}, {sql: b}]"}, "a message ends the episode, so it stands last"),
        ({"start": "2026-01-05"}, "tasks[0].start: must be a time with its zone, such as 2026-01-05T09:00:00Z, not '2026-01-05'"),
        ({"budgets": "{steps: 0}"}, "tasks[0].budgets.steps: must be at least 1, not 0"),
        ({"split": "test"}, "tasks[0].split: must be 'train', 'eval' or 'heldout', not 'test'"),
    ],
)
def test_what_is_wrong_in_a_task_is_named(parts: dict[str, str], message: str) -> None:
    with pytest.raises(TaskError) as caught:
        tasks_in(one_task(**parts))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "must be an object with version: and tasks:"),
        ("version: 1\ntasks: []", "tasks"),
        ("tasks: 5", "tasks.yaml:1:1: version: is missing"),
        (one_task().replace("version: 1", "version: 2"), "tasks.yaml:1:1: version"),
        (one_task() + one_task().split("tasks:\n")[1], "tasks[1].id: 'raise' is the id of tasks[0] too"),
        (one_task().replace("    tools: [query, execute]\n", ""), "tasks[0].tools: is missing; list them here or under defaults"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(text: str, message: str) -> None:
    with pytest.raises(TaskError) as caught:
        tasks_in(text)
    assert message in str(caught.value)


def test_several_mistakes_are_all_told() -> None:
    with pytest.raises(TaskError) as caught:
        tasks_in(one_task(id="A", split="b", difficulty="c"))
    assert [line.split(":")[1] for line in str(caught.value).splitlines()] == ["3", "8", "9"]
    with pytest.raises(TaskError) as caught:
        tasks_in(one_task(instruction="<|im_end|>", setup="{files: {a: {from: gone}}}"))
    assert [line.split(": ")[1] for line in str(caught.value).splitlines()] == [
        "tasks[0].setup.files.a.from",
        "tasks[0].instruction",
        "tasks[0].tools",
    ]


def test_tasks_take_what_they_do_not_say_from_the_defaults() -> None:
    defaults = "version: 1\ndefaults: {tools: [query, execute], split: eval, budgets: {steps: 5, tokens: 9000}}\n"
    text = one_task(budgets="{steps: 7}").replace("version: 1\n", defaults).replace("    tools: [query, execute]\n", "")
    (spec,) = tasks_in(text).specs
    assert (spec.tools, spec.split, spec.budgets.steps, spec.budgets.tokens) == (("query", "execute"), "eval", 7, 9000)


def test_files_come_from_the_folder_of_the_file_and_from_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "notes.bin").write_bytes(b"\xff\x00")
    (tmp_path / "secret").write_text("s")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "in" / "large").write_bytes(bytes(MAX_FILE_BYTES + 1))
    file = tmp_path / "in" / "tasks.yaml"

    def load(source: str) -> object:
        file.write_text(one_task(tools="[files, query, execute]", setup=f"{{files: {{data.bin: {{from: {source}}}}}}}"))
        return load_tasks(file).specs[0].setup.model_dump(exclude_unset=True)["files"]

    assert load("notes.bin") == {"/workspace/data.bin": {"base64": "/wA="}}
    for source, message in (
        ("../secret", "leads out of the folder"),
        ("link", "leads out of the folder"),
        (str(tmp_path / "secret"), "leads out of the folder"),
        ("gone", "there is no such file"),
        (".", "there is no such file"),
        ("large", "too large"),
    ):
        with pytest.raises(TaskError, match=message) as caught:
            load(source)
        assert "tasks.yaml:8:" in str(caught.value)


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="cannot be read"):
        load_tasks(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"version: 1\npolicy: \xe9\n")
    with pytest.raises(TaskError, match=r"latin.yaml:2: is no UTF-8"):
        load_tasks(tmp_path / "latin.yaml")


def test_a_copy_stands_alone_and_says_the_same() -> None:
    tasks = load_tasks(EXAMPLE)
    again = tasks_in(tasks.copy())
    assert again.digest == tasks.digest
    assert again.specs == tasks.specs
    assert "from" not in json.loads(tasks.copy())["tasks"][3]["setup"]["files"]


def test_a_copy_keeps_that_json_null_is_wanted() -> None:
    tasks = tasks_in(one_task(tools="[files, query, execute]", checks="[{name: a, file: x, json: null}]"))
    assert tasks_in(tasks.copy()).specs[0].checks[0].wants_json  # type: ignore[union-attr]


def test_the_published_schema_takes_the_examples_and_refuses_others() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(read(EXAMPLE.read_text(), "example").data)
    for wrong in (one_task(idd="x"), one_task(changes="{only: [{tabel: x}]}"), one_task(checks="[{name: a, sql: 5, count: 1}]")):
        assert not validator.is_valid(read(wrong, "wrong").data)


def test_the_page_shows_a_task_that_is_right_and_names_every_key() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert [spec.id for spec in tasks_in(example).specs] == ["correct-total"]
    keys = [*TaskSpec.model_fields, *BudgetPart.model_fields, *Changes.model_fields, "rows", "count", "exists", "json", "hard", "tolerance"]
    assert [key for key in keys if f"`{key}" not in PAGE] == []
