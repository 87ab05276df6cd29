"""Worlds by name, and an environment with all that it needs for those who want just one."""

import importlib
import pkgutil

from wardian.envs import worlds
from wardian.envs.definition import WorldDefinition
from wardian.envs.errors import TaskError
from wardian.tools.faults import PROFILES, FaultProfile


def known_worlds() -> tuple[str, ...]:
    """Names of the built-in worlds."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(worlds.__path__) if module.ispkg))


def load_world(name: str) -> WorldDefinition:
    """Load a built-in world by its name, or a user's own as `package.module:function`.

    Raises:
        TaskError: there is no such world, or the function gives no `WorldDefinition`; says which are known.
    """
    module, _, function = name.partition(":")
    if not function:
        if name not in known_worlds():
            known = ", ".join(known_worlds())
            raise TaskError(f"world: no {name!r}; built in are {known}; one of your own is named package.module:function")
        module, function = f"{worlds.__name__}.{name}", "definition"
    try:
        make = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise TaskError(f"world: {name!r} cannot be loaded: {error}") from error
    found = make()
    if not isinstance(found, WorldDefinition):
        raise TaskError(f"world: {name!r} gave {type(found).__name__} and no WorldDefinition")
    return found


def profile(name: str) -> FaultProfile:
    """The shipped fault profile of that name.

    Raises:
        TaskError: there is none; says which are known.
    """
    if name not in PROFILES:
        raise TaskError(f"faults: no profile {name!r}; there are {', '.join(PROFILES)}")
    return PROFILES[name]
