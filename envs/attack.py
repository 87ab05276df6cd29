"""What a world says about its own verifiers: failures that look like success, and changes of a solved state that make no difference.

An attack is an edit of the reference solution: its actions, in order, become other actions. `wardian redteam` plays each, and the verdict
must fail by the checks that the attack names. An allowance says of mutants of a solved state, by a pattern, why they may still pass;
`wardian mutate` counts all others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from wardian.envs.action import Action, Message, ToolCalls
from wardian.envs.task import Task
from wardian.tools.contract import Json, ToolCall


@dataclass(frozen=True, slots=True)
class Solved:
    """A task, and how the reference solved it."""

    task: Task
    actions: tuple[Action, ...]
    results: tuple[Mapping[str, Json], ...]
    """Of each action: `status`, and `result` or `error`; of several calls at once, the first one's."""

    def args(self, tool: str) -> dict[str, Any]:
        """Arguments of the first call of `tool`.

        Raises:
            LookupError: the reference did not call it.
        """
        found = next((one.args for action in self.actions for one in _calls(action) if one.tool == tool), None)
        if not isinstance(found, dict):
            raise LookupError(f"the reference of {self.task.id} does not call {tool}")
        return found


Edit: TypeAlias = Callable[[Solved], Sequence[Action]]


@dataclass(frozen=True, slots=True)
class Attack:
    """A failure that looks like success."""

    name: str
    claim: str
    """What is wrong with it, in words."""
    edit: Edit
    """All actions of the episode. Without a message at the end, one is added."""
    fails: frozenset[str]
    """Checks that must fail; others may."""
    suits: Callable[[Task], bool] = lambda task: True
    """Tasks that it can be tried on."""
    refused: tuple[str, ...] = ()
    """Tools whose calls may be refused: the attempt is the attack. A refused call of any other tool is no attack, and is reported."""


def attack(name: str, claim: str, edit: Edit, *fails: str, suits: Callable[[Task], bool] | None = None, refused: str = "") -> Attack:
    """Make an attack; `refused` names tools, separated by blanks."""
    more = {} if suits is None else {"suits": suits}
    return Attack(name, claim, edit, frozenset(fails), refused=tuple(refused.split()), **more)


@dataclass(frozen=True, slots=True)
class Allowance:
    """Mutants that may pass."""

    mutants: str
    """A pattern of the shell over their names, such as `* own refunds.created_at`."""
    reason: str
    families: tuple[str, ...] = ()
    """Only in these; empty means all."""

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise ValueError(f"reason: say why {self.mutants!r} may pass")


def kept(solved: Solved) -> Sequence[Action]:
    """The reference's actions as they are."""
    return solved.actions


def without(*tools: str) -> Edit:
    """Leave out each call of these tools."""
    return lambda solved: [action for action in solved.actions if not _is_call(action, tools)]


def only(*tools: str) -> Edit:
    """Make the calls of these tools alone."""
    return lambda solved: [action for action in solved.actions if _is_call(action, tools) or isinstance(action, Message)]


def twice(tool: str) -> Edit:
    """Make each call of `tool` again, without a key that would hold it back."""

    def edit(solved: Solved) -> list[Action]:
        again = [action for action in solved.actions for _ in range(2 if _is_call(action, (tool,)) else 1)]
        return [_changed(action, {"idempotency_key": None}) if _is_call(action, (tool,)) else action for action in again]

    return edit


def instead(tool: str, change: Callable[[dict[str, Any]], Mapping[str, Json]] | None = None, **args: Json) -> Edit:
    """Call `tool` with other arguments: `args`, and what `change` makes of the ones that it was called with; `None` takes one out."""

    def edit(action: Action) -> Action:
        if not isinstance(action, ToolCalls) or not _is_call(action, (tool,)):
            return action
        first = action.calls[0].args
        return _changed(action, {**args, **(change(dict(first)) if change and isinstance(first, dict) else {})})

    return lambda solved: list(map(edit, solved.actions))


def put(before: str | tuple[str, ...], *actions: Action | Callable[[Solved], Action], to: Edit = kept) -> Edit:
    """Do `actions` before the first call of a tool `before`, or before the last message where it is empty; the rest as `to`."""
    names = (before,) if isinstance(before, str) else before

    def edit(solved: Solved) -> list[Action]:
        found = list(to(solved))
        made = [action(solved) if callable(action) else action for action in actions]
        end = len(found) - 1 if found and isinstance(found[-1], Message) else len(found)
        at = next((number for number, action in enumerate(found) if _is_call(action, names)), end) if before else end
        return [*found[:at], *made, *found[at:]]

    return edit


def moved(tool: str, *, before: str = "", to: Edit = kept) -> Edit:
    """Make the calls of `tool` before the first one of `before`, or at the end where it is empty."""

    def edit(solved: Solved) -> Sequence[Action]:
        found = to(solved)
        mine, rest = ([action for action in found if _is_call(action, (tool,)) == wanted] for wanted in (True, False))
        return put(before, *mine)(replace(solved, actions=tuple(rest)))

    return edit


def _calls(action: Action) -> tuple[ToolCall, ...]:
    return action.calls if isinstance(action, ToolCalls) else ()


def _is_call(action: Action, tools: Sequence[str]) -> bool:
    return any(one.tool in tools for one in _calls(action))


def _changed(action: Action, args: Mapping[str, Json]) -> Action:
    """The action with other arguments; `None` takes one out."""
    assert isinstance(action, ToolCalls), "only calls have arguments"
    changed = []
    for one in action.calls:
        assert isinstance(one.args, dict), "a reference gives arguments as an object"
        merged = {**one.args, **args}
        changed.append(ToolCall(one.tool, {name: value for name, value in merged.items() if value is not None}))
    return ToolCalls(tuple(changed))
