"""Worlds by name, and an environment with all that it needs for those who want just one."""

import importlib
import inspect
import pkgutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread

from wardian.envs import worlds
from wardian.envs.definition import WorldDefinition
from wardian.envs.environment import ToolEnvironment
from wardian.envs.errors import TaskError
from wardian.envs.settings import MalformedPolicy, Settings
from wardian.envs.splits import split_named
from wardian.sandbox.adoption.adopted import cell_image
from wardian.sandbox.cell import CellSpec, Tier
from wardian.sandbox.database.choice import DatabaseChoice, open_template
from wardian.sandbox.pool import CellPool
from wardian.tools.errors import ToolMisdeclared
from wardian.tools.faults import PROFILES, SUFFIX, FaultProfile, load_profile
from wardian.tools.packs.shell import SHELL


def known_worlds() -> tuple[str, ...]:
    """Names of the built-in worlds."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(worlds.__path__) if module.ispkg))


def load_world(name: str) -> WorldDefinition:
    """Load a built-in world by its name, or a user's own as `package.module:function`.

    Raises:
        TaskError: there is no such world, or the function gives no `WorldDefinition`; says which are known.
    """
    module, _, function = name.partition(":")
    if not function or not module or module.startswith("."):
        if name not in known_worlds():
            known = ", ".join(known_worlds())
            here = f"; did you mean {name}:definition?" if name.isidentifier() and Path(name, "__init__.py").is_file() else ""
            raise TaskError(f"world: no {name!r}; built in are {known}; one of your own is named package.module:function{here}")
        module, function = f"{worlds.__name__}.{name}", "definition"
    try:
        make = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, SyntaxError) as error:
        where = "; looked in the current folder and PYTHONPATH" if isinstance(error, ModuleNotFoundError) else ""
        raise TaskError(f"world: {name!r} cannot be loaded: {error}{where}") from error
    found = _called(name, make)
    if not isinstance(found, WorldDefinition):
        raise TaskError(f"world: {name!r} gave {type(found).__name__} and no WorldDefinition")
    return found


def _called(name: str, make: object) -> object:
    if not callable(make):
        raise TaskError(f"world: {name!r} is no function, but {type(make).__name__}")
    try:
        inspect.signature(make).bind()
    except TypeError as error:
        raise TaskError(f"world: {name!r} cannot be called without arguments: {error}") from error
    return make()


def profile(name: str, world: WorldDefinition | None = None) -> FaultProfile:
    """The shipped fault profile of that name, or one of a user's own from a file, whose tools must be those of `world`.

    Raises:
        TaskError: there is none, which says which are known; or the file is wrong, which says where.
    """
    if name in PROFILES:
        return PROFILES[name]
    if not name.endswith(SUFFIX):
        raise TaskError(
            f"faults: no profile {name!r}; there are {', '.join(PROFILES)}, and one of your own is a file, such as mine{SUFFIX}"
        )
    try:
        return load_profile(Path(name), world.tools if world else None)
    except ToolMisdeclared as error:
        raise TaskError(str(error)) from error


def cell_spec(world: WorldDefinition, tier: Tier = Tier.CHAMBER, runtime: str | None = None, image: str | None = None) -> CellSpec:
    """The cells that `world` runs in, of the agent image or of the adopted one called `image`.

    Raises:
        CellUnavailable: the agent image is not built; says how to.
        ImageUnfit: `image` is not there, or was not adopted.
        TaskError: the world has the tool `shell`, and `image` has no shell.
        EngineUnavailable: the engine did not answer.
    """
    layers = (world.files,) if world.files.entries else ()
    found = cell_image(image)
    if not found.shell and any(tool.handler is SHELL.handler for tool in world.tools):
        raise TaskError(
            f"image: {image} has no shell, which the tool 'shell' of the world {world.name} needs; take it out of the world's tools"
        )
    return CellSpec(image=found.reference, tier=tier, layers=layers, shell=found.shell, environment=found.environment, runtime=runtime)


@asynccontextmanager
async def open_environment(
    world: WorldDefinition,
    *,
    faults: str | FaultProfile = "none",
    malformed: MalformedPolicy = MalformedPolicy.RECOVER,
    tier: Tier = Tier.CHAMBER,
    image: str | None = None,
    database: DatabaseChoice | None = None,
    forks: int = 0,
    split: str | None = None,
) -> AsyncIterator[ToolEnvironment]:
    """Open one environment with a cell and a template of its own; everything is gone when the block ends.

    `database` says which engine holds the world's database, and where; `None` is SQLite. `forks`: how many forks of its episode there
    may be at once, each of which has a cell. With `split` a reset for a task of another split raises `HeldOut`; whoever learns from what
    is played gives `train`.

    Raises:
        TaskError: there is no such fault profile or split, or the image lacks what the world's tools need.
        SandboxError: the cell or the template cannot be made.
    """
    chosen = profile(faults, world) if isinstance(faults, str) else faults
    if split is not None:
        split_named(split)
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="wardian-"))
        choice = database or DatabaseChoice()
        template = await stack.enter_async_context(open_template(world.template, choice, 1 + forks, directory=Path(directory)))
        spec = await anyio.to_thread.run_sync(cell_spec, world, tier, None, image) if world.needs_cell else None
        cells = await stack.enter_async_context(CellPool(spec, size=1 + forks)) if spec else None
        settings = Settings(split=split)
        yield await stack.enter_async_context(
            ToolEnvironment(world, template=template, cells=cells, faults=chosen, malformed=malformed, settings=settings)
        )
