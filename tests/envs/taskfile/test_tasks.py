"""Tasks of a file as episodes: setup, tools, checks and forbidden changes, on both engines."""

import re
from dataclasses import replace
from typing import Any

import pytest

from wardian.envs.action import Message, call
from wardian.envs.errors import TaskError
from wardian.envs.taskfile import asking
from wardian.envs.taskfile.family import WrittenTask
from wardian.envs.taskfile.trial import try_task
from wardian.envs.verifier import Verdict

from .conftest import both, one_task

TASK = "raise/medium/seed-0"
VALUES = """[
  {name: flags, sql: 'SELECT name, active FROM People', rows: [[Chen, true], [Ada, true], [Bela, false]]},
  {name: numbers, sql: 'SELECT Active, 7 FROM People', compare: contains, rows: [[1, 7.0]]},
  {name: sum, sql: 'SELECT sum(Amount) FROM Sale WHERE PeopleId = 1', rows: [[0.3]]},
  {name: near, sql: 'SELECT Amount FROM Sale ORDER BY SaleId', compare: ordered, tolerance: 0.05, rows: [[0.1], [0.25], [5.9], [1.5]]},
  {name: times, sql: 'SELECT Since FROM People ORDER BY PeopleId', rows: [[2025-03-01 09:00:00], [null], [2025-03-02T10:30:00Z]]},
  {name: two, sql: 'SELECT 1 FROM People WHERE Active', count: 2},
  {name: wrong-order, sql: 'SELECT PeopleId FROM People ORDER BY PeopleId', compare: ordered, rows: [[2], [1], [3]]},
  {name: wrong-count, sql: 'SELECT PeopleId FROM People', count: 2},
  {name: more, sql: 'SELECT PeopleId FROM People', rows: [[1], [2]]},
  {name: null-is-nothing-else, sql: 'SELECT 0', rows: [[null]]},
]""".replace("WHERE Active'", "WHERE Active = (1 = 1)'").replace("\n", "\n      ")
NAMES = {"People": "people", "Sale": "sale", "PeopleId": "people_id", "SaleId": "sale_id"}


def for_engine(text: str, engine: str) -> str:
    """The shop's names on an engine: those of its Postgres form have underscores."""
    if engine == "postgres":
        for name in sorted(NAMES, key=len, reverse=True):
            text = text.replace(name, NAMES[name])
    return text


def ada(sale: int, amount: float) -> str:
    return f"UPDATE Sale SET Amount = {amount} WHERE SaleId = {sale}"


def one(engine: str, **parts: str) -> str:
    checks = "[{name: amount, sql: SELECT Amount FROM Sale WHERE SaleId = 1, rows: [[7]]}]"
    return for_engine(one_task(**({"checks": checks, "solution": f"[{{sql: {ada(1, 7)}}}]"} | parts)), engine)


async def judged(env: Any, *statements: str, said: str = "Done.") -> Verdict:
    await env.reset(TASK)
    for sql in statements:
        step = await env.step(call("execute_sql", sql=sql))
        assert step.observation.results[0]["status"] == "ok", step.observation.rendered
    step = await env.step(Message(said))
    assert step.failed is None
    found: Verdict = step.info.verdict
    return found


def failed(verdict: Verdict | None) -> list[str]:
    assert verdict is not None
    return [check.name for check in verdict.checks if not check.passed]


@both
@pytest.mark.anyio
async def test_values_are_compared_the_same_on_both_engines(open_world: Any, engine_name: str) -> None:
    async with open_world(one(engine_name, checks=VALUES)) as env:
        verdict = await judged(env)
    assert failed(verdict) == ["wrong-order", "wrong-count", "more", "null-is-nothing-else"]


@both
@pytest.mark.anyio
async def test_setup_is_part_of_the_start_and_not_a_change_of_the_agent(open_world: Any, engine_name: str) -> None:
    setup = "{sql: 'INSERT INTO Sale VALUES (9, 3, 2.5); UPDATE People SET Name = ''Dora'' WHERE PeopleId = 1'}"
    checks = "[{name: dora, sql: 'SELECT Name FROM People WHERE PeopleId = 1', rows: [[Dora]]}]"
    async with open_world(one(engine_name, setup=setup, checks=checks)) as env:
        first = await env.reset(TASK)
        one_start = env.reset_info.fingerprint
        assert (await env.reset(TASK), env.reset_info.fingerprint) == (first, one_start)
        assert failed(await judged(env)) == []
        undone = await judged(env, for_engine("DELETE FROM Sale WHERE SaleId = 9", engine_name))
    assert failed(undone) == ["changes"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("DROP TABLE Sale", "setup: DROP TABLE Sale"),
        ("UPDATE Sale SET Amount = random()", "random"),
        ("INSERT INTO Sale VALUES (9, 99, 1)", "FOREIGN KEY"),
        ("SELECT 1", "only INSERT, UPDATE and DELETE"),
    ],
)
async def test_setup_that_cannot_be_repeated_is_refused(open_world: Any, sql: str, message: str) -> None:
    async with open_world(one("sqlite", setup=f'{{sql: "{sql}"}}')) as env:
        with pytest.raises(TaskError, match=message):
            await env.reset(TASK)


