"""Policies by name.

`expert` plays the family's reference solution, `idle` ends at once, `careless`, `greedy` and `best-guess` are functions of the world's
module `policies`, `random` calls what the schemas allow, and `vandal` dirties whatever it can reach; `openai` is a model behind an
endpoint. One of your own is named `package.module:function`; the function gets the world and gives a `Policy` or a `BatchPolicy`.
"""

import importlib
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import cast

from wardian.envs import worlds
from wardian.envs.action import Message, Observation
from wardian.envs.definition import WorldDefinition
from wardian.envs.family import Solution
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.inference.batching import Batched, BatchPolicy
from wardian.rollouts.inference.options import EndpointOptions
from wardian.rollouts.inference.policy import NAME as OPENAI
from wardian.rollouts.inference.policy import EndpointPolicy
from wardian.rollouts.policies.base import Policy, Script, Scripted, TaskView
from wardian.rollouts.policies.chance import random_calls
from wardian.rollouts.policies.vandal import Wreck, vandal

OF_THE_WORLD = {"careless": "careless", "greedy": "greedy", "best-guess": "best_guess"}
"""Policies that a world may bring along, and the functions of its module `policies` that play them."""
SCRIPTED = ("expert", "idle", "careless", "vandal", "random", "greedy", "best-guess")
NAMES = (*SCRIPTED, OPENAI)


def load_policies(names: str, world: WorldDefinition, asked_for: str, endpoint: EndpointOptions | None = None) -> tuple[Policy, ...]:
    """The policies that `names` lists, separated by commas, for a world that was loaded as `asked_for`.

    `endpoint` is that of the policy `openai`.

    Raises:
        UsageProblem: there is no such policy, or this world has none of that name.
    """
    wanted = [name.strip() for name in names.split(",")]
    if not all(wanted):
        raise UsageProblem(f"policy: name at least one of {', '.join(NAMES)}, with commas between them; {names!r} has an empty name")
    return tuple(_endpoint(endpoint) if name == OPENAI else _load(name, world, asked_for) for name in wanted)


def _endpoint(options: EndpointOptions | None) -> Policy:
    if options is None:
        raise UsageProblem("policy: openai needs an endpoint and a model, which only a command with --base-url and --model can give")
    return EndpointPolicy.of(options)


def _load(name: str, world: WorldDefinition, asked_for: str) -> Policy:
    checkpoint = f"{name}-{world.name}@{world.version}"
    own = _module_of(asked_for)
    match name:
        case "expert":
            return Scripted(name, checkpoint, lambda first, view: world.family(view.task_id.family).reference(first))
        case "idle":
            return Scripted(name, checkpoint, _idle)
        case "random":
            return Scripted(name, checkpoint, random_calls)
        case "careless" | "greedy" | "best-guess":
            return Scripted(name, checkpoint, _own_script(own, OF_THE_WORLD[name], world.name))
        case "vandal":
            return Scripted(name, checkpoint, vandal(cast("Wreck | None", getattr(own, "vandal_calls", None))))
    return _custom(name, world)


def _own_script(own: ModuleType | None, function: str, world: str) -> Script:
    script = cast("Callable[[Observation], Solution] | None", getattr(own, function, None))
    if script is None:
        raise UsageProblem(f"policy: the world {world} has no {function!r} (a function of its module policies)")
    return lambda first, view: script(first)


def _idle(first: Observation, view: TaskView) -> Solution:
    yield Message("")


def _module_of(asked_for: str) -> ModuleType | None:
    """The module `policies` beside the one that defines the world."""
    module, _, function = asked_for.partition(":")
    package = module if function else f"{worlds.__name__}.{module}"
    try:
        return importlib.import_module(f"{package}.policies")
    except ModuleNotFoundError as error:
        if error.name and f"{package}.policies".startswith(error.name):
            return None
        raise


def _custom(name: str, world: WorldDefinition) -> Policy:
    module, _, function = name.partition(":")
    if not function or not module or module.startswith("."):
        raise UsageProblem(f"policy: no {name!r}; there are {', '.join(NAMES)}; one of your own is named package.module:function")
    try:
        make = cast("Callable[[WorldDefinition], Policy | BatchPolicy]", getattr(importlib.import_module(module), function))
    except (ImportError, AttributeError, SyntaxError) as error:
        raise UsageProblem(f"policy: {name!r} cannot be loaded: {error}; built in are {', '.join(NAMES)}") from error
    form = f"policy: {name!r} must be a function of one argument, the world, that gives a Policy"
    try:
        inspect.signature(make).bind(world)
    except TypeError as error:
        raise UsageProblem(f"{form}: {error}") from error
    try:
        made = make(world)
    except Exception as error:  # the edge to the user's own code
        raise UsageProblem(f"policy: {name!r} raised {type(error).__name__} when it was given the world: {error}") from error
    if not isinstance(getattr(made, "name", None), str):
        raise UsageProblem(f"{form}; it gave {type(made).__name__}")
    if isinstance(made, BatchPolicy):
        return Batched.of(made)
    return made
