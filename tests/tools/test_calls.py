"""Every reported kind of malformed call, through the environment, under each of its policies.

`calls.jsonl` is ours; where the shared folder is beside the checkout, its calls are played as well. `expect` begins with what the answer
must be, in the words of `wardian.tools.loading`.
"""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field

from wardian.envs.action import Action, Step, ToolCalls, call
from wardian.envs.environment import ToolEnvironment
from wardian.envs.family import Family
from wardian.envs.hearing import Heard
from wardian.envs.registry import load_world
from wardian.envs.settings import MalformedPolicy
from wardian.envs.task import Budgets, Difficulty, Task
from wardian.envs.worlds.toy.families.requests import LendingDesk
from wardian.rollouts.inference.completion import read_body
from wardian.rollouts.inference.reading import read
from wardian.sandbox.database import SqliteTemplate
from wardian.tools.completions import CallFormat, parse_completion
from wardian.tools.contract import Arguments, Json, Source, Tool, ToolCall, ToolContext
from wardian.tools.faults import NONE
from wardian.tools.loading import Kind, Rejected
from wardian.tools.schemas import arguments_schema

pytestmark = pytest.mark.anyio
SHARED = Path(__file__).parents[3] / "shared" / "cases"
GOOD = call("list_tables")


class WriteFile(Arguments):
    path: str
    content: str


class Shell(Arguments):
    command: str
    timeout_s: int = Field(default=30, ge=1, le=600)


class UpdateOrder(Arguments):
    order_id: int
    status: Literal["open", "held", "closed"] = "open"
    lines: list[dict[str, Any]] = Field(default_factory=list)
    note: str | None = None
    rush: bool = False
    amount: float = 0.0


class ReadFile(Arguments):
    path: str
    offset: int = 0
    limit: int = 100


class ListTables(Arguments):
    """Nothing to say."""


MODELS: dict[str, type[Arguments]] = {
    "write_file": WriteFile,
    "shell": Shell,
    "update_order": UpdateOrder,
    "read_file": ReadFile,
    "list_tables": ListTables,
}


async def echo(context: ToolContext, arguments: Arguments) -> Json:
    return arguments.model_dump(exclude_unset=True)


TOOLS = tuple(Tool(name, "Say it back.", model, echo, source=Source.CELL, mutates=True) for name, model in MODELS.items())


class Talk(LendingDesk):
    """Messages do not end it, and no budget does."""

    def generate(self, difficulty: Difficulty, seed: int) -> Task:
        return replace(super().generate(difficulty, seed), tools=(), budgets=Budgets(10**6, 10**12, 10**9, 10**6))

    def ends_on_message(self, heard: Heard | None) -> bool:
        return False


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> SqliteTemplate:
    return SqliteTemplate.build(load_world("toy").template, tmp_path_factory.mktemp("templates"))


async def playing(template: SqliteTemplate, policy: MalformedPolicy) -> AsyncIterator[ToolEnvironment]:
    families: tuple[Family, ...] = (Talk(),)
    world = replace(load_world("toy"), tools=TOOLS, families=families, needs_cell=False)
    async with ToolEnvironment(world, template=template, cells=None, faults=NONE, malformed=policy) as env:
        yield env


def cases() -> list[dict[str, Json]]:
    files = (Path(__file__).parent / "calls.jsonl", SHARED / "tool_calls.jsonl")
    return [json.loads(line) for file in files if file.exists() for line in file.read_text().splitlines()]


def form_of(case: dict[str, Json]) -> CallFormat:
    raw = case["raw"]
    guess = "invoke" if "<invoke" in raw else "tags" if "<tool_call>" in raw else "mistral" if "[TOOL_CALLS]" in raw else "json"
    return CallFormat(case.get("format", guess))


def action_of(case: dict[str, Json]) -> Action:
    """As a runner makes it out of what a model gave."""
    if case["kind"] == "arguments":
        return ToolCalls((ToolCall(case["tool"], case["raw"]),))
    return read(read_body({"choices": [{"message": {"content": case["raw"]}}]}), form_of(case)).action


