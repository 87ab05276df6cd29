"""Variants: tasks that a named operator makes of another task. The id of a variant says all of it, so it replays as any task does.

    billing-dispute/hard/seed-771+distractor.1+fault.issue_refund.0.timeout_after

An operator is a pure function of a task and a few words. It changes what the agent meets, and the truth with it, and refuses a task that
it has nothing to change in. A variant is never of a less strict split than the task that it is made of.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from wardian.envs.errors import TaskError
from wardian.envs.splits import Split, must_be, strictest
from wardian.envs.task import Task, TaskId
from wardian.tools.contract import Json
from wardian.tools.faults import DueFault, Fault, FaultPlan, possible

if TYPE_CHECKING:
    from wardian.envs.definition import WorldDefinition

FAULT = "fault"
MOST = 4
"""Operators in one id."""


@dataclass(frozen=True, slots=True)
class Broke:
    """Where a policy broke, as a log tells it."""

    tool: str = ""
    """Of the call that was wrong; empty where that was no call."""
    call: int = 0
    """Which call of that tool in the episode, from 0."""
    args: Mapping[str, Json] = field(default_factory=dict)
    failed_checks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Operator:
    """One way to make a variant, for the families that it names."""

    name: str
    """Of lower-case letters and `_`."""
    meaning: str
    families: tuple[str, ...]
    apply: Callable[[Task, tuple[str, ...]], Task]
    """From a task and the words after the name in the id. Raises `TaskError` where it does not apply. Id and split need no change."""
    suggest: Callable[[Task, Broke], Iterator[tuple[str, ...]]]
    """Words with which it is worth trying on a task that a policy broke at, the best first."""


def task_of(world: "WorldDefinition", task_id: TaskId) -> Task:
    """The task of an id, variant or not.

    Raises:
        TaskError: there is no such family or operator, or the operator does not apply.
    """
    task = world.family(task_id.family).generate(task_id.difficulty, task_id.seed)
    base = task
    if not task_id.variation:
        return task
    parts = task_id.variation.split("+")
    if len(parts) > MOST:
        raise TaskError(f"task_id: {task_id} has {len(parts)} operators, and {MOST} are allowed")
    for part in parts:
        name, *words = part.split(".")
        changed = _with_fault(world, task, words) if name == FAULT else _operator(world, task, name).apply(task, tuple(words))
        if replace(changed, id=task.id).hash == task.hash:
            raise TaskError(f"task_id: {part} changes nothing in {task.id}")
        task = changed
    family = world.family(task_id.family)
    split = strictest((Split(base.split), family.split_of(task.parameters))) if family.parameters else Split(task.split)
    return replace(task, id=task_id, split=split)


def trainable(world: "WorldDefinition", task_id: TaskId) -> Task:
    """The task of an id, if it may be learned from.

    Raises:
        HeldOut: it is of another split than `train`.
        TaskError: there is no such task.
    """
    task = task_of(world, task_id)
    must_be(Split.TRAIN, task_id, task.split)
    return task


def suggestions(world: "WorldDefinition", task: Task, broke: Broke) -> Iterator[TaskId]:
    """Ids of variants of `task` that are worth a try, one of each operator in turn; not all of them are solvable, or to be trained on."""
    own = [one.suggest(task, broke) for one in world.operators if task.id.family in one.families]
    names = [one.name for one in world.operators if task.id.family in one.families]
    queues = dict(zip([*names, FAULT], [*own, _suggest_fault(world, task, broke)], strict=True))
    while queues:
        for name in list(queues):
            words = next(queues[name], None)
            if words is None:
                del queues[name]
                continue
            part = ".".join((name, *words))
            variation = f"{task.id.variation}+{part}" if task.id.variation else part
            yield replace(task.id, variation=variation)


def _operator(world: "WorldDefinition", task: Task, name: str) -> Operator:
    known = [one for one in world.operators if task.id.family in one.families]
    for one in known:
        if one.name == name:
            return one
    names = ", ".join([*(one.name for one in known), FAULT])
    raise TaskError(f"task_id: no operator {name!r} for {task.id.family}; there are {names}")


def _with_fault(world: "WorldDefinition", task: Task, words: list[str]) -> Task:
    """The task with one more due fault: `fault.TOOL.CALL.KIND`."""
    tools = {tool.name: tool for tool in world.tools if not task.tools or tool.name in task.tools}
    if len(words) != 3 or words[0] not in tools or not words[1].isdigit() or words[2] not in list(Fault):
        raise TaskError(f"task_id: {'.'.join((FAULT, *words))!r} is not of the form fault.TOOL.CALL.KIND")
    due = DueFault(words[0], int(words[1]), Fault(words[2]))
    if due.fault not in possible(tools[due.tool], FaultPlan(revocable_scopes=task.revocable_scopes), due.fault):
        raise TaskError(f"task_id: the fault {due.fault} cannot happen to {due.tool}")
    others = tuple(one for one in task.due_faults if (one.tool, one.call) != (due.tool, due.call))
    return replace(task, due_faults=(*others, due))


def _suggest_fault(world: "WorldDefinition", task: Task, broke: Broke) -> Iterator[tuple[str, ...]]:
    """A fault where the policy broke: of what changes something first that it did not say whether it did."""
    for fault in (Fault.TIMEOUT_AFTER, Fault.TIMEOUT_BEFORE, Fault.UNAVAILABLE):
        if broke.tool:
            yield broke.tool, str(broke.call), fault.value
