"""A world that is served: its ground, which all its episodes share, and its tasks, listed once and for all by split."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice

from wardian.envs.definition import WorldDefinition
from wardian.envs.environment import ToolEnvironment
from wardian.envs.registry import profile
from wardian.envs.settings import Settings
from wardian.envs.splits import Split, must_be, split_named
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.ground import Ground, open_ground
from wardian.rollouts.recording import Setting, tool_schemas, versions_of
from wardian.rollouts.sampling import Group, groups_of
from wardian.sandbox.cell import Tier
from wardian.sandbox.database.choice import DatabaseChoice
from wardian.tools.contract import Json
from wardian.trainers.server.options import ServeOptions
from wardian.trainers.server.problems import Code, Problem
from wardian.trainers.server.wire import Reset


@dataclass(slots=True)
class TaskList:
    """The tasks of one split, drawn when they are first asked for, and always the same ones."""

    world: WorldDefinition
    split: Split
    seed: int
    most: int
    _drawn: list[Group] = field(default_factory=list)
    _source: Iterator[Group] | None = None

    def __len__(self) -> int:
        self._draw(self.most)
        return len(self._drawn)

    @property
    def some(self) -> bool:
        """Whether there is any."""
        self._draw(1)
        return bool(self._drawn)

    def at(self, index: int) -> Group:
        """The task at `index`.

        Raises:
            IndexError: there is none.
        """
        self._draw(index + 1)
        return self._drawn[index]

    def _draw(self, count: int) -> None:
        if self._source is None:
            self._source = groups_of(self.world, seed=self.seed, size=1, split=self.split)
        missing = min(count, self.most) - len(self._drawn)
        if missing > 0:
            try:
                self._drawn += islice(self._source, missing)
            except UsageProblem:  # there are no more tasks of this split, or none
                self.most = len(self._drawn)


@dataclass(slots=True)
class ServedWorld:
    name: str
    ground: Ground
    setting: Setting
    options: ServeOptions
    tool_names: frozenset[str] = field(init=False)
    _lists: dict[Split, TaskList] = field(default_factory=dict)
    _next: int = 0

    def __post_init__(self) -> None:
        self.tool_names = frozenset(tool.name for tool in self.world.tools)

    @property
    def world(self) -> WorldDefinition:
        """Its definition."""
        return self.ground.world

    @property
    def schemas(self) -> list[dict[str, Json]]:
        """Of all its tools, in the OpenAI format."""
        return tool_schemas(self.world)

    @property
    def splits(self) -> tuple[Split, ...]:
        """Those that are served and have tasks."""
        served = tuple(Split) if self.options.split is None else (self.options.split,)
        return tuple(one for one in served if self.tasks(one).some)

    def tasks(self, split: Split) -> TaskList:
        """The list of a split.

        Raises:
            HeldOut: it is not served.
        """
        must_be(self.options.split, f"the list of {self.name}", split)
        if split not in self._lists:
            self._lists[split] = TaskList(self.world, split, self.options.seed, self.options.tasks)
        return self._lists[split]

    def listed(self, split: Split, index: int) -> dict[str, Json]:
        """One entry of a list."""
        group = self.tasks(split).at(index)
        task = group.task_id
        return {
            "index": index,
            "split": split.value,
            "task_id": str(task),
            "family": task.family,
            "difficulty": task.difficulty.value,
            "seed": group.seed,
            "world": self.name,
        }

    def chosen(self, ask: Reset) -> tuple[str, int]:
        """Task id and seed of the episode that is asked for.

        Raises:
            Problem: there is no such task in the list.
            TaskError: no such split, or one that is not served.
        """
        if ask.task_id is not None:
            return ask.task_id, ask.seed or 0
        split = split_named(ask.split) if ask.split is not None else self.options.split or Split.TRAIN
        tasks, index = self.tasks(split), ask.index
        if index is None:
            index, self._next = self._next % max(1, len(tasks)), self._next + 1
        try:
            group = tasks.at(index)
        except IndexError:
            there = f"there are {len(tasks)}, from 0" if len(tasks) else "there are none"
            raise Problem(Code.VALIDATION_ERROR, f"index: no {index} in the split {split.value}; {there}", status=400) from None
        return str(group.task_id), group.seed if ask.seed is None else ask.seed

    def environment(self) -> ToolEnvironment:
        """One more environment over the shared ground; only of the split that is served."""
        settings = Settings(split=self.options.split, recompute_every=self.setting.recompute_every)
        return self.ground.environment(self.setting.faults, self.options.malformed, settings, tokenizer=self.setting.tokenizer)


@asynccontextmanager
async def open_world(
    world: WorldDefinition,
    asked_for: str,
    options: ServeOptions,
    *,
    cells: int,
    tier: Tier | None = None,
    image: str | None = None,
    database: DatabaseChoice | None = None,
) -> AsyncIterator[ServedWorld]:
    """Open the ground of a world and serve on it; all is gone when the block ends.

    Raises:
        TaskError: no such fault profile, or the image lacks what the world's tools need.
        SandboxError: the engine, a cell or the template cannot be had.
    """
    faults = profile(options.faults, world)
    async with open_ground(world, cells=cells, tier=tier, image=image, database=database, free_cell_s=options.limits.wait_s) as ground:
        setting = Setting(
            world=world,
            asked_for=asked_for,
            versions=versions_of(ground),
            faults=faults,
            malformed=options.malformed.value,
            recompute_every=Settings().recompute_every,
            split=options.split.value if options.split else None,
        )
        yield ServedWorld(world.name, ground, setting, options)