def expected(case: dict[str, Json]) -> str:
    """`ok`, `no_tool_call`, or the problem; the shared cases have more words after it, and some allow two answers."""
    found = re.match(r"(?:reject:)?(?P<what>[a-z_]+(?:\([^)]*\))?)", case["expect"])
    assert found is not None
    return "ok" if case["expect"].startswith("accept") else found["what"]


def differences(case: dict[str, Json], step: Step) -> list[str]:
    """What came of the case that should not have."""
    (result,), (event,) = step.observation.results, step.info.events or (None,)
    wanted = expected(case)
    if wanted == "no_tool_call":
        return [] if event is None and result["status"] == "ok" else [f"{case['id']}: {result}"]
    if event is None:
        return [f"{case['id']}: nothing was called"]
    if wanted == "ok":
        found = (result["status"], event.args, event.problem, event.repaired)
        values = case.get("values", event.args)
        same = repr(found) == repr(("ok", values, "", case.get("repaired", ""))) or case["id"].startswith("K")
        return [] if same and result.get("result") == values else [f"{case['id']}: {found}: {result}"]
    problem = Kind(wanted.split("(")[0])
    status = Rejected(problem, "").status.value
    if event.tool == "" and case["kind"] == "completion":  # no call came out of the text; its log has the raw text and the reason
        rejected = parse_completion(case["raw"], form_of(case))
        assert isinstance(rejected, Rejected)
        return [] if str(rejected).startswith(wanted) and event.args == case["raw"] else [f"{case['id']}: {rejected}"]
    same = event.problem == wanted or event.problem.split("(")[0] == wanted
    said = len(result.get("error", "")) in range(10, 700)
    return [] if same and said and result["status"] == status else [f"{case['id']}: {event.problem}: {result}"]


@pytest.mark.parametrize("policy", MalformedPolicy)
async def test_each_call_gets_its_answer_under_each_policy(template: SqliteTemplate, policy: MalformedPolicy) -> None:
    wrong: list[str] = []
    async for env in playing(template, policy):
        for case in cases():
            await env.reset("lending-desk/easy/seed-1")
            step = await env.step(action_of(case))
            wrong += differences(case, step)
            wrong += consequences(case, policy, step, None if step.done else (await env.snapshot()).spent.invalid_streak)
            if not step.done and (await env.step(GOOD)).observation.results[0]["status"] != "ok":
                wrong.append(f"{case['id']}: a good call after it fails")
    assert wrong == []


def consequences(case: dict[str, Json], policy: MalformedPolicy, step: Step, streak: int | None) -> list[str]:
    """Whether it was counted as invalid, charged, and an end, exactly when it should be."""
    invalid = expected(case) not in ("ok", "no_tool_call")
    ends = invalid and policy is MalformedPolicy.TERMINATE
    charge = -0.05 if invalid and policy is MalformedPolicy.PENALISE else 0.0
    found = (streak, step.reward_components["invalid_call"], step.terminated, step.truncated, step.info.end_cause)
    wanted = (None if ends else int(invalid), charge, ends, False, "malformed" if ends else "")
    return [] if found == wanted else [f"{case['id']}: {found}, not {wanted}"]


@pytest.mark.parametrize(("policy", "answered", "charge"), [("recover", 3, 0.0), ("penalise", 3, -0.1), ("terminate", 2, 0.0)])
async def test_of_several_calls_each_is_judged_on_its_own(template: SqliteTemplate, policy: str, answered: int, charge: float) -> None:
    calls = (ToolCall("list_tables", {}), ToolCall("shell", "{"), ToolCall("bash", {}))
    async for env in playing(template, MalformedPolicy(policy)):
        await env.reset("lending-desk/easy/seed-1")
        step = await env.step(ToolCalls(calls))
        assert [result["status"] for result in step.observation.results] == ["ok", "malformed_call", "unknown_tool"][:answered]
        assert step.reward_components["invalid_call"] == charge


@pytest.mark.skipif(not SHARED.exists(), reason="the shared cases are not here")
def test_schemas_are_those_of_the_reported_cases_but_for_defaults() -> None:
    for tool in json.loads((SHARED / "tool_call_tools.json").read_text()):
        found = arguments_schema(MODELS[tool["name"]])
        for schema in found["properties"].values():
            schema.pop("default", None)
        assert found == tool["parameters"]