@both
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("changes", "statements", "expected"),
    [
        ("{}", [ada(1, 7)], ["changes"]),
        ("{only: any}", [ada(1, 7), "DELETE FROM Sale WHERE SaleId = 4"], []),
        ("{only: [{table: sale}]}", [ada(1, 7), "DELETE FROM Sale WHERE SaleId = 4"], []),
        ("{only: [{table: Sale, columns: [amount]}]}", [ada(1, 7)], []),
        ("{only: [{table: Sale, columns: [amount]}]}", [ada(1, 7), "UPDATE Sale SET PeopleId = 2 WHERE SaleId = 1"], ["changes"]),
        ("{only: [{table: Sale, columns: [amount]}]}", [ada(1, 7), "DELETE FROM Sale WHERE SaleId = 4"], ["changes"]),
        ("{only: [{table: Sale, where: {sale_id: 1}}]}", [ada(1, 7)], []),
        ("{only: [{table: Sale, where: {SaleId: [1, 2]}}]}", [ada(1, 7), ada(3, 7)], ["changes"]),
        ("{only: [{table: Sale, where: {PeopleId: 1}}]}", [ada(1, 7), "UPDATE Sale SET PeopleId = 2 WHERE SaleId = 1"], ["changes"]),
        ("{only: [{table: Sale, where: {amount: [0.1, 7]}}]}", [ada(1, 7)], []),
        ("{only: [{table: Sale, kinds: [add]}]}", [ada(1, 7)], ["changes"]),
        ("{only: any, never: [{table: Sale, kinds: [remove]}]}", [ada(1, 7)], []),
        ("{only: any, never: [{table: Sale, kinds: [remove]}]}", [ada(1, 7), "DELETE FROM Sale WHERE SaleId = 4"], ["never"]),
        ("{only: any, never: [{table: Sale, columns: [PeopleId]}]}", [ada(1, 7)], []),
        (
            "{only: any, never: [{table: People, where: {Name: Ada}}]}",
            [ada(1, 7), "UPDATE People SET Name = 'A' WHERE PeopleId = 1"],
            ["never"],
        ),
        ("{}", [ada(1, 8), ada(1, 0.1)], ["amount"]),  # what is as before is no change
    ],
)
async def test_what_else_was_changed_is_found(
    open_world: Any, engine_name: str, changes: str, statements: list[str], expected: list[str]
) -> None:
    async with open_world(one(engine_name, changes=changes)) as env:
        verdict = await judged(env, *[for_engine(sql, engine_name) for sql in statements])
    assert failed(verdict) == expected
    assert verdict.hard_failure == ("never" in expected)


@pytest.mark.anyio
async def test_the_last_message_is_looked_at(open_world: Any) -> None:
    checks = "[{name: said, answer: {matches: '^7( dollars)?$', contains: ['7']}}]"
    async with open_world(one("sqlite", checks=checks)) as env:
        assert failed(await judged(env, said="It is\n7 dollars")) == []
        assert failed(await judged(env, said="77")) == ["said"]


@pytest.mark.anyio
async def test_a_check_that_works_at_the_start_and_is_refused_at_the_end_has_not_passed(open_world: Any) -> None:
    sign = "SELECT CASE WHEN Active THEN 1 ELSE 22 END FROM People WHERE PeopleId = 1"
    checks = f"[{{name: like, sql: 'SELECT 1 FROM People WHERE Name LIKE (SELECT Name) ESCAPE ({sign})', count: 3}}]"
    async with open_world(one("sqlite", checks=checks, changes="{only: any}")) as env:
        assert failed(await judged(env, ada(1, 7))) == []
        assert failed(await judged(env, "UPDATE People SET Active = 0")) == ["like"]


UP_TO = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < ({})) SELECT count(*) FROM c"


