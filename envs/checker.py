"""Walks any world through what every world must keep. One test of a world of your own is one call of it:

await check_environment(lambda faults: open_environment(world, faults=faults), world)
"""

import os
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import pairwise

import anyio

from wardian.envs.acting import INVALID
from wardian.envs.action import Action, Malformed, ToolCalls, call
from wardian.envs.conversation import SENDER
from wardian.envs.customer_check import customer_findings, drawn_text, made_of
from wardian.envs.definition import WorldDefinition
from wardian.envs.environment import ToolEnvironment
from wardian.envs.errors import NotReset
from wardian.envs.family import Family
from wardian.envs.observation import has_control_token
from wardian.envs.playing import Played, play_idle, play_messages, play_reference
from wardian.envs.task import Difficulty, Task, TaskId
from wardian.sandbox.streams import stream
from wardian.tools.contract import Json, ToolCall
from wardian.tools.faults import NONE, PROFILES, REALISTIC, FaultProfile

MakeEnvironment = Callable[[FaultProfile], AbstractAsyncContextManager[ToolEnvironment]]

_HASHES = """
import pickle, sys
for family, difficulty, seed in pickle.load(sys.stdin.buffer):
    print(family.generate(difficulty, seed).hash)
"""


TALKS = 12
"""Messages to a customer in one try."""


class EnvironmentBroken(AssertionError):
    """A world breaks its contract; the message lists every finding."""


async def check_environment(
    make_env: MakeEnvironment,
    world: WorldDefinition,
    *,
    seeds: Sequence[int] = (1, 2, 3),
    profiles: Sequence[FaultProfile] = tuple(PROFILES.values()),
) -> None:
    """Check tasks, customers, determinism, the reference solution, the idle agent, invalid calls, and the order of calls.

    Raises:
        EnvironmentBroken: with all findings, each naming family, difficulty, seed and profile.
    """
    findings = [*_check_tasks(world, seeds), *_check_customers(world, seeds), *await _check_other_process(world, seeds)]
    for profile in profiles:
        async with make_env(profile) as env:
            findings += await _check_reference(env, world, seeds, profile)
    async with make_env(NONE) as env:
        findings += await _check_order(env, world, seeds[0])
        findings += await _check_idle(env, world, seeds)
        findings += await _check_invalid_calls(env, world, seeds[0])
        findings += await _check_secrets(env, world, seeds)
    async with make_env(REALISTIC) as env:
        findings += await _check_determinism(env, world, seeds[0])
        findings += await _check_talk(env, world, seeds[0])
    if findings:
        raise EnvironmentBroken(f"{world.name}: {len(findings)} findings:\n" + "\n".join(findings))


def _cases(world: WorldDefinition, seeds: Sequence[int]) -> Iterator[tuple[Family, Difficulty, int]]:
    return ((family, difficulty, seed) for family in world.families for difficulty in family.difficulties for seed in seeds)


def _ids(world: WorldDefinition, seeds: Sequence[int]) -> list[str]:
    return [str(TaskId(family.name, difficulty, seed)) for family, difficulty, seed in _cases(world, seeds)]


def _check_tasks(world: WorldDefinition, seeds: Sequence[int]) -> Iterator[str]:
    cases = list(_cases(world, seeds))
    tasks = [family.generate(difficulty, seed) for family, difficulty, seed in cases]
    for (family, difficulty, seed), task in zip(cases, tasks, strict=True):
        if task.id != TaskId(family.name, difficulty, seed):
            yield f"{task.id}: generated for {family.name}/{difficulty.value}/seed-{seed}"
        if family.generate(difficulty, seed).hash != task.hash:
            yield f"{task.id}: generated twice, it is not the same task"
        yield from _check_declared(family, task)
    for one, other in pairwise(sorted(tasks, key=lambda task: task.hash)):
        if one.hash == other.hash:
            yield f"{one.id}: the same task as {other.id}"
    if has_control_token(world.policy) or any(has_control_token(task.instruction) for task in tasks):
        yield "instruction, policy: holds what looks like a control token of a chat template"


