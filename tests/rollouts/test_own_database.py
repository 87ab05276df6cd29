"""`wardian run --template --tasks` and `wardian tasks check`: a database and tasks of one's own, from the command line to the replay."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from typer.testing import CliRunner

from wardian.cli import build_app
from wardian.cli.own import settle
from wardian.envs.errors import TaskError
from wardian.rollouts.errors import UsageProblem
from wardian.sandbox.database.imports import import_database

from .conftest import Wardian

TASKS = """
version: 1
tasks:
  - id: raise
    instruction: Make the first amount 7.
    tools: [query, execute]
    difficulty: easy
    checks: [{name: amount, sql: SELECT amount FROM sale WHERE id = 1, rows: [[7]]}]
    changes: {only: [{table: sale, columns: [amount], where: {id: 1}}]}
    solution: [{sql: UPDATE sale SET amount = 7 WHERE id = 1}]
  - id: remove
    instruction: Remove the second sale.
    tools: [execute]
    difficulty: hard
    setup: {sql: 'INSERT INTO sale VALUES (3, 9)'}
    checks: [{name: left, sql: SELECT id FROM sale, rows: [[1], [3]]}]
    changes: {only: [{table: sale, kinds: [remove]}]}
    solution: [{sql: DELETE FROM sale WHERE id = 2}]
"""
Command = Callable[..., Any]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with tasks, whose database is imported as the template `shop`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "tasks.yaml").write_text(TASKS)
    import_shop(tmp_path, 1.5)
    return tmp_path


def import_shop(folder: Path, amount: float) -> None:
    with closing(sqlite3.connect(folder / "shop.sqlite")) as raw:
        raw.executescript("DROP TABLE IF EXISTS sale; CREATE TABLE sale (id INTEGER PRIMARY KEY, amount REAL NOT NULL)")
        raw.execute("INSERT INTO sale VALUES (1, ?), (2, 2)", (amount,))
        raw.commit()
    anyio.run(lambda: import_database(str(folder / "shop.sqlite"), "shop", replace=True))


@pytest.fixture
def command() -> Command:
    return lambda *arguments: CliRunner().invoke(build_app(), [str(one) for one in arguments])


def run(command: Command, shop: Path, *more: object) -> Any:
    return command("run", "--template", "shop", "--tasks", shop / "tasks.yaml", "--out", shop / "out", "--json", *more)


def test_tasks_are_checked(shop: Path, command: Command) -> None:
    done = command("tasks", "check", shop / "tasks.yaml", "--template", "shop")
    assert done.exit_code == 0, done.output
    assert "right: raise/easy/seed-0 (2 steps)" in done.stdout
    (shop / "tasks.yaml").write_text(TASKS.replace("SET amount = 7", "SET amount = 8"))
    done = command("tasks", "check", shop / "tasks.yaml", "--template", "shop")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (1, "2 tasks, 1 wrong")
    assert "the solution does not pass amount: expected [[7]], found [[8.0]]" in done.stdout


def test_a_check_with_a_wrong_column_is_told_in_one_line(shop: Path, command: Command) -> None:
    (shop / "tasks.yaml").write_text(TASKS.replace("SELECT amount", "SELECT amuont"))
    wrong = f"{shop / 'tasks.yaml'}:8:29: tasks[0].checks[0].sql: no such column: amuont"
    done = command("tasks", "check", shop / "tasks.yaml", "--template", "shop")
    assert (done.exit_code, done.stderr, done.stdout.count(wrong)) == (1, "", 1), done.output
    ran = run(command, shop, "--episodes", 1, "--difficulty", "easy", "--attempts", 1, "--no-progress")
    assert (ran.stderr.count(wrong), "Traceback" in ran.stderr) == (1, False), ran.stderr


def test_a_run_replays_in_another_process_and_knows_its_tasks_and_template(shop: Path, command: Command, wardian: Wardian) -> None:
    done = run(command, shop, "--policy", "expert,idle", "--episodes", 4, "--faults", "harsh")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["world"], found["by_family"]["raise"]["episodes"]) == ("template/shop", 2)
    assert (found["by_policy"]["expert"]["success_rate"], found["by_policy"]["idle"]["success_rate"]) == (1.0, 0.0)
    assert command("validate", shop / "out").exit_code == 0
    (shop / "tasks.yaml").unlink()
    again = wardian("replay", shop / "out")
    assert (again.returncode, again.stdout.splitlines()[-1]) == (0, "identical 4/4"), again.stderr

    copy = shop / "out" / "tasks.json"
    kept = copy.read_text()
    copy.write_text(kept.replace("first amount", "very first amount"))
    done = command("replay", shop / "out")
    assert (done.exit_code, "env: recorded template/shop@" in done.stderr) == (2, True), done.output
    assert "not reproduced" in command("replay", shop / "out", "--force").stdout
    copy.unlink()
    assert "give --tasks FILE" in command("replay", shop / "out").stderr
    copy.write_text(kept)
    import_shop(shop, 1.25)
    done = command("replay", shop / "out")
    assert (done.exit_code, "template: recorded" in done.stderr) == (2, True), done.output


def test_a_run_goes_on_with_the_same_tasks_alone(shop: Path, command: Command) -> None:
    assert run(command, shop, "--episodes", 2).exit_code == 0
    done = run(command, shop, "--episodes", 4, "--workers", 2)
    assert (done.exit_code, json.loads(done.stdout.splitlines()[-1])["succeeded"]) == (0, 4), done.output
    (shop / "tasks.yaml").write_text(TASKS.replace("first amount", "very first amount"))
    done = run(command, shop, "--episodes", 6)
    assert (done.exit_code, "begun by other versions: env was" in done.stderr) == (2, True), done.output


def test_a_difficulty_that_no_task_has_is_said(shop: Path, command: Command) -> None:
    done = run(command, shop, "--difficulty", "medium")
    assert (done.exit_code, "difficulty: no task of template/shop is medium" in done.stderr) == (2, True), done.output


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "world: give either the name of a world"),
        ({"world": "toy", "template": "shop", "tasks": "tasks.yaml"}, "world: give either"),
        ({"template": "shop"}, "--template NAME and --tasks FILE go together"),
        ({"tasks": "tasks.yaml"}, "--template NAME and --tasks FILE go together"),
        ({"template": "shop", "tasks": "tasks.yaml", "db": "postgres"}, "db: the template shop is on sqlite"),
    ],
)
def test_options_that_do_not_name_one_world_are_refused(shop: Path, given: dict[str, str], message: str) -> None:
    asked = {name: given.get(name) for name in ("world", "template", "tasks", "db")}
    if asked["tasks"]:
        asked["tasks"] = str(shop / "tasks.yaml")
    with pytest.raises(UsageProblem, match=message):
        settle(asked)


def test_a_template_that_was_not_imported_is_named(shop: Path) -> None:
    with pytest.raises(TaskError, match="template: there is no template 'nope'; there are: shop"):
        settle({"world": None, "template": "nope", "tasks": str(shop / "tasks.yaml"), "db": None})


def test_the_schema_of_tasks_is_published(command: Command) -> None:
    assert "checks" in json.loads(command("schema", "tasks").stdout)["$defs"]["TaskSpec"]["properties"]