@both
@pytest.mark.anyio
async def test_a_check_that_the_agents_rows_make_slow_has_not_passed(
    open_world: Any, engine_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limits in ("LIMITS", "START_LIMITS"):
        monkeypatch.setattr(asking, limits, replace(asking.LIMITS, time_s=1.0, steps=1_000_000))
    slow, same = UP_TO.format("SELECT max(Amount) FROM Sale"), UP_TO.format("SELECT 1")
    checks = f"[{{name: slow, sql: '{slow}', count: 1}}, {{name: same, sql: '{same}', count: 1}}]"
    async with open_world(one(engine_name, checks=checks, changes="{only: any}")) as env:
        assert failed(await judged(env, for_engine(ada(1, 9), engine_name))) == []
        verdict = await judged(env, for_engine(ada(1, 10**12), engine_name))
    assert failed(verdict) == ["slow"]
    assert "takes too long with what the agent wrote" in verdict.checks[0].detail


@pytest.mark.anyio
async def test_a_check_that_is_slow_at_the_start_too_is_at_fault_itself(open_world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for limits in ("LIMITS", "START_LIMITS"):
        monkeypatch.setattr(asking, limits, replace(asking.LIMITS, steps=1_000_000))
    checks = f"[{{name: slow, sql: '{UP_TO.format(10**12)}', count: 1}}]"
    async with open_world(one("sqlite", checks=checks)) as env:
        await env.reset(TASK)
        await env.step(call("execute_sql", sql=ada(1, 7)))
        step = await env.step(Message("Done."))
    assert step.reward is None
    assert step.info.end_cause == "verifier"


@pytest.mark.anyio
async def test_a_text_for_which_a_pattern_takes_forever_does_not_pass(open_world: Any) -> None:
    checks = "[{name: said, answer: {matches: '(?:x+x+)+y'}}]"
    async with open_world(one("sqlite", checks=checks)) as env:
        verdict = await judged(env, said="x" * 3000)
        assert failed(await judged(env, said="xxy")) == []
    assert failed(verdict) == ["said"]
    assert "took too long" in verdict.checks[0].detail


@both
@pytest.mark.anyio
@pytest.mark.parametrize("sql", ["SELECT nothing FROM Sale", "DELETE FROM Sale", "SELECT 1; SELECT 2"])
async def test_a_check_that_cannot_be_carried_out_fails_the_episode_and_is_no_reward(open_world: Any, engine_name: str, sql: str) -> None:
    async with open_world(one(engine_name, checks=f"[{{name: broken, sql: {sql}, count: 1}}]")) as env:
        await env.reset(TASK)
        step = await env.step(Message("Done."))
    assert step.reward is None
    assert step.info.end_cause == "verifier"
    assert re.match(r"verifier: tasks\.yaml:\d+:\d+: tasks\[0\]\.checks\[0\]\.sql: .", step.failed), step.failed


@both
@pytest.mark.anyio
async def test_a_check_that_the_agents_rows_break_is_the_agents_failure(open_world: Any, engine_name: str) -> None:
    queries = {"sqlite": "SELECT abs(CAST(Amount AS INTEGER)) FROM Sale", "postgres": "SELECT 1 / CAST(amount + 1e15 AS bigint) FROM sale"}
    checks = f"[{{name: broken, sql: '{queries[engine_name]}', count: 4}}]"
    amount = {"sqlite": "-9223372036854775808", "postgres": "-1e15"}[engine_name]
    async with open_world(one(engine_name, checks=checks, changes="{only: any}")) as env:
        assert failed(await judged(env)) == []
        assert failed(await judged(env, for_engine(f"UPDATE Sale SET Amount = {amount}", engine_name))) == ["broken"]


@pytest.mark.anyio
@pytest.mark.parametrize("engine_name", ["postgres"])
async def test_a_number_of_thousands_of_digits_ends_no_episode(open_world: Any, engine_name: str) -> None:
    checks = "[{name: huge, sql: 'SELECT 10::numeric ^ (amount * 1000)::int FROM sale WHERE sale_id = 1', rows: [[1.0]], tolerance: 0.5}]"
    async with open_world(one(engine_name, checks=checks, changes="{only: any}")) as env:
        await env.reset(TASK)
        seen = await env.step(call("query_database", sql="SELECT 10::numeric ^ 5000"))
        assert seen.observation.results[0]["status"] == "ok"
        await env.step(call("execute_sql", sql="UPDATE sale SET amount = 5 WHERE sale_id = 1 RETURNING 10::numeric ^ 5000"))
        last = await env.step(Message("Done."))
    assert failed(last.info.verdict) == ["huge"]


@both
@pytest.mark.anyio
async def test_a_sound_task_passes_its_trial(open_world: Any, engine_name: str) -> None:
    changes = "{only: [{table: Sale, columns: [amount], where: {SaleId: 1}}]}"
    async with open_world(one(engine_name, changes=changes)) as env:
        trial = await try_task(env, family_of(env))
    assert (trial.problems, trial.idle_passes, trial.steps) == ((), (), 2)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"checks": "[{name: any, sql: SELECT 1, count: 1}]", "changes": "{only: any}"}, "doing nothing passes every check (any, changes)"),
        ({}, "the solution does not pass changes: also changed: Sale[1]: Amount '0.1' -> 7"),
        ({"solution": "[{sql: UPDATE Sale SET Absent = 1}]"}, "tasks[0].solution[0]: invalid_arguments: no such column: Absent"),
        ({"checks": "[{name: bad, sql: SELECT x, count: 1}]"}, "tasks.yaml:6:26: tasks[0].checks[0].sql: no such column: x"),
        ({"budgets": "{steps: 1}", "changes": "{only: any}", "checks": "[{name: a, answer: {contains: [x]}}]"}, "(ended by steps)"),
        ({"setup": "{sql: DROP TABLE Sale}"}, "tasks[0].setup.sql: DROP TABLE Sale: only INSERT"),
    ],
)
async def test_a_task_that_is_not_sound_is_told_by_its_trial(open_world: Any, parts: dict[str, str], problem: str) -> None:
    async with open_world(one("sqlite", **parts)) as env:
        trial = await try_task(env, family_of(env))
    assert any(problem in line for line in trial.problems), trial.problems


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"changes": "{only: [{table: Sales}]}"}, "tasks.yaml:8:5: tasks[0].changes: there is no table 'Sales'; there are People, Sale"),
        ({"changes": "{only: [{table: Sale, where: {Id: 1}}]}"}, "the table Sale has no column 'Id'"),
        ({"checks": "[{name: a, sql: {postgres: SELECT 1}, count: 1}]"}, "tasks[0].checks[0].sql: has no SQL for sqlite"),
        ({"setup": "{sql: {postgres: [DELETE FROM x]}}"}, "tasks[0].setup.sql: has no SQL for sqlite"),
        ({"solution": "[{sql: {postgres: DELETE FROM x}}]"}, "tasks[0].solution[0].sql: has no SQL for sqlite"),
        (
            {"tools": "[query]"},
            "tasks[0].solution[0]: needs the tool execute_sql, and the task's tools give describe_database",
        ),
    ],
)
async def test_a_task_that_does_not_fit_its_database_is_refused(open_world: Any, parts: dict[str, str], message: str) -> None:
    with pytest.raises(TaskError) as caught:
        async with open_world(one("sqlite", **parts)):
            pass
    assert message in str(caught.value)


