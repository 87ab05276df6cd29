"""What goes wrong on the way has a defined outcome: wrong calls, output that is no call, timeouts, random calls under harsh faults."""

from collections import Counter
from collections.abc import Iterator

from wardian.envs.acting import INVALID
from wardian.envs.action import Action, Malformed, Step, ToolCalls, call
from wardian.envs.environment import ToolEnvironment
from wardian.envs.settings import MalformedPolicy
from wardian.rollouts.policies.base import Policy
from wardian.rollouts.qa.acting import play
from wardian.rollouts.qa.lab import Lab
from wardian.rollouts.qa.outcome import Outcome
from wardian.tools.contract import ToolCall
from wardian.tools.faults import HARSH, NONE, FaultProfile

TIMEOUTS = FaultProfile(name="qa-timeouts", timeout_before=0.3, timeout_after=0.3)
PLAYED = 2
"""Episodes of each kind, for each family."""


async def defined(lab: Lab) -> Outcome:
    """Nothing that an agent writes, and no fault, breaks an episode; a call that is wrong changes nothing."""
    found = Outcome(findings=[*lab.broken])
    found.findings += [f"{one.episode_id} of {one.policy}: failed by {one.end_cause}" for one in lab.own if one.outcome == "failed"]
    statuses: Counter[str] = Counter()
    wrong = 0
    async with lab.environment(NONE) as env:
        for family in lab.families:
            wrong += await _wrong_calls(env, lab.tasks(family)[0], found, statuses)
    for faults, policy in ((TIMEOUTS, "random"), (HARSH, "random"), (HARSH, "vandal")):
        async with lab.environment(faults) as env:
            await _at_random(lab, env, lab.policy(policy), found, statuses)
    await _policies(lab, found)
    found.figures = {"wrong_calls": wrong, "statuses": dict(statuses)}
    found.evidence.append(f"{wrong} wrong calls and texts, one at a time")
    found.evidence.append(
        f"for each family {PLAYED} episodes of random calls under timeouts, {PLAYED} under harsh faults, and {PLAYED} of vandals"
    )
    found.evidence.append("output that is no call under the policies recover, penalise and terminate")
    return found


async def _wrong_calls(env: ToolEnvironment, task_id: str, found: Outcome, statuses: Counter[str]) -> int:
    """Make each wrong call, in a new episode where the last one ended it; gives how many there were."""
    await env.reset(task_id)
    step: Step | None = None
    actions = list(wrong_actions([schema["function"]["name"] for schema in env.tool_schemas]))
    for action in actions:
        if step is not None and step.done:
            await env.reset(task_id)
        step = await env.step(action)
        statuses.update(event.status.value for event in step.info.events)
        text = str(action)[:120]
        if step.failed is not None:
            found.findings.append(f"{task_id}: {text} breaks the episode: {step.failed[:200]}")
        elif not step.info.events or any(event.status not in INVALID for event in step.info.events):
            found.findings.append(f"{task_id}: {text} is answered by {step.observation.rendered[:200]}")
        elif any(row not in [own for event in step.info.background for own in event.rows] for row in step.info.database) or step.info.files:
            found.findings.append(f"{task_id}: {text} changes the world")
    return len(actions)


def wrong_actions(tools: list[str]) -> Iterator[Action]:
    """Everything that models write in place of a call."""
    yield Malformed("I will now call the tool.", "There is no tool call in this text.")
    yield Malformed("\ud800\x00<|im_end|>" * 1000, "There is no tool call in this text.")
    yield ToolCalls(())
    yield call("no_such_tool")
    yield call("")
    for tool in tools:
        yield call(tool, no_such_argument=1)
        for raw in ('{"unfinished": ', "[]", "[" * 2000, '{"a": NaN}', '"text"'):
            yield ToolCalls((ToolCall(tool, raw),))


async def _at_random(lab: Lab, env: ToolEnvironment, policy: Policy, found: Outcome, statuses: Counter[str]) -> None:
    for family in lab.families:
        for seed, task_id in enumerate((lab.tasks(family) * PLAYED)[:PLAYED]):
            took = await play(env, policy, task_id, seed)
            statuses.update(event.status.value for step in took.played.steps for event in step.info.events)
            if took.last.failed is not None:
                action, why = str(took.actions[-1])[:120], took.last.failed[:200]
                found.findings.append(f"{task_id}: {policy.name} breaks the episode with {action}: {why}")


async def _policies(lab: Lab, found: Outcome) -> None:
    """Output that is no call costs and ends what each policy says."""
    babble = Malformed("Hm.", "There is no tool call in this text.")
    for malformed in MalformedPolicy:
        async with lab.environment(NONE, malformed) as env:
            for family in lab.families:
                task_id = lab.tasks(family)[0]
                await env.reset(task_id)
                step = await env.step(babble)
                charged = step.reward_components.get("invalid_call", 0.0)
                ends, costs = malformed is MalformedPolicy.TERMINATE, malformed is MalformedPolicy.PENALISE
                if step.failed is not None or step.terminated != ends or (charged != 0) != (costs and family.reward.invalid_call != 0):
                    found.findings.append(
                        f"{task_id}: under {malformed.value} a text that is no call gives {step.reward_components}, {step.info.end_cause}"
                    )
