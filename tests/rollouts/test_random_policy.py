"""The policy `random`: valid calls for any world, made of what was seen, equal for equal seeds."""

import jsonschema
import pytest

from wardian.envs.action import Action, Observation, ToolCalls
from wardian.envs.definition import WorldDefinition
from wardian.envs.environment import ToolEnvironment
from wardian.envs.registry import load_world, open_environment
from wardian.envs.task import Difficulty, TaskId
from wardian.rollouts.policies.base import TaskView
from wardian.rollouts.policies.chance import Seen, random_calls
from wardian.rollouts.policies.registry import load_policies
from wardian.tools.contract import Json

pytestmark = pytest.mark.anyio
SCHEMAS: dict[str, Json] = {}
"""Of every tool that was offered, by name."""


async def play(env: ToolEnvironment, world: WorldDefinition, seed: int) -> list[Action]:
    task_id = TaskId(world.families[0].name, Difficulty.MEDIUM, 1)
    first = await env.reset(str(task_id))
    for one in env.tool_schemas:
        SCHEMAS[one["function"]["name"]] = one["function"]["parameters"]
    solution = random_calls(first, TaskView(task_id, env.tool_schemas, seed))
    actions = [next(solution)]
    while not (step := await env.step(actions[-1])).done:
        actions.append(solution.send(step.observation))
    return actions


@pytest.mark.parametrize("name", ["toy", "billing"])
async def test_its_calls_fit_the_schemas_and_follow_its_seed(name: str) -> None:
    world = load_world(name)
    async with open_environment(world) as env:
        played = [await play(env, world, seed) for seed in (1, 1, *range(2, 12))]
    assert played[0] == played[1] != played[2]
    calls = [one for actions in played for action in actions if isinstance(action, ToolCalls) for one in action.calls]
    for one in calls:
        jsonschema.validate(one.args, SCHEMAS[one.tool])
    assert len(calls) > 50


def test_what_was_seen_is_remembered_by_name() -> None:
    seen = Seen()
    instruction = {"status": "ok", "result": {"instruction": "Work on ticket 77, see /workspace/tickets/77/."}}
    seen.first(Observation("", 0, (instruction,)))
    seen.take(Observation("", 0, ({"status": "ok", "result": {"items": [{"payment_id": 5}, {"payment_id": 6}]}},)))
    assert seen.of("payment_id") == [5, 6, 77]
    assert seen.of("path") == ["/workspace/tickets/77", 77]


def test_it_is_a_policy_by_name() -> None:
    world = load_world("toy")
    (policy,) = load_policies("random", world, "toy")
    assert (policy.name, policy.checkpoint) == ("random", f"random-toy@{world.version}")