@pytest.mark.anyio
async def test_an_agent_sees_its_tools_and_tables_alone(open_world: Any) -> None:
    async with open_world(one("sqlite", tools="[query, execute, wait]")) as env:
        await env.reset(TASK)
        assert [tool["function"]["name"] for tool in env.tool_schemas] == ["describe_database", "query_database", "execute_sql", "wait"]
        step = await env.step(call("describe_database"))
    assert step.observation.results[0]["result"] == {
        "People": {"PeopleId": "integer primary key", "Name": "text not null", "Active": "boolean not null", "Since": "datetime"},
        "Sale": {"SaleId": "integer primary key", "PeopleId": "integer not null", "Amount": "numeric(10,2) not null"},
    }


@pytest.mark.anyio
async def test_a_write_is_done_once_for_its_key_and_refused_whole(open_world: Any) -> None:
    more = "UPDATE Sale SET Amount = Amount + 1 WHERE SaleId = 4"
    async with open_world(one("sqlite")) as env:
        await env.reset(TASK)
        for _ in range(2):
            step = await env.step(call("execute_sql", sql=more, idempotency_key="k"))
            assert step.observation.results[0]["result"] == {"rows_changed": 1}
        for sql, status in (
            ("SELECT 1", "invalid_arguments"),
            ("DROP TABLE Sale", "invalid_arguments"),
            ("DELETE FROM People", "conflict"),
        ):
            step = await env.step(call("execute_sql", sql=sql))
            assert (step.observation.results[0]["status"], step.info.database) == (status, ())
        step = await env.step(call("query_database", sql="SELECT Amount FROM Sale WHERE SaleId = 4"))
    assert step.observation.results[0]["result"]["rows"] == [[2.5]]


def family_of(env: Any) -> WrittenTask:
    family = env.world.families[0]
    assert isinstance(family, WrittenTask)
    return family