def _check_declared(family: Family, task: Task) -> Iterator[str]:
    """Whether a task is what its family declares."""
    difficulty, seed = task.id.difficulty, task.id.seed
    if task.split != (said := family.split_at(difficulty, seed)):
        yield f"{task.id}: is of the split {task.split}, and its parameters make it {said}"
    if not family.parameters:
        return
    drawn = family.drawn(difficulty, seed)
    outside = [one.name for one in family.parameters if drawn.get(one.name) not in one.at(difficulty)]
    broken = [rule.parameter for rule in family.constraints if not rule.kept(drawn)]
    other = [name for name, value in drawn.items() if task.parameters.get(name) != value]
    for names, what in ((outside, "out of range"), (broken, "against a constraint"), (other, "not those of the task")):
        if names:
            yield f"{task.id}: parameters {what}: {', '.join(names)}"


def _check_customers(world: WorldDefinition, seeds: Sequence[int]) -> Iterator[str]:
    for family, difficulty, seed in _cases(world, seeds):
        task = family.generate(difficulty, seed)
        customer, again = family.customer(task), family.customer(task)
        if customer is not None and again is not None:
            yield from customer_findings(task, customer, again)


async def _check_talk(env: ToolEnvironment, world: WorldDefinition, seed: int) -> list[str]:
    """Talk to the customer at length, twice: equal episodes, and not a word that the customer cannot say."""
    findings = []
    for task_id in _ids(world, [seed]):
        parsed = TaskId.parse(task_id)
        family = world.family(parsed.family)
        customer = family.customer(family.generate(parsed.difficulty, parsed.seed))
        if customer is None:
            continue
        drawn = (drawn_text(customer, stream(number, task_id)) for number in range(TALKS * 4))
        texts = [text for text in drawn if customer.hear(text).asks][:TALKS]
        one, other = [await play_messages(env, task_id, texts, seed) for _ in range(2)]
        if one.signature() != other.signature():
            findings.append(f"{task_id}: two talks of one seed differ")
        words = [word["text"] for step in one.steps for word in step.observation.incoming if word["from"] == SENDER]
        findings += [f"{task_id}: the customer says {text!r}" for text in words if not made_of(text, customer.sayings())]
    return findings


async def _check_other_process(world: WorldDefinition, seeds: Sequence[int]) -> list[str]:
    """Generate in a process with another hash seed, which shows any dependence on the order of sets. It finds modules where we do."""
    cases = list(_cases(world, seeds))
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "PYTHONPATH": os.pathsep.join(sys.path)}
    with anyio.fail_after(120):
        done = await anyio.run_process([sys.executable, "-c", _HASHES], input=pickle.dumps(cases), check=False, env=environment)
    if done.returncode != 0:
        return [f"tasks: cannot be generated in another process: {done.stderr.decode('utf-8', 'replace')[-500:]}"]
    tasks = [family.generate(difficulty, seed) for family, difficulty, seed in cases]
    hashes = done.stdout.decode().split()
    return [
        f"{task.id}: generated in another process, it is not the same task"
        for task, hashed in zip(tasks, hashes, strict=True)
        if task.hash != hashed
    ]


async def _check_reference(env: ToolEnvironment, world: WorldDefinition, seeds: Sequence[int], profile: FaultProfile) -> list[str]:
    findings = []
    for task_id in _ids(world, seeds):
        played = await play_reference(env, task_id, seed=len(task_id))
        wrong = _why_unsolved(played)
        if wrong:
            findings.append(f"{task_id} under {profile.name}: the reference does not solve it: {wrong}")
    return findings


def _why_unsolved(played: Played) -> str:
    last = played.last
    if last.failed is not None:
        return f"failed: {last.failed}"
    if not last.done or last.info.verdict is None:
        return f"it stopped after {len(played.steps)} steps, and the episode goes on"
    wrong = [f"{check.name}: {check.detail}" for check in last.info.verdict.checks if not check.passed]
    return f"ended by {last.info.end_cause}: {'; '.join(wrong)}" if wrong else ""


async def _check_idle(env: ToolEnvironment, world: WorldDefinition, seeds: Sequence[int]) -> list[str]:
    findings = []
    for task_id in _ids(world, seeds):
        last = (await play_idle(env, task_id)).last
        if last.failed is not None:
            findings.append(f"{task_id}: doing nothing fails: {last.failed}")
        elif last.info.verdict is None or last.info.verdict.succeeded:
            findings.append(f"{task_id}: doing nothing solves it")
    return findings


async def _check_determinism(env: ToolEnvironment, world: WorldDefinition, seed: int) -> list[str]:
    findings = []
    for task_id in _ids(world, [seed]):
        one, other = [(await play_reference(env, task_id, seed)).signature() for _ in range(2)]
        if one != other:
            at = next(i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b) if len(one) == len(other) else "its length"
            findings.append(f"{task_id}: two runs of one seed differ, first at step {at}")
    return findings


async def _check_invalid_calls(env: ToolEnvironment, world: WorldDefinition, seed: int) -> list[str]:
    findings = []
    for family in world.families:
        task_id = str(TaskId(family.name, family.difficulties[0], seed))
        await env.reset(task_id)
        for action in _invalid_actions([schema["function"]["name"] for schema in env.tool_schemas]):
            await env.reset(task_id)
            before = await env.snapshot()
            step = await env.step(action)
            if any(event.status not in INVALID for event in step.info.events) or not step.info.events:
                findings.append(f"{task_id}: {action} was answered by {step.observation.rendered}")
            by_world = [row for event in step.info.background for row in event.rows]
            if step.failed or step.info.files or any(row not in by_world for row in step.info.database):
                findings.append(f"{task_id}: {action} changed the world, or broke it: {step.failed}")
            if not step.done and not by_world and (await env.snapshot()).rows != before.rows:
                findings.append(f"{task_id}: {action} changed rows")
    return findings


def _invalid_actions(tools: list[str]) -> Iterator[Action]:
    yield Malformed("I will now call the tool.", "There is no tool call in this text.")
    yield ToolCalls(())
    yield call("no_such_tool")
    for tool in tools:
        yield call(tool, no_such_argument=1)
        yield ToolCalls((ToolCall(tool, '{"unfinished": '),))
        yield ToolCalls((ToolCall(tool, "[]"),))


async def _check_secrets(env: ToolEnvironment, world: WorldDefinition, seeds: Sequence[int]) -> list[str]:
    findings = []
    for task_id in _ids(world, seeds):
        first = await env.reset(task_id)
        task = env.reset_info.task
        shown = [first.rendered, str(env.tool_schemas), *(entry.data.decode("utf-8", "replace") for entry in task.files.entries.values())]
        for name in world.family(task.id.family).secret_parameters:
            findings += [f"{task_id}: {name} is given away: {text!r}" for text in _texts(task.parameters[name]) if text in "\n".join(shown)]
    return findings


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


async def _check_order(env: ToolEnvironment, world: WorldDefinition, seed: int) -> list[str]:
    """Calls out of order raise, and a reset gives one state."""
    findings = []
    task_id = _ids(world, [seed])[0]
    if not await _raises_not_reset(env):
        findings.append("step before reset: does not raise NotReset")
    await env.reset(task_id, seed)
    one = await env.snapshot()
    await env.reset(task_id, seed)
    findings += [f"{task_id}: two resets of one seed differ: {line}" for line in (await env.snapshot()).differences(one)]
    await play_idle(env, task_id)
    if not await _raises_not_reset(env):
        findings.append("step after the end: does not raise NotReset")
    return findings


async def _raises_not_reset(env: ToolEnvironment) -> bool:
    try:
        await env.step(call("no_such_tool"))
    except NotReset:
        return True
    return False
